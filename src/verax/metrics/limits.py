"""Limits: the best and the worst score that an attribution could get, from the scores of all removed sets or of some.

With one feature per step both curves of a guided experiment follow one chain of sets, from nothing removed to
everything: MoRF has removed a set of the chain, LeRF the complement of one. A score is then a sum over the steps of the
chain, and the best chain is a longest path through all sets, found layer by layer in ``O(d 2^d)``.

Where there are too many sets to look at all of them, a beam search finds a good chain. What it finds is attained by an
attribution, so it is a lower bound of the best score, and an upper bound of the worst. Where both curves count, a chain
is built from both its ends, at which a curve begins; where one does, from its own beginning. On additive models the
chain found the best one, whatever the width, for PC and for DPC in magnitude order.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from verax.core import noise
from verax.core.shapes import Bool, Float, Int
from verax.metrics.limit_reading import ChainReading, Extremes, values_in_order

_TOGETHER = 1 << 16  # sets that are looked at at once


def exact_extremes(
    scores: Float[Tensor, "n sets"], direction: Float[Tensor, "n features"], reading: ChainReading
) -> Extremes:
    """The best and the worst score of any attribution, one feature per step.

    Example: two features add 3 and 1 to the score; PC is best where the larger one goes first.
        >>> from verax.metrics import PredictionChange
        >>> reading = ChainReading.of(PredictionChange(), features=2)
        >>> limits = exact_extremes(torch.tensor([[4.0, 1.0, 3.0, 0.0]]), torch.ones(1, 2), reading)
        >>> round(float(limits.best), 3), float(limits.worst) == -float(limits.best), limits.attribution.tolist()
        (1.778, True, [[1.0, 0.5]])
    """
    chains = _Chains(scores.double(), direction.double(), reading)
    best, attribution = chains.longest(1)
    if reading.mirrored:
        return Extremes.mirrored(best, attribution, reading.factor)
    worst, opposite = chains.longest(-1)
    return Extremes(best, worst, attribution, opposite, chains.chance())


class _Chains:
    """All chains of sets of some inputs, and the longest among them."""

    def __init__(self, scores: Tensor, direction: Tensor, reading: ChainReading) -> None:
        self.scores, self.direction, self.reading = scores, direction, reading
        self.features = direction.shape[1]
        sizes = torch.zeros(1, dtype=torch.int64, device=scores.device)
        for _ in range(self.features):
            sizes = torch.cat((sizes, sizes + 1))
        self.layers = torch.split(sizes.argsort(stable=True), sizes.bincount().tolist())  # all sets by their size

    def longest(self, sense: int) -> tuple[Float[Tensor, " n"], Float[Tensor, "n features"]]:
        """The highest score (``sense`` 1) or the lowest (-1), and an attribution that has it."""
        phases = self.reading.phases
        best = self.scores.new_full((len(phases), *self.scores.shape), -torch.inf)
        best[..., 0] = 0
        for layer in self.layers[1:]:
            for sets in torch.split(layer, _TOGETHER):
                top = best[..., sets]
                for step in self._steps(sets[None]):
                    for at, phase in enumerate(phases):
                        reached = _pick(best[at], step.before).add_(step.counted, alpha=sense * phase)
                        torch.maximum(top[at], reached, out=top[at])
                best[..., sets] = top.cummax(0).values  # a chain may go on to the next phase at any set
        return self._level() + sense * best[-1, :, -1], self._traced(best, sense)

    def chance(self) -> Float[Tensor, " n"]:
        """The mean over all orders and signs: steps that end with as many features removed are all equally likely."""
        total = self._level()
        for size, layer in enumerate(self.layers[1:], start=1):
            sign = self.reading.expected_sign(size, self.features)
            for sets in torch.split(layer, _TOGETHER):
                for step in self._steps(sets[None]):
                    total += sign * step.counted.sum(1) / (len(layer) * size)
        return total

    def _level(self) -> Float[Tensor, " n"]:
        """What the unperturbed score adds to every chain."""
        return self.reading.level * self.scores[:, 0]

    def _traced(self, best: Float[Tensor, "phases n sets"], sense: int) -> Float[Tensor, "n features"]:
        """Follow the longest chain back from its end, and write down who goes when, and with which sign."""
        inputs = best.shape[1]
        rows = torch.arange(inputs, device=best.device)
        sets = torch.full((inputs, 1), best.shape[2] - 1, device=best.device)
        phase = torch.full((inputs,), len(best) - 1, device=best.device)
        place, mark = torch.zeros(2, inputs, self.features, dtype=torch.float64, device=best.device)
        for size in range(self.features, 0, -1):
            for later in range(len(best) - 1, 0, -1):
                same = best[later, rows, sets[:, 0]] == best[later - 1, rows, sets[:, 0]]
                phase = torch.where((phase == later) & same, later - 1, phase)
            steps = list(self._steps(sets))
            factor = sense * torch.tensor(self.reading.phases, device=best.device)[phase]
            reached = [best[phase, rows, step.before[:, 0]] + factor * step.counted[:, 0] for step in steps]
            chosen = torch.stack(reached, dim=1).argmax(1, keepdim=True)
            feature, before, upward, _ = (torch.cat(each, dim=1).gather(1, chosen) for each in zip(*steps, strict=True))
            place.scatter_(1, feature, float(size - 1))
            free = self.reading.factor == "magnitude"
            mark.scatter_(1, feature, 2 * upward.double() - 1 if free else 1 - phase[:, None].double())
            sets = before
        return values_in_order(place, mark, self.reading.factor)

    def _steps(self, sets: Int[Tensor, "r m"]) -> Iterator["_Step"]:
        """The steps that end in some sets of one size: one for each of their features.

        Sets are the same for all inputs (``r`` is 1), or each input's own.
        """
        reading, everything, rest = self.reading, self.scores.shape[1] - 1, sets
        size = int(sets[0, 0]).bit_count()
        scores_of_sets = None if reading.fall is None else _pick(self.scores, sets)
        beyond = None if reading.rise is None else _pick(self.scores, everything - sets)
        for _ in range(size):
            lowest = rest & -rest
            rest, before = rest - lowest, sets - lowest
            feature = lowest.double().log2().long()
            fall = None if scores_of_sets is None else _pick(self.scores, before) - scores_of_sets
            rise = None if beyond is None else _pick(self.scores, everything - before) - beyond
            gain = reading.gain(size, fall, rise)
            direction = _pick(self.direction, feature)
            yield _Step(feature, before, gain * direction >= 0, reading.signed(gain, direction))


class _Step(NamedTuple):
    """The last step to some sets."""

    feature: Int[Tensor, "r m"]  # which one goes
    before: Int[Tensor, "r m"]  # the sets before
    upward: Bool[Tensor, "n m"]  # whether it adds to the score of a positive attribution
    counted: Float[Tensor, "n m"]  # what the step adds to the score


def _pick(values: Float[Tensor, "n c"], index: Int[Tensor, "r m"]) -> Float[Tensor, "n m"]:
    """Look up columns: the same in all rows, or each row's own."""
    return values.index_select(1, index[0]) if len(index) == 1 else values.gather(1, index)


Score = Callable[[Tensor], Tensor]
"""From removed sets ``(n, sets, features)`` of each input to their scores ``(n, sets)``."""


def beam_rows(features: int, reading: ChainReading) -> int:
    """Sets of one input that a search of width 1 scores, for the best and the worst."""
    return (2 + features * (features + 1) // (1 if reading.both else 2)) * (1 if reading.mirrored else 2)


def beam_extremes(score: Score, direction: Float[Tensor, "n features"], reading: ChainReading, width: int) -> Extremes:
    """Bounds of the best and the worst score of any attribution, one feature per step.

    Example: an additive game.
        >>> worth = torch.tensor([3.0, 1.0, -2.0])
        >>> from verax.metrics import PredictionChange
        >>> reading = ChainReading.of(PredictionChange(), features=3)
        >>> limits = beam_extremes(lambda removed: -(removed * worth).sum(-1), torch.ones(1, 3), reading, 1)
        >>> limits.attribution.argsort(descending=True).tolist()
        [[0, 1, 2]]
    """
    best, attribution = _Search(score, direction.double(), reading, width, 1).run()
    if reading.mirrored:
        return Extremes.mirrored(best, attribution, reading.factor)
    worst, opposite = _Search(score, direction.double(), reading, width, -1).run()
    return Extremes(best, worst, attribution, opposite, torch.full_like(best, torch.nan))


@dataclass(frozen=True)
class _Partial:
    """Chains that are being built, from their beginning (side 0) and from their end (side 1)."""

    gone: Bool[Tensor, "n w 2 features"]  # the features placed at each side
    scores: Float[Tensor, "n w 2 2"]  # with these removed, and with all others removed
    total: Float[Tensor, "n w"]  # what the steps placed so far add to the score, in the sense of the search
    place: Float[Tensor, "n w features"]  # of each feature placed, in the order of removal
    mark: Float[Tensor, "n w features"]  # sign of its attribution


@dataclass(frozen=True)
class _Search:
    """A search for the highest score (``sense`` 1) or the lowest (-1)."""

    score: Score
    direction: Float[Tensor, "n features"]
    reading: ChainReading
    width: int
    sense: int

    def run(self) -> tuple[Float[Tensor, " n"], Float[Tensor, "n features"]]:
        """The score of the best chain found, and an attribution that has it."""
        inputs, features = self.direction.shape
        nothing = torch.zeros(inputs, 1, features, dtype=torch.bool, device=self.direction.device)
        ends = self.score(torch.cat((nothing, ~nothing), dim=1)).double()
        blank = torch.zeros_like(nothing, dtype=torch.float64)
        gone, scores = torch.stack((nothing, nothing), dim=2), torch.stack((ends, ends), dim=1)[:, None]
        chains = _Partial(gone, scores, blank[..., 0], blank, blank)  # one for each input, of which nothing is placed
        for placed in range(features):
            chains = self._extended(chains, side=placed % 2 if self.reading.both else int(self.reading.fall is None))
        rows, top = torch.arange(inputs, device=ends.device), chains.total.argmax(1)
        values = values_in_order(chains.place[rows, top], chains.mark[rows, top], self.reading.factor)
        return self.reading.level * ends[:, 0] + self.sense * chains.total[rows, top], values

    def _extended(self, chains: _Partial, side: int) -> _Partial:
        """Place one more feature at a side of every chain, and keep the best of all that come about."""
        inputs, many, _, features = chains.gone.shape
        side_gone = chains.gone[:, :, side]
        feature = (~chains.gone.any(2)).nonzero()[:, 2].reshape(inputs, many, -1)  # as many for each chain
        removed = side_gone[:, :, None].expand(-1, -1, feature.shape[2], -1).scatter(3, feature[..., None], True)
        sets = removed.flatten(1, 2)
        scores = self.score(sets).double()  # and, where the LeRF curve counts, those of complements
        others = self.score(~sets).double() if self.reading.both else scores
        scores = torch.stack((scores, others), dim=-1).reshape(*removed.shape[:3], 2)
        size = int(side_gone[0, 0].sum())
        counted, upward = self._gains(chains.scores[:, :, None, side] - scores, feature, size + 1, side)
        total = (chains.total[..., None] + counted).flatten(1)
        words = noise.words(torch.arange(2, device=total.device) << 32, 0, features)
        digests = ((chains.gone * words).sum((2, 3))[..., None] + words[side][feature]).flatten(1)
        kept = _best_distinct(total, digests, self.width)
        rows, at = torch.arange(inputs, device=kept.device)[:, None], torch.arange(kept.shape[1], device=kept.device)
        parent, feature = kept // feature.shape[2], feature.flatten(1).gather(1, kept)
        parents = {name: values[rows, parent] for name, values in vars(chains).items()}
        extended = _Partial(**parents | {"total": total.gather(1, kept)})
        extended.gone[rows, at, side, feature] = True
        extended.scores[:, :, side] = scores.flatten(1, 2)[rows, kept]
        extended.place[rows, at, feature] = float(size if side == 0 else features - 1 - size)
        extended.mark[rows, at, feature] = upward.flatten(1).gather(1, kept)
        return extended

    def _gains(
        self, change: Float[Tensor, "n w choices 2"], feature: Int[Tensor, "n w choices"], step: int, side: int
    ) -> tuple[Float[Tensor, "n w choices"], Float[Tensor, "n w choices"]]:
        """What a further step counts, and the sign of the attribution for which it does."""
        reading = self.reading
        if side == 0:
            gain = reading.gain(step, change[..., 0], change[..., 1])
        else:  # seen from the end, the two curves change places
            gain = reading.gain(self.direction.shape[1] + 1 - step, -change[..., 1], -change[..., 0])
        direction = self.direction[:, None].expand(-1, feature.shape[1], -1).gather(2, feature)
        counted = self.sense * reading.signed(gain, direction)
        if reading.factor == "magnitude":
            return counted, torch.where(gain * direction < 0, -1.0, 1.0).double()
        if side == 1 and reading.factor != "none":  # in signed order what goes last is negative
            return counted * reading.phases[-1], torch.full_like(counted, -1)
        return counted, torch.ones_like(counted)


def _best_distinct(total: Float[Tensor, "n m"], digests: Int[Tensor, "n m"], width: int) -> Int[Tensor, "n kept"]:
    """Places of the highest totals; of those with equal digests, whose chains go on alike, only the highest."""
    order = total.argsort(dim=1, descending=True, stable=True)
    alike = digests.gather(1, order).sort(dim=1, stable=True)
    again = torch.zeros_like(order, dtype=torch.bool)
    again[:, 1:] = alike.values[:, 1:] == alike.values[:, :-1]
    lower = torch.zeros_like(again).scatter(1, order.gather(1, alike.indices), again)
    most = min(width, int((~lower).sum(1).max()))
    return total.masked_fill(lower, -torch.inf).topk(most, dim=1).indices
