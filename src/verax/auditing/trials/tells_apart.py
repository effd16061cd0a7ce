"""Tells apart: with how many inputs does a metric tell explanations apart, whichever of them is right?"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from verax.auditing.bench import Bench, Scores
from verax.auditing.explanations import permuted, randomly
from verax.auditing.subject import Ground
from verax.auditing.trials.base import Explanations, Outcome, Trial
from verax.core.shapes import Float
from verax.statistics.intervals import Estimate
from verax.statistics.paired import effect_size, inputs_needed, real_differences

NOISE, PERMUTED, NEGATED = WORSE = ("noise of its size", "its permutation", "its negation")


@dataclass(frozen=True)
class TellsApart(Trial):
    """Inputs that a paired t-test needs to find a difference of two explanations, with a power of 95 %.

    Each explanation against a random one, its own numbers on other features, and its negation, and against each of the
    others. From the size of the effect on the inputs that there are; the interval is that of the effect, infinity where
    it may be 0. The test is two-sided, since nobody knows which one is right; but what does not beat a random one, or
    is no better than its own negation, is not significantly different.
    """

    name: ClassVar[str] = "tells_apart"
    asks: ClassVar[str] = "With how many inputs are two explanations significantly different?"
    needs_truth: ClassVar[bool | None] = None  # truth_wins asks for more

    @property
    def passes(self) -> str:
        """When it is passed, and how ties count."""
        return "There are inputs enough, and an explanation is above what was made of it. A tie is no difference."

    def explanations(self, ground: Ground) -> Explanations:
        """The given ones, and what is made of them."""
        found: dict[str, Tensor] = dict(ground.anchors)
        for anchor, values in ground.anchors.items():
            found |= {f"{anchor}, {what}": one for what, one in _made(ground, values).items()}
        return found

    def outcomes(
        self, ground: Ground, shown: Explanations, scores: Scores, bench: Bench
    ) -> Iterator[tuple[str, Outcome]]:
        """One for each pair."""
        pairs = [
            (anchor, f"{anchor}, {what}", f"{anchor} from {what}", True)
            for anchor, values in ground.anchors.items()
            for what in _made(ground, values)
        ]
        pairs += [
            (one, other, f"{one} from {other}", False) for one, other in itertools.combinations(ground.anchors, 2)
        ]
        for metric, found in scores.items():
            for first, second, words, above in pairs:
                difference = real_differences(found[first], found[second][None])[0]
                yield metric, self._outcome(words, difference, above, ground.level)

    def _outcome(self, words: str, difference: Float[Tensor, " n"], above: bool, level: float) -> Outcome:
        count, effect = len(difference), effect_size(difference, level)
        needed = inputs_needed(effect.mean, level)
        farther = max(abs(effect.low), abs(effect.high))
        ends = (inputs_needed(farther, level), math.inf if effect.may_be_zero else _nearer(effect, level))
        ties = float((difference == 0).double().mean())
        right = effect.mean > 0 or not above
        value = Estimate(needed, math.nan, min(needed, ends[0]), max(needed, ends[1]))
        says = "" if right else "scores the wrong one higher" if ties < 1 else "gives both the same score"
        return Outcome(f"{self.name}: {words}", value, needed <= count and right, count, ties, says)


def _nearer(effect: Estimate, level: float) -> float:
    return inputs_needed(min(abs(effect.low), abs(effect.high)), level)


def _made(ground: Ground, values: Float[Tensor, "n features"]) -> dict[str, Float[Tensor, "n features"]]:
    """What is surely worse than an explanation that has something right."""
    return {
        NOISE: randomly(ground.subject, ground.seed, values),
        PERMUTED: permuted(ground.subject, ground.seed, values),
        NEGATED: -values,
    }
