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
            about = "" if anchor == "truth" else anchor
            for metric, measured in scores.items():
                path = torch.stack([measured[anchor], *(measured[damaged_name(anchor, size)] for size in DAMAGES)])
                fall = estimates(_correlations(path)[None], level=ground.level)[0]
                least = _smallest(path, ground.level)
                for name, value, passed in (
                    (self.name, fall, fall.low > self.correlation),
                    ("smallest_damage_found", least, least.mean <= self.damage),
                ):
                    yield metric, Outcome(name, value, passed, path.shape[1], explanation=about)


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
    sizes = []
    for end in ("mean", "high", "low"):
        named = zip(DAMAGES, (getattr(effect, end) for effect in effects), strict=True)
        seen = (size for size, effect in named if effect > 0 and power(effect, path.shape[1], level) >= POWER)
        sizes.append(next(seen, math.inf))
    return Estimate(sizes[0], math.nan, min(sizes), max(sizes))


# what is surely worse than an explanation that has something right
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
            explanations[f"{anchor}, {NOISE}"] = randomly(ground.subject, ground.seed, values)
            explanations[f"{anchor}, {PERMUTED}"] = permuted(ground.subject, ground.seed, values)
            explanations[f"{anchor}, {NEGATED}"] = -values
        return explanations

    def outcomes(
        self, ground: AuditContext, shown: Explanations, scores: Scores, bench: Bench
    ) -> Iterator[tuple[str, Outcome]]:
        """One for each pair."""
        pairs = [(anchor, f"{anchor}, {what}", what, True) for anchor in ground.anchors for what in WORSE]
        pairs += [(first, other, other, False) for first, other in itertools.combinations(ground.anchors, 2)]
        for metric, measured in scores.items():
            for first, second, against, above in pairs:
                difference = real_differences(measured[first], measured[second][None])[0]
                count, effect = len(difference), effect_size(difference, ground.level)
                needed = inputs_needed(effect.mean, ground.level)
                nearer, farther = sorted((abs(effect.low), abs(effect.high)))
                least = inputs_needed(farther, ground.level)
                most = math.inf if effect.may_be_zero else inputs_needed(nearer, ground.level)
                value = Estimate(needed, math.nan, min(needed, least), max(needed, most))
                ties = float((difference == 0).double().mean())
                right = effect.mean > 0 or not above
                says = "" if right else "scores the wrong one higher" if ties < 1 else "gives both the same score"
                passed = needed <= count and right
                yield metric, Outcome(self.name, value, passed, count, ties, says, first, against)
