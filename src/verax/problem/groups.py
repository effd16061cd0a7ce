"""Group maps for sequences: what one feature is in a time series or in a text. For the argument ``features``."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from verax.core.arguments import checked_count
from verax.core.arrays import as_tensor
from verax.core.shapes import Int


def windows(length: int, channels: int, width: int, *, per_channel: bool = False) -> Int[Tensor, "length channels"]:
    """Windows of time series ``(N, length, channels)``: steps that are removed together.

    Args:
        length: Steps of a series.
        channels: Channels of a series.
        width: Steps of a window; the last one is shorter where they do not divide the length.
        per_channel: One feature per window and channel; otherwise a window spans all channels.

    For series ``(N, channels, length)`` pass the transposed map, ``windows(...).T``.

    Example:
        >>> windows(5, 2, width=2).tolist()
        [[0, 0], [0, 0], [1, 1], [1, 1], [2, 2]]
        >>> windows(5, 2, width=2, per_channel=True).tolist()
        [[0, 1], [0, 1], [2, 3], [2, 3], [4, 5]]
    """
    steps, across = checked_count("length", length), checked_count("channels", channels)
    window = (torch.arange(steps) // checked_count("width", width))[:, None].expand(steps, across)
    return window * across + torch.arange(across) if per_channel else window.clone()


def tokens(present: Any, dimensions: int) -> Any:
    """Tokens of texts given as embeddings ``(N, length, dimensions)``: one feature per token, none for padding.

    Args:
        present: True where a text has a token and False where it is padded, ``(N, length)``.
        dimensions: Size of the embeddings.

    Returns:
        One map per text, NumPy or torch as ``present`` is. Padding is -1: it is never removed.

    Example:
        >>> tokens(torch.tensor([[True, True, False], [True, True, True]]), dimensions=2).tolist()
        [[[0, 0], [1, 1], [-1, -1]], [[0, 0], [1, 1], [2, 2]]]
    """
    given = as_tensor("present", present)
    if given.dtype != torch.bool or given.ndim != 2:
        raise TypeError(f"present: expected True or False, shape (N, length), got {given.dtype}, {given.ndim} axes.")
    empty = (~given.any(1)).nonzero()
    if len(empty):
        raise ValueError(f"present: expected at least one token in every text, got none in row {int(empty[0, 0])}.")
    place = (given.cumsum(1) - 1).where(given, -1)
    size = checked_count("dimensions", dimensions)
    found = place[..., None].expand(*place.shape, size).clone()
    return found.numpy() if isinstance(present, np.ndarray) else found
