"""Baselines: what a removed feature is replaced by."""

import torch
from torch import Tensor

from verax.core.arrays import as_tensor
from verax.core.shapes import Float, Shaped


def baseline_tensor(baselines: object, inputs: Tensor) -> Tensor:
    """Read the ``baselines`` argument: a number or anything that broadcasts to the inputs, one baseline each included.

    The result is a view wherever possible, so a scalar baseline costs no memory. It has the inputs' precision: a number
    that the inputs can hold is that very number.
    """
    if isinstance(baselines, bool) or baselines is None or isinstance(baselines, str) or callable(baselines):
        raise TypeError(f"baselines: expected a number or an array, found {baselines!r}.")
    given = as_tensor("baselines", _exact(baselines) if isinstance(baselines, int | float) else baselines)
    if given.is_complex():
        raise TypeError(f"baselines: expected real numbers, found {given.dtype}.")
    if not torch.isfinite(given).all():
        raise ValueError("baselines: expected finite numbers, found NaN or infinity.")
    kept = given.to(inputs.device, inputs.dtype)
    if not torch.isfinite(kept).all():
        largest = float(given.double().abs().max())
        raise ValueError(
            f"baselines: {largest:g} is too large for inputs of {inputs.dtype}; pass inputs of torch.float64, or a "
            f"baseline of at most {torch.finfo(inputs.dtype).max:.3g}."
        )
    try:
        return kept.expand(inputs.shape)
    except RuntimeError:
        raise ValueError(
            f"baselines: shape {tuple(given.shape)} does not broadcast to the inputs' shape {tuple(inputs.shape)}."
        ) from None


def _exact(number: int | float) -> Tensor:
    """A Python number in its own precision; torch would round it to its default type."""
    try:
        return torch.tensor(float(number), dtype=torch.float64)
    except OverflowError:
        raise ValueError("baselines: expected a number that float64 can hold, found a larger one.") from None


def replaced(
    inputs: Float[Tensor, "*#shape"],
    baselines: Float[Tensor, "*#shape"],
    mask: Shaped[Tensor, "*#shape"],
    *,
    chosen: bool,
) -> Float[Tensor, "*shape"]:
    """Take the baseline where the mask, of truth values or of ones and zeros, says so, exactly.

    With weights 0 and 1 ``lerp`` gives one of its ends, unless their difference overflows. A CPU does that much faster
    than ``where``, whose branches it cannot predict.

    Args:
        inputs: Where the mask is 0.
        baselines: Where the mask is 1.
        mask: Which of both.
        chosen: Whether to choose with ``where``; ask ``must_choose`` once for many rows of the same inputs.

    Example:
        >>> x, b = torch.tensor([[0.1, 0.2]]), torch.tensor([[0.3, 0.4]])
        >>> replaced(x, b, torch.tensor([[True, False]]), chosen=must_choose(x, b))
        tensor([[0.3000, 0.2000]])
    """
    if chosen:
        return torch.where(mask.bool(), baselines, inputs)
    return torch.lerp(inputs, baselines, mask.to(inputs.dtype))


def must_choose(inputs: Float[Tensor, "..."], baselines: Float[Tensor, "..."]) -> bool:
    """Whether some difference of inputs and baselines might overflow; on a GPU always, which need not wait to know."""
    if inputs.device.type != "cpu":
        return True
    ends = torch.stack((*inputs.aminmax(), *baselines.aminmax())).abs()
    return not bool((ends <= torch.finfo(inputs.dtype).max / 4).all())
