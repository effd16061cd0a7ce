"""A random order of many rows that is computed place by place, so that nobody has to hold it."""

import torch
from torch import Tensor

from verax.core import noise
from verax.core.shapes import Int

_ROUNDS = 4  # of a Feistel network, from which on it is as good as random (Luby and Rackoff)


def shuffled(places: Int[Tensor, " m"], count: int, seed: int) -> Int[Tensor, " m"]:
    """The rows at some places of a random order of ``count`` rows; the same seed gives the same order.

    A Feistel network permutes the numbers of so many bits; what falls beyond ``count`` goes through it again.

    Example:
        >>> order = shuffled(torch.arange(6), 6, seed=0)
        >>> sorted(order.tolist()), torch.equal(shuffled(torch.arange(2, 4), 6, seed=0), order[2:4])
        ([0, 1, 2, 3, 4, 5], True)
    """
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    (key,) = noise.input_keys(torch.zeros(1, 1), seed, "shuffled").tolist()
    found = _permuted(places, half, key)
    while bool((beyond := found >= count).any()):
        found[beyond] = _permuted(found[beyond], half, key)
    return found


def _permuted(numbers: Int[Tensor, " m"], half: int, key: int) -> Int[Tensor, " m"]:
    mask = (1 << half) - 1
    left, right = numbers >> half, numbers & mask
    for turn in range(_ROUNDS):
        mixed = noise.words(right + torch.tensor(key), turn, 1)[:, 0]
        left, right = right, left ^ ((mixed >> 20) & mask)
    return (left << half) | right
