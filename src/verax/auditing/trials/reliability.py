"""Reliability: does a metric agree with itself from input to input? That is no proof that it is right."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from verax.auditing.bench import Bench, Scores
from verax.auditing.explanations import DRAWN, randomly
from verax.auditing.subject import Ground
from verax.auditing.trials.base import Explanations, Outcome, Trial
from verax.auditing.trials.falls_with_damage import FallsWithDamage
from verax.statistics.intervals import Estimate
from verax.statistics.ranks import krippendorff_alpha, split_half_agreement


@dataclass(frozen=True)
class Reliability(Trial):
    """Agreement of a metric with itself: Krippendorff's alpha of inputs that rank explanations, and split halves.

    The explanations are those of ``falls_with_damage`` and a random one. ``reliability: alpha`` is 1 where all inputs
    rank them alike; ``reliability: split halves`` is the rank correlation of means on two halves of the inputs. A
    metric may be reliable and wrong.

    Args:
        alpha: From here on Krippendorff draws tentative conclusions.
        halves: Rank correlation of two halves that are as good as the same.
    """

    alpha: float = 0.667
    halves: float = 0.9

    name: ClassVar[str] = "reliability"
    asks: ClassVar[str] = "Does the metric agree with itself from input to input? (Reliability, not validity.)"
    validity: ClassVar[bool] = False

    @property
    def passes(self) -> str:
        """When it is passed, and how ties count."""
        least = f"Alpha is at least {self.alpha:g}, and halves correlate by at least {self.halves:g}"
        return f"{least}. Ties share their rank."

    def explanations(self, ground: Ground) -> Explanations:
        """Better and worse ones."""
        known = FallsWithDamage().explanations(ground)
        return {**known, DRAWN: randomly(ground.subject, ground.seed, next(iter(ground.anchors.values())))}

    def outcomes(
        self, ground: Ground, shown: Explanations, scores: Scores, bench: Bench
    ) -> Iterator[tuple[str, Outcome]]:
        """Alpha and halves."""
        names = list(self.explanations(ground))
        for metric, found in scores.items():
            table = torch.stack([found[name] for name in names])
            alpha = krippendorff_alpha(table, ground.level, ground.seed)
            halves = split_half_agreement(table, ground.level, ground.seed)
            yield metric, self._outcome("alpha", alpha, self.alpha, table.shape[1])
            yield metric, self._outcome("split halves", halves, self.halves, table.shape[1])

    def _outcome(self, what: str, value: Estimate, least: float, inputs: int) -> Outcome:
        return Outcome(f"{self.name}: {what}", value, value.mean >= least, inputs)
