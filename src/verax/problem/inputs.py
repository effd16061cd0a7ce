"""Inputs: the rows to explain, checked before any work."""

from typing import Any

import torch
from torch import Tensor

from verax.core.arrays import as_tensor
from verax.core.shapes import Float


def checked_inputs(inputs: Any) -> Float[Tensor, "n *shape"]:
    """Read the inputs: finite floating-point rows, at least one."""
    x = as_tensor("inputs", inputs)
    if not x.is_floating_point():
        raise TypeError(f"inputs: expected floating-point numbers, found {x.dtype}; convert them first.")
    if x.ndim < 2:
        raise ValueError(f"inputs: expected rows of features, shape (N, ...), found shape {tuple(x.shape)}.")
    if x.numel() == 0:
        raise ValueError(f"inputs: expected at least one row and one feature, found shape {tuple(x.shape)}.")
    check_finite("inputs", x)
    return x


def check_finite(label: str, values: Tensor) -> None:
    """Refuse values of which some is not finite, naming its row."""
    ends = torch.stack(values.aminmax())  # NaN if any is; one pass over the values, where isfinite takes five
    if torch.isfinite(ends).all():
        return
    bad = (~torch.isfinite(values.reshape(len(values), -1))).nonzero()[0]
    found = values.reshape(len(values), -1)[bad[0], bad[1]].item()
    raise ValueError(f"{label}: expected finite numbers, found {found} in row {int(bad[0])} (element {int(bad[1])}).")
