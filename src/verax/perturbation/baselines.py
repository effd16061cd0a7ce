"""Baselines: what a removed feature is replaced by."""

import torch
from torch import Tensor

from verax.arrays import as_tensor


def baseline_tensor(baselines: object, inputs: Tensor) -> Tensor:
    """Read the ``baselines`` argument: a number or anything that broadcasts to the inputs, one baseline each included.

    The result is a view wherever possible, so a scalar baseline costs no memory.
    """
    if isinstance(baselines, bool) or baselines is None or isinstance(baselines, str):
        raise TypeError(f"baselines: expected a number or an array, found {baselines!r}.")
    given = torch.tensor(float(baselines)) if isinstance(baselines, int | float) else as_tensor("baselines", baselines)
    if not torch.isfinite(given).all():
        raise ValueError("baselines: expected finite numbers, found NaN or infinity.")
    try:
        return given.to(inputs.device, inputs.dtype).expand(inputs.shape)
    except RuntimeError:
        raise ValueError(
            f"baselines: shape {tuple(given.shape)} does not broadcast to the inputs' shape {tuple(inputs.shape)}."
        ) from None
