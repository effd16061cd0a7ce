"""What the scores of a model are about, in words: the score that is followed, the baseline, and the rows."""

from typing import Any

import numpy as np
import polars as pl

from verax.core.display import counted
from verax.scoring.adapters import labels_of
from verax.study.explained_models import ExplainedModel

_CLASSES = 6  # that are named before the rest is counted


def scope_of(model: ExplainedModel, scores: pl.DataFrame, label: str) -> dict[str, str]:
    """Names and sentences that a report needs to say of which model, class, baseline and rows its numbers are.

    Args:
        model: The model.
        scores: Of the study.
        label: What is predicted, by the name of its column; empty where that is not known.
    """
    scope = {"Explained": _followed(model, scores, label), "Baseline": _baseline(model), "Rows": _rows(model)}
    return scope if model.dataset.task == "regression" else scope | {"Classes": _labels(model)}


def _followed(model: ExplainedModel, scores: pl.DataFrame, label: str) -> str:
    if model.dataset.task == "regression":
        return f"the predicted value of {label}" if label else "the predicted value"
    inputs = scores.filter(pl.col("model") == model.name).select("input", "target").unique()
    counts = inputs.group_by("target").len().sort("len", "target", descending=[True, False]).rows()
    names = _class_names(model)
    words = [f"{names.get(number, str(number))} ({many:,})" for number, many in counts]
    rest = [f"{len(words) - _CLASSES} other classes"] if len(words) > _CLASSES else []
    column = f"; {label}" if label else ""
    return f"the probability of the predicted class of each input{column}: {', '.join([*words[:_CLASSES], *rest])}"


def _class_names(model: ExplainedModel) -> dict[int, str]:
    """Classes by the number of the model's output: as the model calls them, or else as the data do."""
    own: list[Any] = list(labels_of(model.scorer(False).adapter) or ())
    given = list(model.dataset.class_names)
    if len(own) != len(given) or {str(one) for one in own} == set(given):
        return {number: str(name) for number, name in enumerate(own or given)}
    return dict(enumerate(given))  # numbers, or other words, in the order of the data's


def _baseline(model: ExplainedModel) -> str:
    rows = counted(len(model.background), "training row")
    if model.modality == "image":
        return "a removed pixel becomes the mean colour of the training images"
    words = ", a category the most frequent one" if model.material.categories else ""
    return f"a removed number becomes its mean over the training rows{words} ({rows} in the background)"


def _rows(model: ExplainedModel) -> str:
    split, seed = model.dataset.split, model.data.seed
    part = split.rows(model.data.part)
    whole = len(model.rows) == len(part)
    many = (
        f"all {len(part):,}"
        if whole
        else f"{len(model.rows):,} rows drawn at random with seed {seed} from {len(part):,}"
    )
    how = "the rows that were named as held out" if split.named else f"a random split with seed {split.seed}"
    return f"{many} {model.data.part} rows of {how}, {len(model.dataset):,} rows in all"


def _labels(model: ExplainedModel) -> str:
    """How many of the rows are of each class of the data, those that have none included."""
    classes = model.dataset.class_names
    counts = np.bincount(model.dataset.labels[model.rows], minlength=len(classes)).tolist()
    names = [*classes, *map(str, range(len(classes), len(counts)))]
    words = [f"{name}: {count:,}" for name, count in zip(names, counts, strict=True)]
    return f"labels of the explained rows: {', '.join(words)}"
