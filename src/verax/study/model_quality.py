"""Models that have learnt nothing: which explanation is the most faithful to them says little about any other model."""

import math
from collections.abc import Iterable

import numpy as np

from verax.core.shapes import Int, Shaped
from verax.data.base import Part
from verax.study.explained_models import ExplainedModel
from verax.study.own_models import is_own

_ERRORS = 1.64  # of 20 models that know nothing, one is luckier


LEARNT = "rows that it may have learnt from"


def measured_on(model: ExplainedModel) -> str:
    """The rows that a model's figures are from: only a model of the study, or a named split, has rows new to it."""
    if not is_own(model.spec):
        return "test split"
    return "held-out rows" if model.dataset.split.named else LEARNT


def weak_models(models: Iterable[ExplainedModel]) -> list[str]:
    """A sentence for each model that is no better than its base rate or than the mean, as far as that is known."""
    return [line for model in models if (line := _weakness(model))]


def _weakness(model: ExplainedModel) -> str:
    """AUROC decides where it is known: for a rare class, a good model may be right less often than a constant one."""
    parts: tuple[Part, ...] = ("test", "validation")
    for part in parts:
        figures = model.metrics.get(part, {})
        if model.dataset.task == "regression":
            if "r2" in figures:
                return _of_values(model, part, figures["r2"])
        elif "auroc" in figures:
            chance = 0.5 + _ERRORS * _error(model, part)
            return _of_classes(model, part, "AUROC", figures["auroc"], chance)
        elif "accuracy" in figures:
            labels = model.dataset.labels[model.dataset.split.rows(part)]
            return _of_classes(model, part, "accuracy", figures["accuracy"], float(_counts(labels).max() / len(labels)))
    return ""


def _of_classes(model: ExplainedModel, part: str, name: str, found: float, chance: float) -> str:
    if found > chance:
        return ""
    return (
        f"{model.name} is no better than its base rate: {name} {found:.3f} on {_rows(model, part)}, where chance alone "
        f"reaches {chance:.3f}. What explains it best says nothing about a model that works; train it longer, or on "
        "other data."
    )


def _of_values(model: ExplainedModel, part: str, found: float) -> str:
    if found > 0:
        return ""
    return (
        f"{model.name} is worse than predicting the mean: R^2 {found:.3f} on {_rows(model, part)}. What explains it "
        "best says nothing about a model that works; train it longer, or on other data."
    )


def _rows(model: ExplainedModel, part: str) -> str:
    return LEARNT if measured_on(model) == LEARNT else f"the {part} rows"


def _error(model: ExplainedModel, part: Part) -> float:
    """Standard error of the AUROC of a model that knows nothing (Mann and Whitney); of several classes at most."""
    counts = _counts(model.dataset.labels[model.dataset.split.rows(part)])
    if len(counts) < 2:
        return 0.5
    total = int(counts.sum())
    each = [math.sqrt((total + 1) / (12 * ones * (total - ones))) for ones in counts.tolist()]
    return sum(each) / len(each)


def _counts(labels: Shaped[np.ndarray, " n"]) -> Int[np.ndarray, " classes"]:
    """Rows of each class that is there."""
    counts: np.ndarray = np.unique(labels, return_counts=True)[1]
    return counts
