"""Bit-mask memo: removed sets of up to 64 features as integers, and each distinct set of an input scored once."""

import torch
from torch import Tensor

from verax.arguments import Problem, Task
from verax.perturbation.block import Block
from verax.scoring import Session
from verax.shapes import Float, Int

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

    ordered, position = keys.sort(dim=1)
    fresh = torch.ones_like(ordered, dtype=torch.bool)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    fresh &= ordered != 0  # nothing removed: that score is known
    slot = fresh.flatten().cumsum(0).reshape(fresh.shape)
    owner = fresh.nonzero()[:, 0]
    distinct = ordered[fresh]

    def build(start: int, stop: int) -> Tensor:
        row = owner[start:stop]
        removed = ((distinct[start:stop, None] >> features) & 1).bool()
        mask = problem.features.expand(removed, row + block.rows.start)
        return torch.where(mask, block.baselines[row], block.inputs[row])

    session.scorer.rows_spared += keys.numel() - len(owner)
    found = session.target_scores(build, owner + block.rows.start, task.target)
    # slot 0 stands before the first distinct set of all; an empty set takes the clean score instead
    known = torch.cat((found.new_zeros(1), found))[slot]
    known = torch.where(ordered == 0, clean.to(known)[:, None], known)
    scores = torch.empty_like(known).scatter_(1, position, known)
    return scores[:, 1:], scores[:, 0]


def _bits_that_matter(problem: Problem, block: Block, features: Int[Tensor, " features"]) -> Int[Tensor, " b"]:
    differs = (block.inputs != block.baselines).double()
    present = problem.features.reduce(differs, block.rows) > 0
    return (present.long() << features).sum(1)
