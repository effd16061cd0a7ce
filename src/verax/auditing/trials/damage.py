"""Damage: does a score fall with it, and with how many inputs does it tell an explanation from damaged copies?"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from verax.auditing.audited_problem import AuditContext, Bench, Scores
from verax.auditing.trials.base import Explanations, Outcome, Trial, damaged, permuted, randomly
from verax.core.shapes import Float
from verax.statistics.intervals import Estimate, estimates
from verax.statistics.paired import POWER, effect_size, inputs_needed, power, real_differences
from verax.statistics.ranks import spearman

DAMAGES = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class FallsWithDamage(Trial):
    """Rank correlation of score and intactness along a path from an explanation to noise of its own size.

    ``(1 - t) a + t noise`` for t of 0.1 to 1. Two rows: ``falls_with_damage`` is the mean over inputs of Spearman's
    correlation of score and ``1 - t`` (0 for an input whose scores are all the same); ``smallest_damage_found`` is the
    smallest t that a paired t-test finds, at the level of the intervals, with a power of 95 % and as many inputs as
    there are: infinity where it finds none, its interval from that of the size of the effect.

    Args:
        correlation: A correlation passes whose interval is above it.
        damage: The smallest damage found passes that is no larger.
    """

    correlation: float = 0.3
    damage: float = 0.5

    name: ClassVar[str] = "falls_with_damage"
    asks: ClassVar[str] = "Does the score fall as an explanation is damaged, and how little damage is found?"

    @property
    def passes(self) -> str:
        """When it is passed, and how ties count."""
        return (
            f"The interval of the rank correlation is above {self.correlation:g}, and a damage of {self.damage:g} or "
            "less is found. Ties share their rank; an input whose scores are all tied counts 0."
        )

    def explanations(self, ground: AuditContext) -> Explanations:
        """Each anchor, and what is left of it."""
        explanations: dict[str, Tensor] = dict(ground.anchors)
        for anchor, values in ground.anchors.items():
            for size in DAMAGES:
                explanations[damaged_name(anchor, size)] = damaged(ground.subject, ground.seed, values, size)
        return explanations

    def outcomes(
        self, ground: AuditContext, shown: Explanations, scores: Scores, bench: Bench
    ) -> Iterator[tuple[str, Outcome]]:
        """Two for each anchor."""
        for anchor in ground.anchors:
            for metric, measured in scores.items():
                path = torch.stack([measured[anchor], *(measured[damaged_name(anchor, size)] for size in DAMAGES)])
                count = path.shape[1]
                fall = estimates(_correlations(path)[None], level=ground.level)[0]
                yield (
                    metric,
                    Outcome(ground.named(self.name, anchor), fall, fall.low > self.correlation, count),
                )
                least = _smallest(path, ground.level)
                yield (
                    metric,
                    Outcome(ground.named("smallest_damage_found", anchor), least, least.mean <= self.damage, count),
                )


def damaged_name(anchor: str, size: float) -> str:
    """What a damaged explanation is called."""
    return f"{anchor} damaged by {size}"


def _correlations(path: Float[Tensor, "levels n"]) -> Float[Tensor, " n"]:
    """Spearman's correlation of score and intactness for each input."""
    intact = np.array([1.0, *(1 - size for size in DAMAGES)])
    rounded = real_differences(path[0], path)  # differences of nothing but rounding are ties
    correlations = spearman(-rounded.T.numpy(), np.broadcast_to(intact, rounded.T.shape))
    return torch.from_numpy(np.nan_to_num(np.asarray(correlations, dtype=np.float64)))


def _smallest(path: Float[Tensor, "levels n"], level: float) -> Estimate:
    """The smallest damage that lowers the mean score by as much as the test finds, by the effect and both its ends."""
    effects = [effect_size(size, level) for size in real_differences(path[0], path[1:])]
    ends = ([size.mean for size in effects], [size.high for size in effects], [size.low for size in effects])
    sizes = [_first(effect, path.shape[1], level) for effect in ends]
    return Estimate(sizes[0], math.nan, min(sizes), max(sizes))


def _first(effects: list[float], inputs: int, level: float) -> float:
    seen = (
        size
        for size, effect in zip(DAMAGES, effects, strict=True)
        if effect > 0 and power(effect, inputs, level) >= POWER
    )
    return next(seen, math.inf)


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

    def explanations(self, ground: AuditContext) -> Explanations:
        """The given ones, and what is made of them."""
        explanations: dict[str, Tensor] = dict(ground.anchors)
        for anchor, values in ground.anchors.items():
            explanations |= {f"{anchor}, {what}": copy for what, copy in _made(ground, values).items()}
        return explanations

    def outcomes(
        self, ground: AuditContext, shown: Explanations, scores: Scores, bench: Bench
    ) -> Iterator[tuple[str, Outcome]]:
        """One for each pair."""
        pairs = [
            (anchor, f"{anchor}, {what}", f"{anchor} from {what}", True)
            for anchor, values in ground.anchors.items()
            for what in _made(ground, values)
        ]
        pairs += [
            (left, other, f"{left} from {other}", False) for left, other in itertools.combinations(ground.anchors, 2)
        ]
        for metric, measured in scores.items():
            for first, second, words, above in pairs:
                difference = real_differences(measured[first], measured[second][None])[0]
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


def _made(ground: AuditContext, values: Float[Tensor, "n features"]) -> dict[str, Float[Tensor, "n features"]]:
    """What is surely worse than an explanation that has something right."""
    return {
        NOISE: randomly(ground.subject, ground.seed, values),
        PERMUTED: permuted(ground.subject, ground.seed, values),
        NEGATED: -values,
    }
