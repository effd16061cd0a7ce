"""How work is done: in pieces of bounded memory, and with the same bits whatever the order of its sums."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from verax.core.shapes import Float, Int

_BATCHES, _CHUNK_BYTES = 16, 1 << 32


def block_bytes(device: torch.device) -> int:
    """Working memory of one block; results and the model's own activations come on top.

    Small enough for a laptop on a CPU. On a GPU an eighth of its memory, rounded down to a power of two, so that a
    block fills many batches of images.
    """
    if device.type != "cuda":
        return 1 << 26 if device.type == "cpu" else 1 << 30
    eighth = torch.cuda.get_device_properties(device).total_memory // 8
    return 1 << (eighth.bit_length() - 1)


def pieces(count: int, size: int, chunk: int | None = None) -> Iterator[slice]:
    """Cut ``count`` things into slices of at most ``size``; with a ``chunk``, anew after each so many of them."""
    whole = chunk or max(1, count)
    for begin in range(0, count, whole):
        end = min(begin + whole, count)
        for start in range(begin, end, size):
            yield slice(start, min(start + size, end))


def chunk_size(batch_size: int, row_bytes: int) -> int:
    """Inputs after which work is cut anew: whole batches, 16 while their inputs are below 4 GiB.

    The last bits of a model's answers may depend on the rows beside a row. A call makes the same model calls as one
    call for each of its chunks; that is what makes the numbers of ``verax.stream`` those of ``verax.evaluate``.
    """
    return batch_size * max(1, min(_BATCHES, _CHUNK_BYTES // (batch_size * row_bytes)))


def whole_batches(count: int, rows: int, batch_size: int) -> int:
    """Reduce a number of things with some rows each, so that the last batch of their rows is nearly full."""
    return count * rows // batch_size * batch_size // max(1, rows) or count


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
