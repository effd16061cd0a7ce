"""Distinct sets: of inputs with many features, removed sets are told apart by digests, and each is scored once.

Attributions of one method under many settings often rank the segments of an image alike, and then remove the same
pixels. A set's digest is a sum of random 64-bit words, one for each feature; two sets of an input with the same digest
are taken for the same. With a hundred thousand sets this is wrong with a probability of 3e-10.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from verax.core import noise
from verax.core.arrays import to_device
from verax.core.shapes import Float, Int
from verax.perturbation.block import Block
from verax.perturbation.perturbed_rows import PerturbedRows, features_that_matter
from verax.perturbation.removed_sets import RemovedSets
from verax.problem.attributed import Task
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
        inputs = to_device(task.problem.inputs[rows], device)
        matters = features_that_matter(task, rows, inputs, task.replaced(rows, device))
        own = torch.arange(len(inputs) + 1, device=device) << 32  # far apart: a stream of words for each
        self.words = noise.words(own[:1], 0, features.most) * matters
        self.salt = noise.words(own[1:], 0, 1)  # sets of different inputs differ
        self.digests = torch.cat((self.salt[:, 0], self.salt[:, 0] + self.words.sum(1)))
        self.scores = torch.cat((task.clean[rows].to(replaced), replaced))
        self._sort()

    def score(self, block: Block, removals: Sequence[RemovedSets]) -> Float[Tensor, "b jobs"]:
        """Score the sets of all removals, asking the model only for those that are not known."""
        digests = torch.cat([removal.digests(self.words) for removal in removals], dim=1) + self.salt
        return self.find(digests, lambda jobs: self._ask(block, removals, jobs))

    def find(self, digests: Int[Tensor, "*jobs"], ask: Callable[[Tensor], Tensor]) -> Float[Tensor, "*jobs"]:
        """Look up the scores of salted digests.

        Args:
            digests: Of removed sets.
            ask: Scores some of the sets, given their numbers among all: those that are not known.
        """
        ordered, position = digests.flatten().sort()
        fresh = torch.ones_like(ordered, dtype=torch.bool)
        fresh[1:] = ordered[1:] != ordered[:-1]
        fresh &= self.digests[self._place(ordered)] != ordered
        chosen = fresh.nonzero()[:, 0]  # the one moment at which a GPU is waited for
        self._add(ordered[chosen], ask(position[chosen]))
        self.session.counts.rows_spared += digests.numel() - len(chosen)
        return self.scores[self._place(digests)]

    def _ask(self, block: Block, removals: Sequence[RemovedSets], jobs: Int[Tensor, " m"]) -> Float[Tensor, " m"]:
        """Run the model on some of a block's jobs, which are numbered input by input."""
        session, task = self.session, self.task
        rows = PerturbedRows(session, task, block)
        ranks = [removal.ranks() for removal in removals]
        line, bound, least = (part.flatten()[jobs] for part in _lines(removals, [len(one) for one in ranks]))
        places = torch.cat(ranks)
        row = jobs // sum(removal.jobs for removal in removals)

        def build(start: int, stop: int) -> Tensor:
            chosen = slice(start, stop)
            return rows.cut(places, (line[chosen], bound[chosen], least[chosen]), row[chosen])

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


def _lines(removals: Sequence[RemovedSets], heights: Sequence[int]) -> list[Tensor]:
    """The lines, bounds and sides of all removals' jobs, with lines counted through the ranks of all."""
    found, before = [], 0
    for removal, height in zip(removals, heights, strict=True):
        line, bound, least = removal.lines()
        found.append((line + before, bound, least))
        before += height
    return [torch.cat(parts, dim=1) for parts in zip(*found, strict=True)]
