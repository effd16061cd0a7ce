"""The same bits every time: sums that do not depend on their order, one thread on a CPU."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from verax.core.shapes import Float, Int

_BITS = 52  # of the largest number; the ten that are left below the sign hold sums of a thousand of them
_LEAST = -74  # exponent, so that the unit is no smaller than the smallest normal number of single precision


@contextlib.contextmanager
def deterministic_convolutions() -> Iterator[None]:
    """Let cuDNN take algorithms only that give the same bits every time, and restore torch's setting."""
    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = True
    try:
        yield
    finally:
        torch.backends.cudnn.deterministic = before


def deterministic_scatter_add(
    values: Float[Tensor, "*batch m"], places: Int[Tensor, "*batch m"], zeros: Float[Tensor, "*batch n"]
) -> Float[Tensor, "*batch n"]:
    """Add values at their places along the last axis of zeros, in whole numbers, whose sums know no order.

    The whole numbers count ``2**-52`` of the power of two above the largest value of a line, and are rounded towards 0.
    A value that is not finite makes the sums of its line NaN.

    Example:
        >>> deterministic_scatter_add(torch.tensor([0.5, 3.0, 0.25]), torch.tensor([1, 0, 1]), torch.zeros(3))
        tensor([3.0000, 0.7500, 0.0000])
    """
    largest = values.abs().amax(-1, keepdim=True)
    exponent = torch.frexp(largest).exponent.clamp(min=_LEAST)
    unit = torch.exp2((exponent - _BITS).to(values.dtype)) + 0 * largest
    counted = (values / unit).to(torch.int64)
    sums = torch.zeros_like(zeros, dtype=torch.int64).scatter_add_(-1, places, counted)
    return sums.to(values.dtype) * unit


@contextlib.contextmanager
def one_thread_on_cpu(device: str | torch.device) -> Iterator[None]:
    """Compute with one thread on a CPU, however many there are; another device is left alone."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if torch.device(device).type == "cpu" else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
