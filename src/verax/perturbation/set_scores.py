"""Each distinct removed set of an input is scored once.

Sets of up to 64 features are integers. Of inputs with more features they are known by digests: sums of random 64-bit
words, one for each feature. Attributions of one method under many settings often rank the segments of an image alike,
and then remove the same pixels. Two sets of an input with the same digest are taken for the same; with a hundred
thousand sets this is wrong with a probability of 3e-10.
"""

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from verax.core import noise
from verax.core.arrays import to_device
from verax.core.shapes import Float, Int, Shaped
from verax.perturbation.block import Block, PerturbedRows, features_that_matter
from verax.perturbation.removed_sets import RemovedSets
from verax.problem.attributed import Task
from verax.scoring.session import BuildRows, Session

_PIECE = 1 << 19  # elements of the rows that are made at a time


def score_sets(session: Session, task: Task, block: Block, sets: Int[Tensor, "b jobs"]) -> Float[Tensor, "b jobs"]:
    """Score removed sets; the model is run once on each distinct row of an input.

    Features that already equal their baseline are left out of the sets: removing them changes nothing.
    """
    clean, features = task.clean[block.rows], task.problem.features.most
    matter = features_that_matter(task, block.rows, block.inputs, block.baselines).to(sets.dtype)
    place = torch.arange(features, dtype=sets.dtype, device=sets.device)
    keys = sets & (matter << place).sum(1, dtype=sets.dtype)[:, None]
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
    set_scores = session.target_scores(ahead, owner + block.rows.start, task.target, streamed=True)
    # slot 0 stands before the first distinct set of all; an empty set takes the clean score instead
    known = torch.cat((set_scores.new_zeros(1), set_scores)).index_select(0, slot)
    scores = torch.empty_like(known).scatter_(0, position, known).reshape(keys.shape)
    return torch.where(keys == 0, clean.to(scores)[:, None], scores)


def in_large_pieces(build: BuildRows, count: int, size: int) -> BuildRows:
    """Make many rows at a time and hand them out batch by batch, once, because a model may overwrite them."""
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
    """Sort the keys of each input, one input after the other; also say which input, and where in the flattened keys."""
    # on a CPU, behind the number of their input, in one go: torch sorts a flat array by digits, the shorter the faster
    count, jobs = keys.shape
    needed = bits + (count - 1).bit_length()
    if keys.device.type == "cpu" and needed < 64:
        keys = keys.int() if needed < 32 else keys.long()
        numbered = torch.arange(count, dtype=keys.dtype)[:, None] << bits | keys
        by_key = numbered.flatten().sort(stable=True)
        return by_key.values & ((1 << bits) - 1), by_key.values >> bits, by_key.indices
    ordered, position = keys.sort(dim=1)
    owner = torch.arange(count, device=keys.device)[:, None].expand(keys.shape)
    return ordered.flatten(), owner.flatten(), (position + jobs * owner).flatten()


def unpacked(sets: Int[Tensor, " n"], features: int, dtype: torch.dtype) -> Shaped[Tensor, "n features"]:
    """The features of each set, as weights 1 and 0."""
    octets = sets.contiguous().view(torch.uint8).reshape(len(sets), -1)[:, : (features + 7) // 8]
    return _octets(sets.device, dtype).index_select(0, octets.int().flatten()).reshape(len(sets), -1)[:, :features]


@functools.cache
def _octets(device: torch.device, dtype: torch.dtype) -> Shaped[Tensor, "256 8"]:
    """For every byte its eight bits: eight features in one look-up."""
    return ((torch.arange(256)[:, None] >> torch.arange(8)) & 1).to(device, dtype)


class SetScoreCache:
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
        first_words = torch.arange(len(inputs) + 1, device=device) << 32  # far apart: a stream of words for each
        self.words = noise.words(first_words[:1], 0, features.most) * matters
        self.salt = noise.words(first_words[1:], 0, 1)  # sets of different inputs differ
        self.digests, self.scores = self.salt[:0, 0], replaced[:0]
        ends = torch.cat((self.salt[:, 0], self.salt[:, 0] + self.words.sum(1)))
        self._add(ends, torch.cat((task.clean[rows].to(replaced), replaced)))

    def score(self, block: Block, removals: Sequence[RemovedSets]) -> Float[Tensor, "b jobs"]:
        """Score the sets of all removals; the model is run on those that are not known."""
        digests = torch.cat([removal.digests(self.words) for removal in removals], dim=1) + self.salt
        return self.find(digests, lambda jobs: self._run(block, removals, jobs))

    def find(self, digests: Int[Tensor, "*jobs"], score: Callable[[Tensor], Tensor]) -> Float[Tensor, "*jobs"]:
        """Scores of sets by their salted digests; ``score`` scores those that are not known, given their numbers."""
        ordered, position = digests.flatten().sort()
        fresh = torch.ones_like(ordered, dtype=torch.bool)
        fresh[1:] = ordered[1:] != ordered[:-1]
        fresh &= self.digests[self._place(ordered)] != ordered
        chosen = fresh.nonzero()[:, 0]  # the one moment at which a GPU is waited for
        self._add(ordered[chosen], score(position[chosen]))
        self.session.counts.rows_spared += digests.numel() - len(chosen)
        return self.scores[self._place(digests)]

    def _run(self, block: Block, removals: Sequence[RemovedSets], jobs: Int[Tensor, " m"]) -> Float[Tensor, " m"]:
        """Run the model on some of a block's jobs, which are numbered input by input."""
        session, task = self.session, self.task
        rows = PerturbedRows(session, task, block)
        lines, ranks, before = [], [removal.ranks() for removal in removals], 0
        for removal, ranked in zip(removals, ranks, strict=True):  # lines are counted through the ranks of all
            line, bound, least = removal.lines()
            lines.append((line + before, bound, least))
            before += len(ranked)
        line, bound, least = (torch.cat(parts, dim=1).flatten()[jobs] for parts in zip(*lines, strict=True))
        places = torch.cat(ranks)
        row = jobs // sum(removal.jobs for removal in removals)

        def build(start: int, stop: int) -> Tensor:
            chosen = slice(start, stop)
            return rows.cut(places, (line[chosen], bound[chosen], least[chosen]), row[chosen])

        return session.target_scores(build, row + block.rows.start, task.target, streamed=True)

    def _add(self, digests: Int[Tensor, " m"], scores: Float[Tensor, " m"]) -> None:
        self.digests, order = torch.cat((self.digests, digests)).sort()
        self.scores = torch.cat((self.scores, scores.to(self.scores)))[order]

    def _place(self, digests: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """Where a digest is among those known, if it is."""
        return torch.searchsorted(self.digests, digests).clamp(max=len(self.digests) - 1)
