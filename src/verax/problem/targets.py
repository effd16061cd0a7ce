"""Targets: the class of each input whose score is followed, as the user gave it."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from verax.core.arrays import as_tensor
from verax.scoring.targets import Columns, Target


def checked_target(target: Any, count: int) -> Target:
    """Read a target: None, a column number, a label as text, or one of them per row."""
    if target is None or isinstance(target, Columns):
        return target
    if (texts := _texts(target)) is not None:
        return texts if isinstance(texts, str) else _one_per_row(texts, (len(texts),), count)
    given = as_tensor("target", target)
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise TypeError(
            "target: expected None, a class number, a label as text, or one of them per row, "
            f"found numbers of type {given.dtype}."
        )
    negative = (given.reshape(-1) < 0).nonzero()
    if len(negative):
        row = int(negative[0, 0])
        where = f" in row {row}" if given.ndim else ""
        raise ValueError(f"target: class {int(given.reshape(-1)[row])}{where} does not exist; numbers start at 0.")
    return int(given) if given.ndim == 0 else _one_per_row(given.to(torch.int64), tuple(given.shape), count)


def _texts(target: Any) -> str | tuple[str, ...] | None:
    """Labels given as text, one or one per row; None where they are not text."""
    if isinstance(target, str):
        return str(target)
    if isinstance(target, int | Tensor):
        return None
    array = np.asarray(target)
    found = array.reshape(-1).tolist()
    if array.ndim > 1 or array.dtype.kind not in "OUT" or not found or not all(isinstance(one, str) for one in found):
        return None
    return str(found[0]) if array.ndim == 0 else tuple(found)


def _one_per_row(given: Any, shape: tuple[int, ...], count: int) -> Any:
    if shape != (count,):
        raise ValueError(f"target: expected one class per row, shape ({count},), got shape {shape}.")
    return given


def target_of_rows(target: Any, rows: Any, count: int) -> Any:
    """The class of some of the rows, where there is one for each."""
    if isinstance(target, Columns):
        return Columns(target.numbers[torch.as_tensor(rows)]) if target.numbers.ndim else target
    if not hasattr(target, "__len__") or isinstance(target, str):
        return target
    if len(target) != count:
        raise ValueError(f"target: expected one class, or one for each of {count} rows, got {len(target)}.")
    if isinstance(target, Tensor):
        return target[rows if isinstance(rows, slice) else torch.as_tensor(rows)]
    chosen = np.asarray(target)[rows]
    return tuple(chosen.tolist()) if isinstance(target, tuple) else chosen
