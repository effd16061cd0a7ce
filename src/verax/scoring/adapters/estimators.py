"""Fitted estimators with scikit-learn's interface, CatBoost's among them, and boosters of XGBoost and LightGBM."""

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


@dataclass(frozen=True)
class Estimator:
    """A fitted estimator with scikit-learn's interface."""

    estimator: Any  # the classifier or regressor
    returns: Returns  # probabilities of a classifier's ``predict_proba``, or values of a regressor's ``predict``
    module: None = None

    @property
    def feature_names(self) -> Sequence[str] | None:
        return fitted_names(self.estimator)

    @property
    def labels(self) -> Sequence[Any] | None:
        return fitted_labels(self.estimator) if self.returns == "probabilities" else None

    @property
    def takes_missing(self) -> bool:
        return _allows_nan(self.estimator)

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        name, rows, names = type(self.estimator).__name__, as_numpy(batch), self.feature_names
        if names is not None and rows.shape[1:] != (len(names),):
            raise ValueError(
                f"inputs: {name} was fitted on {len(names)} columns ({', '.join(names)}), got rows of shape "
                f"{rows.shape[1:]}."
            )
        if names is not None:  # it warns, or fails, without them
            pandas = optional_package("pandas", "pandas", "model: an estimator that was fitted on a data frame")
            rows = pandas.DataFrame(rows, columns=names)
        try:
            outputs = predictions(self.estimator, self.returns, rows)
        except TypeError as error:  # such as trees that were fitted on categories
            reason = str(error).removeprefix("model: ")
            raise TypeError(
                f"model: {name} cannot score rows of numbers ({reason}). If it was fitted on words or categories, see "
                "verax.tables.problem."
            ) from error
        if isinstance(outputs, list):
            raise ValueError(
                f"model: {name} predicts {len(outputs)} outputs, each with classes of its own; expected a classifier "
                "with one output."
            )
        return outputs


def predictions(estimator: Any, returns: Returns, rows: Any) -> Any:
    ask = estimator.predict_proba if returns == "probabilities" else estimator.predict
    errors = (importlib.import_module("catboost").CatBoostError,) if is_catboost(estimator) else ()
    try:
        return ask(rows)
    except errors as error:
        raise TypeError(
            f"model: CatBoost does not take the rows: {error} Hand over its categories as text or as categories of "
            "pandas, with a word for what is missing among them."
        ) from None


def adapt_estimator(model: Any, returns: Returns | None) -> Estimator:
    model = _catboost_with_interface(model) if is_catboost(model) else model
    name = type(model).__name__
    base, validation = (importlib.import_module(f"sklearn.{module}") for module in ("base", "utils.validation"))
    if hasattr(model, "fit") and hasattr(model, "predict") and base.is_regressor(model):
        try:
            validation.check_is_fitted(model)
        except importlib.import_module("sklearn.exceptions").NotFittedError:
            raise ValueError(f"model: {name} is not fitted; call fit first.") from None
        _check_same(returns, "values", f"{name}.predict")
        return Estimator(model, "values")
    if not hasattr(model, "predict_proba"):
        raise TypeError(
            f"model: {name} has no predict_proba; calibrate it (sklearn.calibration.CalibratedClassifierCV) or "
            'wrap its decision function: verax.Scorer(model.decision_function, returns="logits", takes="numpy").'
        )
    if not hasattr(model, "classes_"):
        raise ValueError(f"model: {name} is not fitted (it has no classes_); call fit first.")
    _check_same(returns, "probabilities", f"{name}.predict_proba")
    return Estimator(model, "probabilities")


def fitted_names(estimator: Any) -> Sequence[str] | None:
    """The columns that an estimator with scikit-learn's interface was fitted on, if they had names."""
    if is_catboost(estimator):  # which numbers the columns of plain arrays
        columns = [str(name) for name in estimator.feature_names_ or ()]
        return None if columns == [str(place) for place in range(len(columns))] else columns
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else _user_names([str(name) for name in names])


def fitted_labels(estimator: Any) -> Sequence[Any] | None:
    """The classes of an estimator with scikit-learn's interface, unless it has several outputs."""
    classes = getattr(estimator, "classes_", None)
    return None if classes is None or isinstance(classes, list) else np.asarray(classes).tolist()


def _user_names(names: Sequence[str]) -> Sequence[str] | None:
    """Names that a user gave; LightGBM numbers the columns of plain arrays."""
    return None if list(names) == [f"Column_{place}" for place in range(len(names))] else names


def _check_same(returns: Returns | None, fact: Returns, what: str) -> None:
    """Raise for a setting that contradicts what a model is known to return."""
    if returns not in (None, fact):
        raise ValueError(f'returns: {what} gives {fact}; leave returns out or say "{fact}".')


def _allows_nan(model: Any) -> bool:
    """As scikit-learn's tags say; a pipeline takes what its first step takes."""
    tags = getattr(importlib.import_module("sklearn.utils"), "get_tags", None)
    steps = getattr(model, "steps", None)
    if steps:
        imputes = "Imputer" in type(steps[0][1]).__name__ and _allows_nan(steps[0][1])
        return imputes or all(_allows_nan(step) for _, step in steps if hasattr(step, "fit"))
    return False if tags is None else bool(tags(model).input_tags.allow_nan)


def is_catboost(model: object) -> bool:
    """Tell a model of CatBoost without importing it."""
    return _package(model) == "catboost"


def _catboost_with_interface(model: Any) -> Any:
    """What CatBoost's own training or a file gives, as the classifier or regressor that it is."""
    if not model.is_fitted():
        raise ValueError(f"model: {type(model).__name__} is not fitted; call fit first.")
    if type(model).__name__ != "CatBoost":
        return model
    catboost = importlib.import_module("catboost")
    loss = str(model.get_all_params().get("loss_function", "none"))
    for turned in (catboost.to_classifier, catboost.to_regressor):
        try:
            return turned(model)
        except catboost.CatBoostError:  # of another kind
            continue
    raise ValueError(
        f"model: this model of CatBoost has the loss function {loss}; expected one of a classifier or a regressor. "
        'Where you know what it predicts, wrap it: verax.Scorer(model.predict, returns=..., takes="numpy").'
    )


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
class Booster:
    """A booster of XGBoost's or LightGBM's own interface."""

    booster: Any
    returns: Returns
    module: None = None
    takes_missing: bool = True

    @property
    def feature_names(self) -> Sequence[str] | None:
        if _package(self.booster) == "lightgbm":
            return _user_names(self.booster.feature_name())
        names: Sequence[str] | None = self.booster.feature_names
        return names

    @property
    def categorical(self) -> list[str]:
        """The columns that LightGBM was trained on as categories; its booster lists the values of those alone."""
        if _package(self.booster) == "xgboost":
            return []
        infos = self.booster.dump_model(num_iteration=1).get("feature_infos", {})
        return [name for name, info in infos.items() if info.get("values")]

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        xgboost = _package(self.booster) == "xgboost"
        count = self.booster.num_features() if xgboost else self.booster.num_feature()
        if batch.shape[1:] != (count,):  # XGBoost would not notice, LightGBM would print lines of its own
            raise ValueError(
                f"inputs: the booster was trained on {count} features, got rows of shape {tuple(batch.shape[1:])}."
            )
        if not xgboost:
            return np.asarray(self.booster.predict(as_numpy(batch)))
        matrix = importlib.import_module("xgboost").DMatrix(as_numpy(batch))
        return self.booster.predict(matrix, validate_features=False)


def _package(model: object) -> str:
    return type(model).__module__.split(".")[0]


def is_booster(model: object) -> bool:
    """Tell a booster of XGBoost or LightGBM without importing either."""
    return type(model).__name__ == "Booster" and _package(model) in _CLASSES


def adapt_booster(model: Any, returns: Returns | None) -> Booster:
    package = _package(model)
    if package == "xgboost":
        objective = json.loads(model.save_config())["learner"]["objective"]["name"]
    else:
        objective = model.dump_model(num_iteration=1).get("objective", "none").split(" ")[0]
    kind: Returns | None = "values" if objective.startswith(_VALUES[package]) else _CLASSES[package].get(objective)
    if kind is None:
        raise ValueError(
            f"model: this {package} booster has the objective {objective}; expected one whose predictions are class "
            f"scores ({', '.join(_CLASSES[package])}) or values ({', '.join(_VALUES[package])}...). Where you know "
            f'what it predicts, wrap it: verax.Scorer(model.predict, returns=..., takes="numpy").'
        )
    _check_same(returns, kind, f"a booster with the objective {objective}")
    return Booster(model, kind)
