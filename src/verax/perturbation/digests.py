"""Distinct sets: of inputs with many features, removed sets are told apart by digests, and each is scored once.

Attributions of one method under many settings often rank the segments of an image alike, and then remove the same
pixels. A set's digest is a sum of random 64-bit words, one for each feature; two sets of an input with the same digest
are taken for the same. With a hundred thousand sets this is wrong with a probability of 3e-10.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from verax.core import noise
from verax.core.shapes import Float, Int
from verax.core.transfer import to_device
from verax.perturbation.block import Block
from verax.perturbation.removed_sets import RemovedSets
from verax.problem.baselines import differs
from verax.problem.problem import Task
from verax.scoring.session import Session


class Known:
    """Scores of the removed sets of some inputs, by digest; grows from block to block of attributions.

    Nothing removed and everything removed are known from the start. Features that equal their baseline do not count:
    removing them changes nothing.
    """

    def __init__(self, session: Session, task: Task, rows: slice, replaced: Float[Tensor, " b"]) -> None:
        self.session, self.task = session, task
        features = task.problem.features
        device = session.device
        inputs, baselines = (to_device(one[rows], device) for one in (task.problem.inputs, task.problem.baselines))
        matters = features.reduce(differs(inputs, baselines, task.problem.given.missing).double(), rows) > 0
        own = torch.arange(len(inputs) + 1, device=device) << 32  # far apart: a stream of words for each
        self.words = noise.words(own[:1], 0, features.most) * matters
        self.salt = noise.words(own[1:], 0, 1)  # sets of different inputs differ
        self.digests = torch.cat((self.salt[:, 0], self.salt[:, 0] + self.words.sum(1)))
        self.scores = torch.cat((task.clean[rows].to(replaced), replaced))
        self._sort()

    def score(self, block: Block, removals: Sequence[RemovedSets]) -> Float[Tensor, "b jobs"]:
        """Score the sets of all removals, asking the model only for those that are not known."""
        digests = torch.cat([removal.digests(self.words) for removal in removals], dim=1) + self.salt
        ordered, position = digests.flatten().sort()
        fresh = torch.ones_like(ordered, dtype=torch.bool)
        fresh[1:] = ordered[1:] != ordered[:-1]
        fresh &= self.digests[self._place(ordered)] != ordered
        self._add(ordered[fresh], self._ask(block, removals, position[fresh]))
        self.session.counts.rows_spared += digests.numel() - int(fresh.sum())
        return self.scores[self._place(digests)]

    def _ask(self, block: Block, removals: Sequence[RemovedSets], jobs: Int[Tensor, " m"]) -> Float[Tensor, " m"]:
        """Run the model on some of a block's jobs, which are numbered input by input."""
        session, task = self.session, self.task
        dtype, layout = session.runner.dtype, session.runner.layout
        inputs, baselines = (one.to(dtype, memory_format=layout) for one in (block.inputs, block.baselines))
        ranks = torch.cat([removal.ranks() for removal in removals])
        line, bound, least = (torch.cat(parts, dim=1).flatten()[jobs] for parts in zip(*_lines(removals), strict=True))
        row = jobs // sum(removal.jobs for removal in removals)

        def build(start: int, stop: int) -> Tensor:
            chosen, at = slice(start, stop), row[start:stop]
            removed = (ranks[line[chosen]] < bound[chosen, None]) != least[chosen, None]
            mask = task.problem.features.expand(removed, at + block.rows.start)
            return torch.where(mask, baselines[at], inputs[at]).to(memory_format=layout)

        return session.target_scores(build, row + block.rows.start, task.target, streamed=True)

    def _add(self, digests: Int[Tensor, " m"], scores: Float[Tensor, " m"]) -> None:
        self.digests = torch.cat((self.digests, digests))
        self.scores = torch.cat((self.scores, scores.to(self.scores)))
        self._sort()

    def _sort(self) -> None:
        self.digests, order = self.digests.sort()
        self.scores = self.scores[order]

    def _place(self, digests: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """Where a digest is among those known, if it is."""
        return torch.searchsorted(self.digests, digests).clamp(max=len(self.digests) - 1)


def _lines(removals: Sequence[RemovedSets]) -> list[tuple[Tensor, ...]]:
    """For every job: its line in the ranks of all removals, the rank where it is cut, and whether it is LeRF.

    The first c features are gone where ranks are below c; the last c where they are not below the count less c.
    """
    found, before = [], 0
    for removal in removals:
        k, b, _ = removal.sequence.shape
        device = removal.cuts.device
        shape = (b, k, 2, removal.inner)
        line = before + torch.arange(k * b, device=device).reshape(k, b).T[:, :, None, None]
        inner = removal.cuts[:, 1:-1]
        bound = torch.stack((inner, removal.counts - inner), dim=1)[:, None]
        least = torch.tensor((False, True), device=device)[:, None]
        found.append(tuple(part.expand(shape).reshape(b, -1) for part in (line, bound, least)))
        before += k * b
    return found
