"""Damage and noise: do scores fall with damage, differ significantly, bear a little noise, and agree among inputs?"""

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from verax.auditing.audited_problem import AuditContext, AuditedProblem, Bench, Scores
from verax.auditing.trials.base import DRAWN, Explanations, Outcome, Outcomes, Trial, damaged, permuted, randomly
from verax.core import noise
from verax.core.shapes import Bool, Float
from verax.problem.baselines import spreads
from verax.problem.problem import Problem
from verax.statistics.intervals import Estimate, estimates
from verax.statistics.paired import POWER, effect_size, inputs_needed, power, real_differences, signed_rank_p
from verax.statistics.ranks import krippendorff_alpha, spearman, split_half_agreement

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
        return (
            f"The interval of the rank correlation is above {self.correlation:g}, and a damage of {self.damage:g} or "
            "less is found. Ties share their rank; an input whose scores are all tied counts 0."
        )

    def explanations(self, ground: AuditContext) -> Explanations:
        explanations: dict[str, Tensor] = dict(ground.anchors)
        for anchor, values in ground.anchors.items():
            for size in DAMAGES:
                explanations[damaged_name(anchor, size)] = damaged(ground.subject, ground.seed, values, size)
        return explanations

    def outcomes(self, ground: AuditContext, shown: Explanations, scores: Scores, bench: Bench) -> Outcomes:
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
    return f"{anchor} damaged by {size}"


def _correlations(path: Float[Tensor, "levels n"]) -> Float[Tensor, " n"]:
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
        return "There are inputs enough, and an explanation is above what was made of it. A tie is no difference."

    def explanations(self, ground: AuditContext) -> Explanations:
        explanations: dict[str, Tensor] = dict(ground.anchors)
        for anchor, values in ground.anchors.items():
            explanations[f"{anchor}, {NOISE}"] = randomly(ground.subject, ground.seed, values)
            explanations[f"{anchor}, {PERMUTED}"] = permuted(ground.subject, ground.seed, values)
            explanations[f"{anchor}, {NEGATED}"] = -values
        return explanations

    def outcomes(self, ground: AuditContext, shown: Explanations, scores: Scores, bench: Bench) -> Outcomes:
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
        return f"The interval of MC is above {self.least:g}. Scores that tie count as the same rank and as not lower."

    def left_out(self, ground: AuditContext) -> str:
        checked = ground.subject.problem.given
        if checked.codes is not None or checked.missing or not checked.values.is_floating_point():
            return "categorical inputs and gaps take no noise"
        return ""

    def explanations(self, ground: AuditContext) -> Explanations:
        name, values = next(iter(ground.anchors.items()))
        half = damaged(ground.subject, ground.seed, values, _HALF)
        return {
            name: values,
            damaged_name(name, _HALF): half,
            DRAWN: randomly(ground.subject, ground.seed, values),
        }

    def outcomes(self, ground: AuditContext, shown: Explanations, scores: Scores, bench: Bench) -> Outcomes:
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
        least = f"Alpha is at least {self.alpha:g}, and halves correlate by at least {self.halves:g}"
        return f"{least}. Ties share their rank."

    def explanations(self, ground: AuditContext) -> Explanations:
        known = FallsWithDamage().explanations(ground)
        return {**known, DRAWN: randomly(ground.subject, ground.seed, next(iter(ground.anchors.values())))}

    def outcomes(self, ground: AuditContext, shown: Explanations, scores: Scores, bench: Bench) -> Outcomes:
        names = list(self.explanations(ground))
        for metric, measured in scores.items():
            table = torch.stack([measured[name] for name in names])
            alpha = krippendorff_alpha(table, ground.level, ground.seed)
            halves = split_half_agreement(table, ground.level, ground.seed)
            inputs = table.shape[1]
            yield metric, Outcome(self.name, alpha, alpha.mean >= self.alpha, inputs, explanation="alpha")
            yield metric, Outcome(self.name, halves, halves.mean >= self.halves, inputs, explanation="split halves")
