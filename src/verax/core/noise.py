"""Keyed random numbers: a function of (seed, purpose, input, position), the same in every process and on every device.

A stream of random numbers depends on who drew from it before. Here each number is computed from its key and its
position by the SplitMix64 mixing function on 64-bit integers, so batches, row order, workers and devices cannot matter.
"""

import functools
import hashlib

import torch
from torch import Tensor

from verax.core.shapes import Bool, Float, Int, Shaped

_STEP = -0x61C8864680B583EB  # the golden-ratio increment of SplitMix64, as a signed number
_NAN = 0x7FC00000  # processors differ in the bits of what is no number
_MIX_1 = -0x40A7B892E31B1A47
_MIX_2 = -0x6B2FB644ECCEEE15
_ROUNDS = 4  # of a Feistel network, from which on it is as good as random (Luby and Rackoff)


def input_keys(
    inputs: Shaped[Tensor, "n *shape"], seed: int, purpose: str, skipped: Bool[Tensor, "maps *shape"] | None = None
) -> Int[Tensor, " n"]:
    """Give every input a key from its own values, so that its draws do not depend on its place in a batch.

    The values are read in single precision: a float64 copy of float32 inputs gets the same draws. Elements that are
    ``skipped``, such as padding, have no say.
    """
    flat = inputs.reshape(len(inputs), -1).to(torch.float32) + 0.0  # + 0.0 makes -0.0 and 0.0 one value
    bits = flat.view(torch.int32).to(torch.int64).masked_fill_(flat.isnan(), _NAN)
    position = torch.arange(1, flat.shape[1] + 1, device=flat.device)
    mixed = _mix(bits ^ (position * _STEP))
    content = (mixed if skipped is None else mixed.masked_fill(skipped.flatten(1), 0)).sum(1)
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest()
    return _mix(content ^ int.from_bytes(digest, "little", signed=True))


def words(keys: Int[Tensor, " n"], start: int, count: int) -> Int[Tensor, "n count"]:
    """Random 64-bit words number ``start`` to ``start + count`` of every key."""
    position = torch.arange(start + 1, start + count + 1, device=keys.device)
    return _mix(keys[:, None] + position * _STEP)


def drawn_words(keys: Int[Tensor, " n"], start: int, draws: int, size: int) -> Int[Tensor, "n draws size"]:
    """Words of draws number ``start`` to ``start + draws``; a word depends on its draw and place, not on ``size``."""
    first = torch.arange(start, start + draws, device=keys.device) << 32
    position = first[:, None] + torch.arange(1, size + 1, device=keys.device)
    return _mix(keys[:, None, None] + position * _STEP)


def normals(
    keys: Int[Tensor, " n"], start: int, draws: int, size: int, dtype: torch.dtype
) -> Float[Tensor, "n draws size"]:
    """Draws number ``start`` to ``start + draws`` of a standard normal vector of ``size`` elements, for every key.

    Each element is one of 65,536 equally likely values: the means of a normal within 65,536 bins of equal probability,
    scaled to variance 1. A look-up is the same bits everywhere, which a logarithm or a cosine is not.
    """
    index = _sixteen_bits(keys, start, draws, size).to(torch.int32).add_(32768)
    table = _normal_table().to(keys.device, dtype)
    return table.index_select(0, index.reshape(-1)).reshape(index.shape)


def uniforms(keys: Int[Tensor, " n"], start: int, draws: int, size: int) -> Float[Tensor, "n draws size"]:
    """The same for numbers in [0, 1), in steps of 2**-16."""
    return _sixteen_bits(keys, start, draws, size).to(torch.float32).add_(32768).div_(65536)


def subsets(
    keys: Int[Tensor, " n"], start: int, draws: int, size: int, chosen: int, counts: Int[Tensor, " c"]
) -> Bool[Tensor, "n draws size"]:
    """Random subsets of exactly ``chosen`` features out of the first ``counts`` of ``size``."""
    lot = drawn_words(keys, start, draws, size)
    absent = torch.arange(size, device=keys.device) >= counts[:, None, None]
    order = lot.masked_fill(absent, torch.iinfo(torch.int64).max).argsort(dim=-1, stable=True)
    mask = torch.zeros(order.shape, dtype=torch.bool, device=keys.device)
    return mask.scatter_(-1, order[..., :chosen], True)


def _sixteen_bits(keys: Int[Tensor, " n"], start: int, draws: int, size: int) -> Int[Tensor, "n draws size"]:
    """Cut words into four 16-bit numbers each."""
    return drawn_words(keys, start, draws, -(-size // 4)).view(torch.int16)[..., :size]


def _mix(state: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """SplitMix64's finaliser; the masks turn torch's arithmetic shifts into logical ones."""
    state = (state ^ ((state >> 30) & 0x3FFFFFFFF)) * _MIX_1
    state = (state ^ ((state >> 27) & 0x1FFFFFFFFF)) * _MIX_2
    return state ^ ((state >> 31) & 0x1FFFFFFFF)


@functools.cache
def _normal_table() -> Float[Tensor, "65536"]:
    edges = torch.special.ndtri(torch.arange(65537, dtype=torch.float64) / 65536)
    density = torch.exp(-(edges**2) / 2) / (2 * torch.pi) ** 0.5
    means = (density[:-1] - density[1:]) * 65536
    means = (means - means.flip(0)) / 2  # exactly symmetric
    return torch.div(means, means.square().mean().sqrt())


def random_order(places: Int[Tensor, " m"], count: int, seed: int) -> Int[Tensor, " m"]:
    """The rows at some places of a random order of ``count`` rows; the same seed gives the same order.

    A Feistel network permutes the numbers of so many bits; what falls beyond ``count`` goes through it again.
    """
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    (key,) = input_keys(torch.zeros(1, 1), seed, "shuffled").tolist()
    places_in_order = _permuted(places, half, key)
    while bool((beyond := places_in_order >= count).any()):
        places_in_order[beyond] = _permuted(places_in_order[beyond], half, key)
    return places_in_order


def _permuted(numbers: Int[Tensor, " m"], half: int, key: int) -> Int[Tensor, " m"]:
    mask = (1 << half) - 1
    left, right = numbers >> half, numbers & mask
    for turn in range(_ROUNDS):
        mixed = words(right + torch.tensor(key), turn, 1)[:, 0]
        left, right = right, left ^ ((mixed >> 20) & mask)
    return (left << half) | right
