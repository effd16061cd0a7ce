"""Models of CatBoost: they follow scikit-learn's interface, but know their columns in a way of their own."""

import importlib
from collections.abc import Sequence
from typing import Any


def is_catboost(model: object) -> bool:
    """Tell a model of CatBoost without importing it."""
    return type(model).__module__.split(".")[0] == "catboost"


def with_interface(model: Any) -> Any:
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
        f"model: this model of CatBoost has the loss function {loss}; wanted is one of a classifier or a regressor. "
        'Where you know what it predicts, wrap it: verax.Scorer(model.predict, returns=..., takes="numpy").'
    )


def column_names(model: Any) -> Sequence[str] | None:
    """The columns that it was fitted on, unless it numbered them itself."""
    names = [str(name) for name in model.feature_names_ or ()]
    return None if names == [str(place) for place in range(len(names))] else names


def category_places(model: Any) -> Sequence[int]:
    """Which columns are categories to it, numbers among them."""
    places: Sequence[int] = model.get_cat_feature_indices()
    return places


def refusals(model: object) -> tuple[type[Exception], ...]:
    """What CatBoost raises for rows that it does not take, where a model is one of its own."""
    return (importlib.import_module("catboost").CatBoostError,) if is_catboost(model) else ()
