"""Blocks: how work is cut into pieces so that memory stays bounded, whatever its size."""

from collections.abc import Iterator

import torch

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


def rectangles(start: int, stop: int, width: int) -> Iterator[tuple[slice, slice]]:
    """Cut cells ``start`` to ``stop`` of a table, counted row by row, into at most three rectangles, in their order.

    Example:
        >>> for rows, columns in rectangles(2, 15, width=4):
        ...     print(list(range(4))[rows], list(range(4))[columns])
        [0] [2, 3]
        [1, 2] [0, 1, 2, 3]
        [3] [0, 1, 2]
    """
    while start < stop:
        row, column = divmod(start, width)
        rows = 0 if column else (stop - start) // width
        columns = slice(0, width) if rows else slice(column, min(width, column + stop - start))
        rows = rows or 1
        yield slice(row, row + rows), columns
        start += rows * (columns.stop - columns.start)


def pieces(count: int, size: int, chunk: int | None = None) -> Iterator[slice]:
    """Cut ``count`` things into slices of at most ``size``; with a ``chunk``, anew after each so many of them.

    Example:
        >>> [(piece.start, piece.stop) for piece in pieces(8, 3, chunk=5)]
        [(0, 3), (3, 5), (5, 8)]
    """
    whole = chunk or max(1, count)
    for begin in range(0, count, whole):
        end = min(begin + whole, count)
        for start in range(begin, end, size):
            yield slice(start, min(start + size, end))


def chunk_size(batch_size: int, row_bytes: int) -> int:
    """Inputs after which work is cut anew: whole batches, 16 while their inputs are below 4 GiB.

    The last bits of a model's answers may depend on the rows beside a row. A call makes the same model calls as one
    call for each of its chunks; that is what makes the numbers of ``verax.stream`` those of ``verax.evaluate``.

    Example:
        >>> chunk_size(2048, row_bytes=80), chunk_size(1024, row_bytes=4 * 3 * 224 * 224)
        (32768, 6144)
    """
    return batch_size * max(1, min(_BATCHES, _CHUNK_BYTES // (batch_size * row_bytes)))


def whole_batches(count: int, rows: int, batch_size: int) -> int:
    """Reduce a number of things with some rows each, so that the last batch of their rows is nearly full.

    Example:
        >>> whole_batches(243, 38, 1024), 242 * 38 / 1024
        (242, 8.98046875)
    """
    return count * rows // batch_size * batch_size // max(1, rows) or count
