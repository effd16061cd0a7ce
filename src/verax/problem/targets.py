"""Targets: the class of each input whose score is followed, as the user gave it or as the model predicts it."""

from typing import Any

import torch
from torch import Tensor

from verax.core.arrays import as_tensor


def checked_target(target: Any, count: int) -> int | Tensor | None:
    """Read a target: None, a class number, or one per row."""
    if target is None:
        return None
    given = as_tensor("target", target)
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise TypeError(f"target: expected None, a class number or one class number per row, found {given.dtype}.")
    negative = (given.reshape(-1) < 0).nonzero()
    if len(negative):
        row = int(negative[0, 0])
        where = f" in row {row}" if given.ndim else ""
        raise ValueError(f"target: class {int(given.reshape(-1)[row])}{where} does not exist; numbers start at 0.")
    if given.ndim == 0:
        return int(given)
    if tuple(given.shape) != (count,):
        raise ValueError(f"target: expected one class per row, shape ({count},), found shape {tuple(given.shape)}.")
    return given.to(torch.int64)
