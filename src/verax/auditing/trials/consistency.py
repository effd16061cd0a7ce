"""Consistency and reliability: does a metric agree with its own readings, and with itself from input to input?"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from verax.auditing.audited_problem import AuditContext, AuditedProblem, Bench, Scores
from verax.auditing.trials.base import DRAWN, Explanations, Outcome, Trial, damaged, randomly
from verax.auditing.trials.damage import FallsWithDamage, damaged_name
from verax.core import noise
from verax.core.shapes import Bool, Float
from verax.problem.baselines import spreads
from verax.problem.problem import Problem
from verax.statistics.intervals import Estimate, estimates
from verax.statistics.paired import real_differences, signed_rank_p
from verax.statistics.ranks import krippendorff_alpha, split_half_agreement

_FEWEST = 3  # inputs to compare
_HALF = 0.5  # the damage of the middle one of three explanations


@dataclass(frozen=True)
class Consistency(Trial):
    """IAC, IEC and MC of MetaQuantus' input perturbation test.

    The same explanations are scored on inputs with a little uniform noise, which must change nothing (noise resilience,
    NR: those of the same predicted class), and with much, which must (adversary reactivity, AR: those of another
    class; of regressors all inputs). ``IAC`` is the p-value of Wilcoxon's signed-rank test of the scores with and
    without noise (NR), or one minus it (AR); ``IEC`` the share of inputs on which the explanations rank as before (NR),
    or score lower than before (AR). ``consistency: MC`` is the mean of the four. Explanations are an anchor, the same
    half damaged, and a random one. Intervals are over repeated noise.

    Source: Hedström et al., The meta-evaluation problem in explainable AI: identifying reliable estimators with
    MetaQuantus, TMLR 2023.

    Args:
        little: Size of the noise that must change nothing, in standard deviations of each feature.
        much: Size of the noise that must.
        repeats: How often each is drawn.
        inputs: The first so many are used.
        least: MC passes whose interval is above it.
    """

    little: float = 0.001
    much: float = 1.0
    repeats: int = 3
    inputs: int = 32
    least: float = 0.5

    name: ClassVar[str] = "consistency"
    asks: ClassVar[str] = "Do scores stay with a little noise on the inputs, and change with much? (MetaQuantus)"
    validity: ClassVar[bool] = False

    @property
    def passes(self) -> str:
        """When it is passed, and how ties count."""
        return f"The interval of MC is above {self.least:g}. Scores that tie count as the same rank and as not lower."

    def left_out(self, ground: AuditContext) -> str:
        """Codes cannot be moved a little."""
        checked = ground.subject.problem.given
        if checked.codes is not None or checked.missing or not checked.values.is_floating_point():
            return "categorical inputs and gaps take no noise"
        return ""

    def explanations(self, ground: AuditContext) -> Explanations:
        """Three of different worth."""
        name, values = next(iter(ground.anchors.items()))
        half = damaged(ground.subject, ground.seed, values, _HALF)
        return {
            name: values,
            damaged_name(name, _HALF): half,
            DRAWN: randomly(ground.subject, ground.seed, values),
        }

    def outcomes(
        self, ground: AuditContext, shown: Explanations, scores: Scores, bench: Bench
    ) -> Iterator[tuple[str, Outcome]]:
        """The four scores and their mean."""
        some = slice(0, self.inputs)
        rated = {name: shown[name][some] for name in self.explanations(ground)}
        few = bench.at(some)
        outcomes: dict[str, dict[str, list[float]]] = {metric: {} for metric in scores}
        for number in range(self.repeats):
            for size, resilient in ((self.little, True), (self.much, False)):
                noised, kept = _noised(few.subject, size, f"{ground.seed}/{size}/{number}", resilient)
                if int(kept.sum()) < _FEWEST:
                    continue
                after = few.scores(rated, noised)
                for metric, measured in scores.items():
                    before = torch.stack([measured[name][some] for name in rated])[:, kept]
                    now = torch.stack([after[metric][name] for name in rated])[:, kept]
                    for name, value in _scores(before, now, resilient).items():
                        outcomes[metric].setdefault(name, []).append(value)
        inputs = len(few.subject)
        for metric, values in outcomes.items():
            for name, several in values.items():
                yield metric, Outcome(self.name, _over_noise(several, ground.level), None, inputs, explanation=name)
            if len(values) == 4 and len({len(several) for several in values.values()}) == 1:
                means = [sum(four) / 4 for four in zip(*values.values(), strict=True)]
                whole = _over_noise(means, ground.level)
                yield metric, Outcome(self.name, whole, whole.low > self.least, inputs, explanation="MC")


def _noised(subject: AuditedProblem, size: float, purpose: str, resilient: bool) -> tuple[Problem, Bool[Tensor, " n"]]:
    """Inputs with noise, and which of them belong to the test: those of the same class, or of another one."""
    values = subject.problem.inputs
    drawn = noise.uniforms(noise.input_keys(values, 0, f"audit/consistency/{purpose}"), 0, 1, values[0].numel())
    reach = size * (subject.problem.spread if subject.problem.spread is not None else spreads(values))
    moved = values + (2 * drawn[:, 0].reshape(values.shape) - 1).to(values) * reach.to(values)
    fixed = subject.problem.given.fixed(slice(None))
    moved = moved if fixed is None else torch.where(fixed.to(moved.device), values, moved)
    noised = subject.problem.moved(moved)
    if subject.problem.scorer.adapter.returns == "values":
        return noised, torch.ones(len(values), dtype=torch.bool)
    same = (subject.problem.predicted == noised.predicted).cpu()
    return noised, same if resilient else ~same


def _scores(before: Float[Tensor, "k n"], now: Float[Tensor, "k n"], resilient: bool) -> dict[str, float]:
    """IAC and IEC of one draw of noise."""
    lowered = torch.stack([real_differences(first, two[None])[0] for first, two in zip(before, now, strict=True)])
    same = sum(signed_rank_p(first) for first in lowered) / len(lowered)
    if resilient:
        return {"IAC_NR": same, "IEC_NR": float((_ranks(before) == _ranks(now)).double().mean())}
    return {"IAC_AR": 1 - same, "IEC_AR": float((lowered > 0).double().mean())}


def _ranks(scores: Float[Tensor, "k n"]) -> Float[Tensor, "k n"]:
    """How many explanations each one is above; rounding puts none above another."""
    return torch.stack([(real_differences(score, scores) > 0).double().sum(0) for score in scores])


def _over_noise(values: list[float], level: float) -> Estimate:
    if len(values) < 2:
        return Estimate(values[0], math.nan, math.nan, math.nan)
    return estimates(torch.tensor([values], dtype=torch.float64), level=level)[0]


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

    def explanations(self, ground: AuditContext) -> Explanations:
        """Better and worse ones."""
        known = FallsWithDamage().explanations(ground)
        return {**known, DRAWN: randomly(ground.subject, ground.seed, next(iter(ground.anchors.values())))}

    def outcomes(
        self, ground: AuditContext, shown: Explanations, scores: Scores, bench: Bench
    ) -> Iterator[tuple[str, Outcome]]:
        """Alpha and halves."""
        names = list(self.explanations(ground))
        for metric, measured in scores.items():
            table = torch.stack([measured[name] for name in names])
            alpha = krippendorff_alpha(table, ground.level, ground.seed)
            halves = split_half_agreement(table, ground.level, ground.seed)
            inputs = table.shape[1]
            yield metric, Outcome(self.name, alpha, alpha.mean >= self.alpha, inputs, explanation="alpha")
            yield metric, Outcome(self.name, halves, halves.mean >= self.halves, inputs, explanation="split halves")
