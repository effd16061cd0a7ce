"""Fitted classifiers: scikit-learn and what follows its interface, and the boosters of XGBoost and LightGBM."""

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from verax.core.arrays import ArrayKind
from verax.core.packages import optional_package
from verax.scoring.adapters.base import Returns, as_numpy

_OBJECTIVES: dict[str, dict[str, Returns]] = {
    "xgboost": {"binary:logistic": "probabilities", "multi:softprob": "probabilities", "binary:logitraw": "logits"},
    "lightgbm": {"binary": "probabilities", "multiclass": "probabilities"},
}


@dataclass(frozen=True)
class SklearnClassifier:
    """A fitted classifier with scikit-learn's interface, asked for its class probabilities."""

    estimator: Any
    returns: Returns = "probabilities"
    module: None = None

    @property
    def feature_names(self) -> Sequence[str] | None:
        """The columns that it was fitted on, if it was fitted on a data frame."""
        return fitted_names(self.estimator)

    @property
    def labels(self) -> Sequence[Any] | None:
        """Its classes, in the order of their probabilities."""
        return fitted_labels(self.estimator)

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        """Ask for probabilities on a NumPy copy of the batch, or on a data frame if the model was fitted on one."""
        rows = self._named(as_numpy(batch))
        try:
            found = self.estimator.predict_proba(rows)
        except TypeError as error:  # such as trees that were fitted on categories
            raise TypeError(
                f"model: {type(self.estimator).__name__} cannot score rows of numbers ({error}). If it was fitted on "
                "words or categories, see verax.adapters.encoded."
            ) from error
        if isinstance(found, list):
            raise ValueError(
                f"model: {type(self.estimator).__name__} predicts {len(found)} outputs, each with classes of its own; "
                "wanted is a classifier with one output."
            )
        return found

    def _named(self, array: Any) -> Any:
        """Put back the column names that the estimator was fitted with: it warns, or fails, without them."""
        names = self.feature_names
        if names is None:
            return array
        if array.shape[1:] != (len(names),):
            raise ValueError(
                f"inputs: {type(self.estimator).__name__} was fitted on {len(names)} columns ({', '.join(names)}), "
                f"found rows of shape {array.shape[1:]}."
            )
        pandas = optional_package("pandas", "pandas", "model: a classifier that was fitted on a data frame")
        return pandas.DataFrame(array, columns=names)


@dataclass(frozen=True)
class XgboostBooster:
    """A booster of XGBoost's own interface, which takes its own kind of matrix."""

    booster: Any
    returns: Returns
    module: None = None

    @property
    def feature_names(self) -> Sequence[str] | None:
        """The columns that it was trained on, if they had names."""
        names: Sequence[str] | None = self.booster.feature_names
        return names

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        """Predict on a matrix made of the batch; columns are known by their order."""
        if batch.shape[1:] != (self.booster.num_features(),):  # XGBoost would not notice
            raise ValueError(
                f"inputs: the booster was trained on {self.booster.num_features()} features, "
                f"found rows of shape {tuple(batch.shape[1:])}."
            )
        matrix = importlib.import_module("xgboost").DMatrix(as_numpy(batch))
        return self.booster.predict(matrix, validate_features=False)


@dataclass(frozen=True)
class LightgbmBooster:
    """A booster of LightGBM's own interface."""

    booster: Any
    returns: Returns
    module: None = None

    @property
    def feature_names(self) -> Sequence[str] | None:
        """The columns that it was trained on, if they had names."""
        return _own_names(self.booster.feature_name())

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        """Predict on a NumPy copy of the batch; columns are known by their order."""
        return np.asarray(self.booster.predict(as_numpy(batch)))


def fitted_names(estimator: Any) -> Sequence[str] | None:
    """The columns that an estimator with scikit-learn's interface was fitted on, if they had names."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else _own_names([str(name) for name in names])


def fitted_labels(estimator: Any) -> Sequence[Any] | None:
    """The classes of an estimator with scikit-learn's interface, unless it has several outputs."""
    classes = getattr(estimator, "classes_", None)
    return None if classes is None or isinstance(classes, list) else np.asarray(classes).tolist()


def _own_names(names: Sequence[str]) -> Sequence[str] | None:
    """Names that somebody gave; LightGBM numbers the columns of plain arrays."""
    return None if list(names) == [f"Column_{place}" for place in range(len(names))] else names


def is_booster(model: object) -> bool:
    """Tell a booster of XGBoost or LightGBM without importing either."""
    return type(model).__name__ == "Booster" and type(model).__module__.split(".")[0] in _OBJECTIVES


def adapt_booster(model: Any, returns: Returns | None) -> XgboostBooster | LightgbmBooster:
    """Find out from the booster's objective what it returns."""
    package = type(model).__module__.split(".")[0]
    if package == "xgboost":
        objective = json.loads(model.save_config())["learner"]["objective"]["name"]
    else:
        objective = model.dump_model(num_iteration=1).get("objective", "none").split(" ")[0]
    known = _OBJECTIVES[package]
    if objective not in known:
        raise ValueError(
            f"model: this {package} booster has the objective {objective}; "
            f"wanted is one whose predictions are class scores: {', '.join(known)}."
        )
    _refuse_other(returns, known[objective], f"a booster with the objective {objective}")
    return XgboostBooster(model, known[objective]) if package == "xgboost" else LightgbmBooster(model, known[objective])


def adapt_classifier(model: object, returns: Returns | None) -> SklearnClassifier:
    """Check that an estimator is a fitted classifier."""
    name = type(model).__name__
    if not hasattr(model, "predict_proba"):
        raise TypeError(
            f"model: {name} has no predict_proba; calibrate it (sklearn.calibration.CalibratedClassifierCV) or "
            'wrap its decision function: verax.Scorer(model.decision_function, returns="logits", takes="numpy").'
        )
    if not hasattr(model, "classes_"):
        raise ValueError(f"model: {name} is not fitted (it has no classes_); call fit first.")
    _refuse_other(returns, "probabilities", f"{name}.predict_proba")
    return SklearnClassifier(model)


def _refuse_other(said: Returns | None, fact: Returns, what: str) -> None:
    if said not in (None, fact):
        raise ValueError(f'returns: {what} gives {fact}; leave returns out or say "{fact}".')
