"""Boosters of XGBoost's and LightGBM's own interfaces."""

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from verax.core.arrays import ArrayKind
from verax.scoring.adapters.base import Returns, as_numpy
from verax.scoring.adapters.estimators import own_names, refuse_other

_CLASSES: dict[str, dict[str, Returns]] = {
    "xgboost": {"binary:logistic": "probabilities", "multi:softprob": "probabilities", "binary:logitraw": "logits"},
    "lightgbm": {"binary": "probabilities", "multiclass": "probabilities"},
}
_VALUES = {  # how the names of objectives begin whose predictions are values
    "xgboost": ("reg:", "count:", "rank:", "survival:"),
    "lightgbm": (
        *("regression", "huber", "fair", "poisson", "quantile", "mape", "gamma", "tweedie"),
        *("lambdarank", "rank_xendcg", "cross_entropy"),
    ),
}


@dataclass(frozen=True)
class XgboostBooster:
    """A booster of XGBoost's own interface, which takes its own kind of matrix."""

    booster: Any
    returns: Returns
    module: None = None
    takes_missing: bool = True

    @property
    def feature_names(self) -> Sequence[str] | None:
        """The columns that it was trained on, if they had names."""
        names: Sequence[str] | None = self.booster.feature_names
        return names

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        """Predict on a matrix made of the batch; columns are known by their order."""
        _check_width(batch, self.booster.num_features())  # XGBoost would not notice
        matrix = importlib.import_module("xgboost").DMatrix(as_numpy(batch))
        return self.booster.predict(matrix, validate_features=False)


@dataclass(frozen=True)
class LightgbmBooster:
    """A booster of LightGBM's own interface."""

    booster: Any
    returns: Returns
    module: None = None
    takes_missing: bool = True

    @property
    def feature_names(self) -> Sequence[str] | None:
        """The columns that it was trained on, if they had names."""
        return own_names(self.booster.feature_name())

    @property
    def categorical(self) -> list[str]:
        """The columns that it was trained on as categories; the booster lists the values of those alone."""
        infos = self.booster.dump_model(num_iteration=1).get("feature_infos", {})
        return [name for name, info in infos.items() if info.get("values")]

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        """Predict on a NumPy copy of the batch; columns are known by their order."""
        _check_width(batch, self.booster.num_feature())  # LightGBM would print lines of its own
        return np.asarray(self.booster.predict(as_numpy(batch)))


def _check_width(batch: Tensor, count: int) -> None:
    if batch.shape[1:] != (count,):
        raise ValueError(
            f"inputs: the booster was trained on {count} features, got rows of shape {tuple(batch.shape[1:])}."
        )


def is_booster(model: object) -> bool:
    """Tell a booster of XGBoost or LightGBM without importing either."""
    return type(model).__name__ == "Booster" and type(model).__module__.split(".")[0] in _CLASSES


def adapt_booster(model: Any, returns: Returns | None) -> XgboostBooster | LightgbmBooster:
    """Find out from the booster's objective what it returns."""
    package = type(model).__module__.split(".")[0]
    if package == "xgboost":
        objective = json.loads(model.save_config())["learner"]["objective"]["name"]
    else:
        objective = model.dump_model(num_iteration=1).get("objective", "none").split(" ")[0]
    found: Returns | None = "values" if objective.startswith(_VALUES[package]) else _CLASSES[package].get(objective)
    if found is None:
        raise ValueError(
            f"model: this {package} booster has the objective {objective}; wanted is one whose predictions are class "
            f"scores ({', '.join(_CLASSES[package])}) or values ({', '.join(_VALUES[package])}...). Where you know "
            f'what it predicts, wrap it: verax.Scorer(model.predict, returns=..., takes="numpy").'
        )
    refuse_other(returns, found, f"a booster with the objective {objective}")
    return XgboostBooster(model, found) if package == "xgboost" else LightgbmBooster(model, found)
