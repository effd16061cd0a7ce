"""Baselines: what a removed feature is replaced by."""

import torch
from torch import Tensor

from verax.core.arrays import as_tensor
from verax.core.shapes import Float, Shaped


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


def replaced(
    inputs: Float[Tensor, "*#shape"], baselines: Float[Tensor, "*#shape"], mask: Shaped[Tensor, "*#shape"]
) -> Float[Tensor, "*shape"]:
    """Take the baseline where the mask, of truth values or of ones and zeros, says so, exactly.

    With weights 0 and 1 ``lerp`` gives one of its ends. A CPU does that much faster than ``where``, whose branches it
    cannot predict.

    Example:
        >>> replaced(torch.tensor([[0.1, 0.2]]), torch.tensor([[0.3, 0.4]]), torch.tensor([[True, False]]))
        tensor([[0.3000, 0.2000]])
    """
    return torch.lerp(inputs, baselines, mask.to(inputs.dtype))
