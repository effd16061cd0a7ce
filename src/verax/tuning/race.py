"""Races: candidates are measured on more and more of the same inputs, and dropped once they surely are no better."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from verax.attribution import Attribution
from verax.comparing import beyond_rounding, mean_and_error, t_quantile
from verax.metrics.intervals import Estimate
from verax.shapes import Float

State = Literal["complete", "leading", "pruned", "failed"]
_FEWEST, _MOST_STEPS = 16, 10  # of the first round: at least so many inputs, and 1/32 of all


def rounds(inputs: int) -> tuple[int, ...]:
    """How many inputs are used in each round; they double every other round.

    Example:
        >>> rounds(1658)
        (52, 74, 104, 147, 208, 294, 415, 587, 829, 1173, 1658)
        >>> rounds(40), rounds(3)
        ((20, 29, 40), (3,))
    """
    sizes = (inputs / 2 ** (step / 2) for step in range(1, _MOST_STEPS + 1))
    return tuple(reversed([inputs, *(math.ceil(size) for size in sizes if size >= _FEWEST)]))


@dataclass(eq=False)
class Candidate:
    """A configuration in the race.

    Attributes:
        number: When it was proposed, from 0.
        batch: With which others.
        configuration: What is measured.
        scores: One for each metric and input so far, the first inputs first.
        cost: Model rows per input of this configuration alone; None until it is known.
        rows: Model rows that were spent on it; of what several share, an even part.
        seconds: Wall-clock time, likewise.
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
        """How many inputs it was measured on."""
        return self.scores.shape[1]

    def state(self, inputs: int) -> State:
        """Where it stands, in a search with so many inputs."""
        if self.reason:
            return "failed"
        if self.inputs == inputs:
            return "complete"
        return "leading" if self.alive else "pruned"


@dataclass(frozen=True)
class Rule:
    """When a candidate is dropped.

    Attributes:
        signs: For each metric 1 where higher is better, -1 where lower is.
        cost: Whether being cheaper is an advantage.
        tolerance: An advantage that is not worth further inputs, as a share of the best score.
        level: Coverage of the interval of a paired difference.
    """

    signs: tuple[int, ...]
    cost: bool
    tolerance: float
    level: float

    def difference(self, one: Candidate, other: Candidate, metric: int, count: int) -> Estimate:
        """By how much a candidate is better than another on the first inputs, with the interval of the paired t-test.

        One input shows no spread, so that its interval is not a number.
        """
        sign = self.signs[metric]
        a, b = (sign * candidate.scores[metric, :count] for candidate in (one, other))
        mean, error = mean_and_error(beyond_rounding(a, b))
        reach = t_quantile((1 + self.level) / 2, count - 1) * error
        return Estimate(mean, error, mean - reach, mean + reach)

    def surely_no_better(self, one: Candidate, other: Candidate, count: int, tolerance: float = 0.0) -> bool:
        """Whether a candidate surely has no advantage over another, beyond a tolerance, in anything that counts."""
        if self.cost and _cost(one) < _cost(other):
            return False
        for metric in range(len(self.signs)):
            tolerated = tolerance * abs(float(other.scores[metric, :count].mean()))
            if not self.difference(one, other, metric, count).high <= tolerated:
                return False
        return True

    def ranked(self, candidates: Sequence[Candidate], count: int) -> list[Candidate]:
        """From the best mean of the first metric on the first inputs to the worst; of equal ones the cheaper first."""
        return sorted(
            candidates,
            key=lambda one: (-self.signs[0] * float(one.scores[0, :count].mean()), _cost(one), one.number),
        )

    def survivors(self, candidates: Sequence[Candidate], count: int) -> list[Candidate]:
        """Those that may still be the best, judged by the first inputs, the best first.

        Who was measured on more inputs than that is not dropped on the evidence of fewer.
        """
        kept: list[Candidate] = []
        for one in self.ranked(candidates, count):
            if one.inputs > count or not any(self.surely_no_better(one, other, count) for other in kept):
                kept.append(one)
        return kept

    def undecided(self, first: Candidate, alive: Sequence[Candidate], count: int) -> list[Candidate]:
        """The best on the first inputs, and those of the others for which more inputs are worth their cost.

        Who may be better than the best, but surely not by more than the tolerance, need not go on, unless another one
        comes to be the best. Who was measured on more inputs stays until they are used. With several objectives all go
        on: they are what is asked for.
        """
        if self.cost or len(self.signs) > 1:
            return list(alive)
        return [
            one
            for one in alive
            if one is first or one.inputs > count or not self.surely_no_better(one, first, one.inputs, self.tolerance)
        ]

    def front(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Of the candidates with the most inputs, those that no other beats; the best in the first metric first.

        One beats another that is at least as good in all that counts, by its means, and better in something.
        """
        count = max(one.inputs for one in candidates)
        candidates = [one for one in candidates if one.inputs == count]
        gains = {one.number: self._gains(one, count) for one in candidates}

        def beaten(one: Candidate) -> bool:
            own = gains[one.number]
            others = (gains[other.number] for other in candidates)
            return any(other != own and all(a >= b for a, b in zip(other, own, strict=True)) for other in others)

        return self.ranked([one for one in candidates if not beaten(one)], count)

    def _gains(self, one: Candidate, count: int) -> tuple[float, ...]:
        means = one.scores[:, :count].mean(1) * torch.tensor(self.signs, dtype=one.scores.dtype)
        return (*means.tolist(), *((-_cost(one),) if self.cost else ()))


def estimated(one: Candidate, reference: Candidate) -> list[float]:
    """Means of a candidate as if it had been measured on the reference's inputs.

    Inputs differ in how hard they are, so that the mean over some cannot be compared with the mean over others. The
    difference to a reference on the same inputs can.
    """
    count = min(one.inputs, reference.inputs)
    ahead = (one.scores[:, :count] - reference.scores[:, :count]).mean(1).tolist()
    base = reference.values or reference.scores.mean(1).tolist()
    return [start + more for start, more in zip(base, ahead, strict=False)]


def _cost(one: Candidate) -> float:
    return math.inf if one.cost is None else one.cost
