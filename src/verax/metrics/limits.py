"""Limits: the best and the worst score that an attribution could get, exactly, from the scores of all removed sets.

With one feature per step both curves of a guided experiment follow one chain of sets, from nothing removed to
everything: MoRF has removed a set of the chain, LeRF the complement of one. A score is then a sum over the steps of the
chain, and the best chain is a longest path through all sets, found layer by layer in ``O(d 2^d)``.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

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
        >>> found = exact_extremes(torch.tensor([[4.0, 1.0, 3.0, 0.0]]), torch.ones(1, 2), reading)
        >>> round(float(found.best), 3), float(found.worst) == -float(found.best), found.attribution.tolist()
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
