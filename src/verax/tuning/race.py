"""Races: candidates are measured on more and more of the same inputs, and dropped once they surely are no better."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from verax.attribution import Attribution
from verax.core.shapes import Float
from verax.statistics.anytime import ScoreRange, mean_below
from verax.statistics.intervals import Estimate
from verax.statistics.paired import paired_difference, real_differences

State = Literal["complete", "leading", "pruned", "failed"]
_FEWEST, _MOST_STEPS = 16, 10  # of the first round: at least so many inputs, and 1/32 of all


def rounds(inputs: int) -> tuple[int, ...]:
    """How many inputs are used in each round; they double every other round."""
    sizes = (inputs / 2 ** (step / 2) for step in range(1, _MOST_STEPS + 1))
    return tuple(reversed([inputs, *(math.ceil(size) for size in sizes if size >= _FEWEST)]))


@dataclass(eq=False)
class Candidate:
    """A configuration in the race.

    Attributes:
        number, batch: When it was proposed, from 0, and with which others.
        configuration: What is measured.
        scores: One for each metric and input so far, the first inputs first.
        cost: Model rows per input of this configuration alone; None until it is known.
        rows, seconds: Model rows and wall-clock time spent on it; of what several share, an even part.
        values: What the sampler is told: one number per objective, comparable between candidates on different inputs.
        alive: Whether it may still be the best.
        reason: Why it failed.
    """

    number: int
    batch: int
    configuration: Attribution
    scores: Float[Tensor, "metrics n"]
    cost: float | None = None
    rows: float = 0.0
    seconds: float = 0.0
    values: list[float] = field(default_factory=list)
    alive: bool = True
    reason: str = ""

    @property
    def inputs(self) -> int:
        return self.scores.shape[1]

    def under(self, metric: int) -> "Candidate":
        """The same with the scores of one metric alone."""
        return replace(self, scores=self.scores[metric : metric + 1], values=self.values[metric : metric + 1])

    def state(self, inputs: int) -> State:
        """Where it stands, in a search with so many inputs."""
        if self.reason:
            return "failed"
        if self.inputs == inputs:
            return "complete"
        return "leading" if self.alive else "pruned"


@dataclass(frozen=True)
class Rule:
    """When a candidate is dropped: by bets that may be looked at after every round (``verax.statistics.anytime``).

    They take for granted that no difference to come is larger than all so far; where there was none yet, nothing is
    sure. Student's t, looked at in every round, drops one of two equally good candidates in 12 of 100 races, and a
    better one in 86 of 100 where both differ on 4 of 1,000 inputs alone; the bets in less than 3.

    Attributes:
        signs: For each metric 1 where higher is better, -1 where lower is.
        cost: Whether being cheaper is an advantage.
        tolerance: An advantage that is not worth further inputs, as a share of the best score.
        level: Coverage of an interval; at most ``(1 - level) / 2`` of the better of two candidates are dropped.
        apart: Whether each metric is a race of its own, with its own best; candidates stay as long as they are in one.
    """

    signs: tuple[int, ...]
    cost: bool
    tolerance: float
    level: float
    apart: bool = False

    def under(self, metric: int) -> "Rule":
        """The rule of one metric's own race."""
        return Rule((self.signs[metric],), False, self.tolerance, self.level)

    def difference(self, candidate: Candidate, rival: Candidate, metric: int, count: int) -> Estimate:
        """By how much a candidate is better than a rival on the first inputs, with an interval for a single look."""
        return paired_difference(*self._gained(candidate, rival, metric, count), self.level)

    def _gained(
        self, candidate: Candidate, rival: Candidate, metric: int, count: int
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
        sign = self.signs[metric]
        return sign * candidate.scores[metric, :count], sign * rival.scores[metric, :count]

    def surely_no_better(self, candidate: Candidate, rival: Candidate, count: int, tolerance: float = 0.0) -> bool:
        """Whether a candidate surely has no advantage over a rival, beyond a tolerance, in anything that counts."""
        if self.cost and _cost(candidate) < _cost(rival):
            return False
        for metric in range(len(self.signs)):
            gained, rivals = self._gained(candidate, rival, metric, count)
            ahead, tolerated = real_differences(gained, rivals[None])[0], tolerance * abs(float(rivals.mean()))
            largest = float(ahead.abs().max())
            if not mean_below(ahead, tolerated, ScoreRange(-largest, largest), self.level):
                return False
        return True

    def ranked(self, candidates: Sequence[Candidate], count: int) -> list[Candidate]:
        """From the best mean of the first metric on the first inputs to the worst; of equal ones the cheaper first."""
        means = {candidate: self.signs[0] * float(candidate.scores[0, :count].mean()) for candidate in candidates}
        return sorted(candidates, key=lambda candidate: (-means[candidate], _cost(candidate), candidate.number))

    def survivors(self, candidates: Sequence[Candidate], count: int) -> list[Candidate]:
        """Those that may still be the best, judged by the first inputs, the best first."""
        if self.apart:
            races = (rule.survivors(views, count) for rule, views in self._races(candidates))
            left = {view.number for race in races for view in race}
            return self.ranked([candidate for candidate in candidates if candidate.number in left], count)
        # who was measured on more inputs than that is not dropped on the evidence of fewer
        kept: list[Candidate] = []
        for candidate in self.ranked(candidates, count):
            if candidate.inputs > count or not any(self.surely_no_better(candidate, rival, count) for rival in kept):
                kept.append(candidate)
        return kept

    def undecided(self, best: Candidate, alive: Sequence[Candidate], count: int) -> list[Candidate]:
        """The best on the first inputs, and those of the others that may be better by more than the tolerance.

        Who was measured on more inputs stays until they are used. With several objectives all are asked for, and go on;
        of races apart none where each has one left.
        """
        if self.apart:
            races = []
            for rule, views in self._races(alive):
                best_of_race = rule.survivors([view for view in views if view.inputs >= count], count)[0]
                races.append(rule.undecided(best_of_race, views, count))
            left = {view.number for race in races for view in race} if any(len(race) > 1 for race in races) else set()
            return [candidate for candidate in alive if candidate.number in left]
        if self.cost or len(self.signs) > 1:
            return list(alive)
        return [
            racer
            for racer in alive
            if racer is best
            or racer.inputs > count
            or not self.surely_no_better(racer, best, racer.inputs, self.tolerance)
        ]

    def _races(self, candidates: Sequence[Candidate]) -> Iterator[tuple["Rule", list[Candidate]]]:
        """Each metric's own race: its rule, and the candidates with the scores of this metric alone."""
        for metric in range(len(self.signs)):
            yield self.under(metric), [candidate.under(metric) for candidate in candidates]

    def front(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Of the candidates with the most inputs, those that no other beats; the best in the first metric first."""
        count = max(candidate.inputs for candidate in candidates)
        gains = {candidate: self._gains(candidate) for candidate in candidates if candidate.inputs == count}

        def beaten(gain: tuple[float, ...]) -> bool:
            """Whether another is at least as good in all that counts, by its means, and better in something."""
            rivals = (rival for rival in gains.values() if rival != gain)
            return any(all(theirs >= ours for theirs, ours in zip(rival, gain, strict=True)) for rival in rivals)

        return self.ranked([candidate for candidate, gain in gains.items() if not beaten(gain)], count)

    def _gains(self, candidate: Candidate) -> tuple[float, ...]:
        means = candidate.scores.mean(1) * torch.tensor(self.signs, dtype=candidate.scores.dtype)
        return (*means.tolist(), *((-_cost(candidate),) if self.cost else ()))


def estimated(candidate: Candidate, reference: Candidate) -> list[float]:
    """Means of a candidate as if it had been measured on the reference's inputs; some inputs are harder than others."""
    count = min(candidate.inputs, reference.inputs)
    ahead = (candidate.scores[:, :count] - reference.scores[:, :count]).mean(1).tolist()
    means = reference.values or reference.scores.mean(1).tolist()
    return [mean + more for mean, more in zip(means, ahead, strict=False)]


def _cost(candidate: Candidate) -> float:
    return math.inf if candidate.cost is None else candidate.cost
