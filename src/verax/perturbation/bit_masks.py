"""Bit masks: removed sets of up to 64 features as integers, and each distinct set of an input scored once."""

import functools

import torch
from torch import Tensor

from verax.core.shapes import Bool, Float, Int, Shaped
from verax.perturbation.block import Block
from verax.perturbation.perturbed_rows import PerturbedRows, features_that_matter
from verax.problem.attributed import Task
from verax.scoring.session import BuildRows, Session

MOST_FEATURES = 64
_PIECE = 1 << 19  # elements of the rows that are made at a time


def set_type(features: int) -> torch.dtype:
    """The shorter number that has a bit for each feature; half as long is twice as fast."""
    return torch.int32 if features < 32 else torch.int64


def prefix_bits(sequence: Int[Tensor, "*batch features"]) -> Int[Tensor, "*batch points"]:
    """The sets of the first 0, 1, ..., d features of a sequence. Feature 63 is the sign bit; sums of bits wrap rightly.

    Example:
        >>> prefix_bits(torch.tensor([2, 0, 1]))
        tensor([0, 4, 5, 7], dtype=torch.int32)
    """
    numbers = sequence.to(set_type(sequence.shape[-1]))
    sums = (torch.ones_like(numbers) << numbers).cumsum(-1, dtype=numbers.dtype)
    return torch.cat((torch.zeros_like(sums[..., :1]), sums), dim=-1)


def score_sets(session: Session, task: Task, block: Block, sets: Int[Tensor, "b jobs"]) -> Float[Tensor, "b jobs"]:
    """Score removed sets, asking the model once for each distinct row of an input.

    Features that already equal their baseline are left out of the sets: removing them changes nothing.
    """
    clean, features = task.clean[block.rows], task.problem.features.most
    keys = sets & _bits(features_that_matter(task, block.rows, block.inputs, block.baselines), sets.dtype)[:, None]
    ordered, owner, position = sorted_keys(keys, features)
    fresh = ordered != 0  # nothing removed: that score is known
    fresh[1:] &= (ordered[1:] != ordered[:-1]) | (owner[1:] != owner[:-1])
    slot = fresh.cumsum(0, dtype=torch.int32)
    (at,) = fresh.nonzero(as_tuple=True)
    distinct, owner = ordered.index_select(0, at), owner.index_select(0, at)
    rows = PerturbedRows(session, task, block)

    def build(start: int, stop: int) -> Tensor:
        return rows(unpacked(distinct[start:stop], features, rows.inputs.dtype), owner[start:stop])

    session.counts.rows_spared += keys.numel() - len(owner)
    ahead = in_large_pieces(build, len(owner), _PIECE // block.inputs[0].numel())
    found = session.target_scores(ahead, owner + block.rows.start, task.target, streamed=True)
    # slot 0 stands before the first distinct set of all; an empty set takes the clean score instead
    known = torch.cat((found.new_zeros(1), found)).index_select(0, slot)
    scores = torch.empty_like(known).scatter_(0, position, known).reshape(keys.shape)
    return torch.where(keys == 0, clean.to(scores)[:, None], scores)


def in_large_pieces(build: BuildRows, count: int, size: int) -> BuildRows:
    """Make many rows at a time and hand them out batch by batch: fewer calls, and enough work for all cores.

    Rows are handed out once, because a model may overwrite them; asked for again, they are made again.
    """
    rows, begin, done = torch.empty(0), 0, 0

    def batch(start: int, stop: int) -> Tensor:
        nonlocal rows, begin, done
        if start != done or stop > begin + len(rows):
            begin, rows = start, build(start, min(count, max(stop, start + size)))
        done = stop
        return rows[start - begin : stop - begin]

    return batch


def sorted_keys(
    keys: Int[Tensor, "b jobs"], bits: int
) -> tuple[Int[Tensor, " all"], Int[Tensor, " all"], Int[Tensor, " all"]]:
    """Sort the keys of each input, one input after the other; also say which input, and where in the flattened keys.

    On a CPU, keys that leave room for it are put behind the number of their input and sorted in one go: torch sorts a
    flat array of whole numbers by their digits, the faster the shorter they are.

    Example:
        >>> for found in sorted_keys(torch.tensor([[5, 2, 7], [1, 0, 1]]), bits=3):
        ...     print(found.tolist())
        [2, 5, 7, 0, 1, 1]
        [0, 0, 0, 1, 1, 1]
        [1, 0, 2, 4, 3, 5]
    """
    count, jobs = keys.shape
    needed = bits + (count - 1).bit_length()
    if keys.device.type == "cpu" and needed < 64:
        keys = keys.int() if needed < 32 else keys.long()
        numbered = torch.arange(count, dtype=keys.dtype)[:, None] << bits | keys
        found = numbered.flatten().sort(stable=True)
        return found.values & ((1 << bits) - 1), found.values >> bits, found.indices
    ordered, position = keys.sort(dim=1)
    owner = torch.arange(count, device=keys.device)[:, None].expand(keys.shape)
    return ordered.flatten(), owner.flatten(), (position + jobs * owner).flatten()


def unpacked(sets: Int[Tensor, " n"], features: int, dtype: torch.dtype) -> Shaped[Tensor, "n features"]:
    """The features of each set, as weights 1 and 0.

    Example:
        >>> unpacked(torch.tensor([5, 2]), 3, torch.float32)
        tensor([[1., 0., 1.],
                [0., 1., 0.]])
    """
    octets = sets.contiguous().view(torch.uint8).reshape(len(sets), -1)[:, : (features + 7) // 8]
    return _octets(sets.device, dtype).index_select(0, octets.int().flatten()).reshape(len(sets), -1)[:, :features]


@functools.cache
def _octets(device: torch.device, dtype: torch.dtype) -> Shaped[Tensor, "256 8"]:
    """For every byte its eight bits: eight features in one look-up."""
    return ((torch.arange(256)[:, None] >> torch.arange(8)) & 1).to(device, dtype)


def _bits(present: Bool[Tensor, "b features"], dtype: torch.dtype) -> Int[Tensor, " b"]:
    place = torch.arange(present.shape[1], dtype=dtype, device=present.device)
    return (present.to(dtype) << place).sum(1, dtype=dtype)
