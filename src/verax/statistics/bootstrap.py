"""The bootstrap over inputs, with keyed draws: the same inputs are drawn for whatever is averaged over them."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from verax.core import noise
from verax.core.blocks import pieces
from verax.core.shapes import Float

_AT_ONCE = 128  # resamples: how often each of many inputs is drawn in all of them would not fit into memory


def resampled_means(values: Float[Tensor, "k n"], resamples: int, seed: int) -> Float[Tensor, "resamples k"]:
    """Means over inputs drawn with replacement: how often each is drawn, times the values.

    Example:
        >>> resampled_means(torch.tensor([[1.0, 1.0], [2.0, 2.0]]), 3, seed=0).tolist()
        [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    """
    return means_of(values, times_drawn(values.shape[1], resamples, seed))


def means_of(values: Float[Tensor, "k n"], times: Iterable[Float[Tensor, "part n"]]) -> Float[Tensor, "resamples k"]:
    """Those means, from what ``times_drawn`` gave: who averages much over the same draws makes them once."""
    values = values.double().cpu()
    return torch.cat([part @ values.T / values.shape[1] for part in times])


def times_drawn(count: int, resamples: int, seed: int) -> Iterator[Float[Tensor, "part n"]]:
    """How often each of so many inputs is drawn in each resample, in parts."""
    key = noise.input_keys(torch.zeros(1, 1), seed, "bootstrap")
    for part in pieces(resamples, _AT_ONCE):
        size = part.stop - part.start
        drawn = noise.words(key, part.start * count, size * count).reshape(size, count) % count
        times = torch.zeros(size, count, dtype=torch.float64)
        yield times.scatter_add_(1, drawn, torch.ones_like(times))


def redrawn(means: Float[Tensor, "resamples k"], seed: int) -> Float[Tensor, "resamples k"]:
    """In each resample the columns drawn with replacement: where what is averaged is a draw itself, not chosen.

    Example:
        >>> redrawn(torch.tensor([[1.0, 2.0]] * 8), seed=0).mean(1).unique().tolist()
        [1.0, 1.5, 2.0]
    """
    key = noise.input_keys(torch.zeros(1, 1), seed, "redrawn")
    drawn = noise.words(key, 0, means.numel()).reshape(means.shape) % max(1, means.shape[1])
    return means.gather(1, drawn)
