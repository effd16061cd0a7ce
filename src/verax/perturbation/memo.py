"""Bit-mask memo: removed sets of up to 64 features as integers, and each distinct set of an input scored once."""

import functools

import torch
from torch import Tensor

from verax.arguments import Problem, Task
from verax.perturbation.block import Block
from verax.scoring import Session
from verax.shapes import Bool, Float, Int

MOST_FEATURES = 64


def prefix_bits(sequence: Int[Tensor, "*batch features"]) -> Int[Tensor, "*batch points"]:
    """The sets of the first 0, 1, ..., d features of a sequence. Feature 63 is the sign bit; sums of bits wrap rightly.

    Example:
        >>> prefix_bits(torch.tensor([2, 0, 1]))
        tensor([0, 4, 5, 7])
    """
    bits = torch.ones_like(sequence) << sequence
    return torch.cat((torch.zeros_like(bits[..., :1]), bits.cumsum(-1)), dim=-1)


def score_sets(
    session: Session, task: Task, block: Block, sets: Int[Tensor, "b jobs"]
) -> tuple[Float[Tensor, "b jobs"], Float[Tensor, " b"]]:
    """Score removed sets and the set of everything, asking the model once for each distinct row of an input.

    Features that already equal their baseline are left out of the sets: removing them changes nothing.
    """
    problem, clean = task.problem, task.clean[block.rows]
    features = torch.arange(problem.features.most, device=sets.device)
    everything = prefix_bits(features)[-1:].expand(len(sets), 1)
    matters = _bits_that_matter(problem, block, features)
    keys = torch.cat((everything, sets), dim=1) & matters[:, None]

    ordered, position = sorted_with_positions(keys, problem.features.most)
    fresh = torch.ones_like(ordered, dtype=torch.bool)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    fresh &= ordered != 0  # nothing removed: that score is known
    slot = fresh.flatten().cumsum(0).reshape(fresh.shape)
    owner = fresh.nonzero()[:, 0]
    distinct = ordered[fresh]

    dtype, layout = session.runner.dtype, session.runner.layout
    inputs = block.inputs.to(dtype, memory_format=layout)
    one_baseline = block.baselines.stride(0) == 0  # the same for all inputs: nothing to look up
    baselines = (block.baselines[:1] if one_baseline else block.baselines).to(dtype, memory_format=layout)

    def build(start: int, stop: int) -> Tensor:
        row = owner[start:stop]
        mask = problem.features.expand(unpacked(distinct[start:stop], len(features)), row + block.rows.start)
        return torch.where(mask, baselines if one_baseline else baselines[row], inputs[row]).to(memory_format=layout)

    session.scorer.rows_spared += keys.numel() - len(owner)
    found = session.target_scores(build, owner + block.rows.start, task.target, streamed=True)
    # slot 0 stands before the first distinct set of all; an empty set takes the clean score instead
    known = torch.cat((found.new_zeros(1), found))[slot]
    known = torch.where(ordered == 0, clean.to(known)[:, None], known)
    scores = torch.empty_like(known).scatter_(1, position, known)
    return scores[:, 1:], scores[:, 0]


def sorted_with_positions(
    keys: Int[Tensor, "b jobs"], bits: int
) -> tuple[Int[Tensor, "b jobs"], Int[Tensor, "b jobs"]]:
    """Sort the keys of each input, and say where each came from.

    On a CPU, keys that leave room for it carry their position in their lowest bits: NumPy sorts plain integers several
    times faster than torch sorts pairs.

    Example:
        >>> sorted_with_positions(torch.tensor([[5, 2, 7]]), bits=3)
        (tensor([[2, 5, 7]]), tensor([[1, 0, 2]]))
    """
    room = max(1, (keys.shape[1] - 1).bit_length())
    if keys.device.type != "cpu" or bits + room > 63:
        found = keys.sort(dim=1)
        return found.values, found.indices
    packed = (keys << room | torch.arange(keys.shape[1])).numpy()
    packed.sort(axis=1)
    ordered = torch.from_numpy(packed)
    return ordered >> room, ordered & ((1 << room) - 1)


def unpacked(sets: Int[Tensor, " n"], features: int) -> Bool[Tensor, "n features"]:
    """The features of each set.

    Example:
        >>> unpacked(torch.tensor([5, 2]), 3)
        tensor([[ True, False,  True],
                [False,  True, False]])
    """
    octets = sets.contiguous().view(torch.uint8).reshape(len(sets), 8)[:, : (features + 7) // 8]
    return _octets(sets.device)[octets.int()].view(torch.bool)[:, :features]


@functools.cache
def _octets(device: torch.device) -> Int[Tensor, "256"]:
    """For every byte its eight bits, as the eight bytes of one number: eight features in one look-up."""
    bits = (torch.arange(256)[:, None] >> torch.arange(8)) & 1
    return bits.to(torch.uint8).view(torch.int64)[:, 0].to(device)


def _bits_that_matter(problem: Problem, block: Block, features: Int[Tensor, " features"]) -> Int[Tensor, " b"]:
    differs = (block.inputs != block.baselines).double()
    present = problem.features.reduce(differs, block.rows) > 0
    return (present.long() << features).sum(1)
