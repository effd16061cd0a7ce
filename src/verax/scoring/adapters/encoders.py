"""Which input column each output column of a fitted scikit-learn encoder comes from."""

import importlib
from typing import Any

_INDICATOR = "missingindicator_"


def owners(step: Any, columns: int) -> list[int] | None:
    """Position of the input column behind each output of an encoder; None where that cannot be told."""
    if hasattr(step, "steps"):
        return _of_pipeline(step, columns)
    preprocessing = importlib.import_module("sklearn.preprocessing")
    if isinstance(step, preprocessing.OneHotEncoder):
        return _repeated(_one_hot_widths(step))
    if isinstance(step, preprocessing.KBinsDiscretizer) and step.encode != "ordinal":
        return _repeated([int(bins) for bins in step.n_bins_])
    if isinstance(step, importlib.import_module("sklearn.impute").SimpleImputer):
        return _of_imputer(step, columns)
    return list(range(columns)) if _one_to_one(step) else None


def _of_pipeline(pipeline: Any, columns: int) -> list[int] | None:
    """Follow the columns through the steps."""
    current = list(range(columns))
    for _, step in pipeline.steps:
        mine = owners("passthrough" if step is None else step, len(current))
        if mine is None:
            return None
        current = [current[one] for one in mine]
    return current


def _one_to_one(step: Any) -> bool:
    if isinstance(step, str):
        return step == "passthrough"
    if isinstance(step, importlib.import_module("sklearn.preprocessing").FunctionTransformer):
        return step.func is None or bool(step.feature_names_out == "one-to-one")
    return isinstance(step, importlib.import_module("sklearn.base").OneToOneFeatureMixin)


def _one_hot_widths(encoder: Any) -> list[int]:
    """Columns for each input: its categories, the infrequent ones as one, less the one that is dropped."""
    widths = [len(categories) for categories in encoder.categories_]
    rare = getattr(encoder, "infrequent_categories_", None) or [None] * len(widths)
    drop = encoder.drop_idx_ if encoder.drop_idx_ is not None else [None] * len(widths)
    return [
        width - (0 if few is None else len(few) - 1) - (0 if dropped is None else 1)
        for width, few, dropped in zip(widths, rare, drop, strict=True)
    ]


def _of_imputer(imputer: Any, columns: int) -> list[int]:
    """Columns without any value may be gone; columns that tell what was missing may have come."""
    given = [str(name) for name in getattr(imputer, "feature_names_in_", [f"x{i}" for i in range(columns)])]
    names = [str(name) for name in imputer.get_feature_names_out(given)]
    return [given.index(name if name in given else name.removeprefix(_INDICATOR)) for name in names]


def _repeated(widths: list[int]) -> list[int]:
    return [place for place, width in enumerate(widths) for _ in range(width)]
