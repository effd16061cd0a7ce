"""Background: rows that stand for the training data, and their classes."""

from typing import Any

import torch
from torch import Tensor

from verax.core.arrays import as_tensor
from verax.core.shapes import Int, Shaped
from verax.problem.inputs import Inputs


def checked_background(
    background: Any, labels: Any, inputs: Shaped[Tensor, "n *shape"], missing: bool = False
) -> tuple[Shaped[Tensor, "m *shape"] | None, Int[Tensor, " m"] | None]:
    """Read background rows and their classes, or say what is wrong with them; ``missing`` allows NaN."""
    if background is None:
        if labels is not None:
            raise ValueError("background_labels: given without background; pass background=train_inputs as well.")
        return None, None
    rows = as_tensor("background", background.values if isinstance(background, Inputs) else background)
    if inputs.is_floating_point() and not rows.is_floating_point():
        raise TypeError(f"background: expected floating-point numbers, got {rows.dtype}.")
    if rows.shape[1:] != inputs.shape[1:] or len(rows) == 0:
        raise ValueError(
            f"background: expected rows like the inputs', shape (M, {str(tuple(inputs.shape[1:]))[1:]}, "
            f"found shape {tuple(rows.shape)}."
        )
    if not (torch.isfinite(rows) | (rows.isnan() & missing)).all():
        raise ValueError("background: expected finite numbers, got NaN or infinity.")
    if labels is None:
        return rows, None
    given = as_tensor("background_labels", labels)
    if given.is_floating_point() or tuple(given.shape) != (len(rows),):
        raise ValueError(
            f"background_labels: expected one whole number per background row, shape ({len(rows)},), "
            f"found {given.dtype} of shape {tuple(given.shape)}."
        )
    return rows, given.to(torch.int64)
