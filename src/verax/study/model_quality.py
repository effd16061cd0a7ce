"""Models that have learnt nothing: which explanation is the most faithful to them says little about any other model."""

import math
from collections.abc import Iterable

import numpy as np

from verax.datasets.base import Part
from verax.study.explained_models import ExplainedModel

_ERRORS = 1.64  # of 20 models that know nothing, one is luckier


def weak_models(models: Iterable[ExplainedModel]) -> list[str]:
    """A sentence for each model that is no better than its base rate, as far as its file says how good it is."""
    return [line for model in models if (line := _weakness(model))]


def _weakness(model: ExplainedModel) -> str:
    """AUROC decides where it is known: for a rare class, a good model may be right less often than a constant one."""
    parts: tuple[Part, ...] = ("test", "validation")
    for part in parts:
        figures = model.metrics.get(part, {})
        share = float(np.mean(model.dataset.labels[model.dataset.split.rows(part)]))
        if "auroc" in figures:
            chance = 0.5 + _ERRORS * _error(model, part)
            return _sentence(model, part, "AUROC", figures["auroc"], chance)
        if "accuracy" in figures:
            return _sentence(model, part, "accuracy", figures["accuracy"], max(share, 1 - share))
    return ""


def _sentence(model: ExplainedModel, part: str, name: str, found: float, chance: float) -> str:
    if found > chance:
        return ""
    return (
        f"{model.name} is no better than its base rate: {name} {found:.3f} on the {part} rows, where chance alone "
        f"reaches {chance:.3f}. What explains it best says nothing about a model that works; train it longer, or on "
        "other data."
    )


def _error(model: ExplainedModel, part: Part) -> float:
    """Standard error of the AUROC of a model that knows nothing (Mann and Whitney)."""
    labels = model.dataset.labels[model.dataset.split.rows(part)]
    ones, zeros = int((labels == 1).sum()), int((labels != 1).sum())
    return math.sqrt((ones + zeros + 1) / (12 * ones * zeros)) if ones and zeros else 0.5
