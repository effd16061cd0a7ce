"""Targets: which column of a model's outputs is followed for each input, by number, by label or as predicted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from verax.core.shapes import Int

_SHOWN = 10  # labels of a message


@dataclass(frozen=True, eq=False)
class Columns:
    """Column numbers, one for all rows or one per row: never read as labels."""

    numbers: Int[Tensor, "..."]


Target = int | str | Tensor | tuple[str, ...] | Columns | None


def resolve_target(
    target: Target,
    predicted: Int[Tensor, " n"],
    classes: int,
    labels: Sequence[Any] | None = None,
    values: bool = False,
) -> Int[Tensor, " n"]:
    """Choose the column of each input: the predicted class unless given, a model's only value.

    Args:
        target: A column number or a label as text, one for all inputs or one per row; None for the predicted class.
        predicted: The class that the model predicts for each input.
        classes: How many there are.
        labels: The model's own name of each column, if it has such.
        values: Whether the columns are values instead of classes, of which none is predicted.

    Example:
        >>> resolve_target("yes", torch.tensor([0, 0]), 2, labels=["no", "yes"])
        tensor([1, 1])
    """
    columns = columns_of(target, labels)
    if columns is None:
        if values and classes > 1:
            named = f" ({_listed(labels)})" if labels is not None else ""
            raise ValueError(
                f"target: the model returns {classes} values for each row{named}; say which one is followed, by its "
                f"number, 0 to {classes - 1}, or its name (verax.Scorer(model, labels=[...]) gives them names)."
            )
        return predicted
    wanted = columns.numbers.to(predicted.device).expand(len(predicted))
    outside = ((wanted < 0) | (wanted >= classes)).nonzero()
    if len(outside):
        row = int(outside[0, 0])
        where = f" in row {row}" if columns.numbers.ndim else ""
        word, many = ("output", "outputs") if values else ("class", "classes")
        numbers = f"{classes} {many}, 0 to {classes - 1}" if classes > 1 else f"one {word}, number 0"
        raise ValueError(f"target: {word} {int(wanted[row])}{where} does not exist; the model has {numbers}.")
    return wanted.contiguous()


def columns_of(target: Target, labels: Sequence[Any] | None) -> Columns | None:
    """The columns that a target means, or what is wrong with it; the model need not run for that."""
    if target is None or isinstance(target, Columns):
        return target
    if isinstance(target, str | tuple):
        return Columns(torch.as_tensor(_columns_by_label(target, labels)))
    _refuse_ambiguous(target, labels)
    return Columns(torch.as_tensor(target))


def check_labels(labels: Sequence[Any] | None, classes: int, values: bool = False) -> None:
    """Refuse labels that are not one per class or value."""
    if labels is not None and len(labels) != classes:
        raise ValueError(
            f"labels: the model has {classes} {'outputs' if values else 'classes'}, got {len(labels)} labels "
            f"({_listed(labels)}); wanted is one for each, in the order of its outputs."
        )


def _columns_by_label(target: str | tuple[str, ...], labels: Sequence[Any] | None) -> int | Tensor:
    texts = (target,) if isinstance(target, str) else target
    if labels is None:
        raise ValueError(
            f"target: found the label {texts[0]!r}, but the model does not know its labels; pass column numbers, or "
            "say them: verax.Scorer(model, labels=[...]), in the order of its outputs."
        )
    known = {spelt: column for column, label in enumerate(labels) for spelt in _spellings(label)}
    for row, text in enumerate(texts):
        if text not in known:
            where = "" if isinstance(target, str) else f" in row {row}"
            raise ValueError(f"target: the model has no label {text!r}{where}; its labels are {_listed(labels)}.")
    found = torch.tensor([known[text] for text in texts])
    return int(found[0]) if isinstance(target, str) else found


def _refuse_ambiguous(target: int | Tensor, labels: Sequence[Any] | None) -> None:
    """A number is a column number; where labels are other numbers, it may have been meant as a label."""
    numbers = None if labels is None else [_number(label) for label in labels]
    if labels is None or numbers is None or None in numbers or numbers == list(range(len(labels))):
        return
    mapping = ", ".join(f"label {label} is column {column}" for column, label in enumerate(labels[:_SHOWN]))
    more = ", ..." if len(labels) > _SHOWN else ""
    first = target if isinstance(target, int) else int(target.reshape(-1)[0])
    raise ValueError(
        f"target: {first} may be a label or a column number, and they differ here: {mapping}{more}. "
        f'Pass the label as text, such as target="{labels[0]}"; for one per row, [str(label) for label in labels].'
    )


def _number(label: Any) -> float | None:
    """The number that a label is, or spells; None for other labels."""
    try:
        found = float(label)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def _spellings(label: Any) -> set[str]:
    """How people write a label: 1.0 is "1.0" and "1"."""
    whole = isinstance(label, float) and label.is_integer()
    return {str(label), str(int(label))} if whole else {str(label)}


def _listed(labels: Sequence[Any]) -> str:
    shown = ", ".join(str(label) for label in labels[:_SHOWN])
    return f"{shown}, ..." if len(labels) > _SHOWN else shown
