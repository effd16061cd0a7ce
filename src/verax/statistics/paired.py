"""Two attributions on the same inputs: is one better, surely, by how much, and how many inputs would show it?

Differences are paired, input by input.
"""

import bisect
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from verax.core.shapes import Float
from verax.statistics.intervals import LEVEL, Estimate, estimates, t_quantile

_ROUNDING = 1e-6  # of a score; models compute in single precision
POWER = 0.95
_MOST = 1 << 30  # inputs; more are never enough


def paired_difference(
    first: Float[Tensor, " n"], second: Float[Tensor, " n"], level: float = LEVEL, rounding: float = 0.0
) -> Estimate:
    """The mean of first minus second, with the interval of the paired t-test.

    Scores that differ by no more than rounding (a millionth) count as equal: a bias of the last digit is no difference,
    however regular. One input shows no spread, so that its interval is not a number.
    """
    return paired_differences(first, second[None], level, rounding)[0]


def paired_differences(
    first: Float[Tensor, " n"], others: Float[Tensor, "k n"], level: float = LEVEL, rounding: float = 0.0
) -> list[Estimate]:
    """The same for one against each of several others."""
    return estimates(real_differences(first, others, rounding), level=level)


def paired_p_values(first: Float[Tensor, " n"], others: Float[Tensor, "k n"], rounding: float = 0.0) -> list[float]:
    """Two-sided p-values of the paired t-tests of one against each of several others; NaN of one input."""
    from scipy.special import stdtr  # noqa: PLC0415  # to keep ``import verax`` light

    differences = real_differences(first, others, rounding)
    count = differences.shape[1]
    if count < 2:
        return [math.nan] * len(differences)
    mean, error = differences.mean(1), differences.std(1) / count**0.5
    ratio = torch.where(mean == 0, 0.0, mean.abs() / error)  # infinite where all differences are the same
    p_values: list[float] = (2 * stdtr(count - 1, -ratio.numpy())).tolist()
    return p_values


def real_differences(
    first: Float[Tensor, " n"], others: Float[Tensor, "k n"], rounding: float = 0.0
) -> Float[Tensor, "k n"]:
    """First minus each of the others, input by input; 0 where they differ by no more than rounding."""
    first, others = first.double().cpu(), others.double().cpu()
    difference = first - others
    same = difference.abs() <= (_ROUNDING * torch.maximum(first.abs(), others.abs())).clamp(min=rounding)
    return torch.where(same, 0.0, difference)


def holm(p_values: Sequence[float]) -> list[float]:
    """Each p-value as it counts among several; whoever is below ``alpha`` then, is so at that family-wise level.

    ``max over smaller ones of min(1, (m - rank) p)``; a p-value that is not known counts as 1.

    Source: Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics, 1979.
    """
    known = [1.0 if math.isnan(p) else p for p in p_values]
    corrected, highest = [1.0] * len(known), 0.0
    for rank, place in enumerate(sorted(range(len(known)), key=known.__getitem__)):
        highest = max(highest, min(1.0, (len(known) - rank) * known[place]))
        corrected[place] = highest
    return corrected


def signed_rank_p(differences: Float[Tensor, " n"]) -> float:
    """The p-value of Wilcoxon's signed-rank test that paired differences are spread evenly around 0, two-sided.

    Differences of 0 do not count; where all are 0 nothing speaks against it and the value is 1.
    """
    from scipy.stats import wilcoxon  # noqa: PLC0415  # to keep ``import verax`` light

    values = differences.double().cpu()
    moved = values[values != 0]
    return 1.0 if len(moved) == 0 else float(wilcoxon(moved.numpy()).pvalue)


def effect_size(differences: Float[Tensor, " n"], level: float = LEVEL) -> Estimate:
    """The mean of paired differences in units of their standard deviation, with an interval.

    The error is that of large samples, ``sqrt(1/n + d^2 / (2n))`` (Hedges and Olkin, Statistical methods for
    meta-analysis, chapter 5). Differences that are all 0 have effect 0; equal ones of another size have an infinite
    one.
    """
    values = differences.double().cpu()
    count = len(values)
    mean, spread = float(values.mean()), float(values.std()) if count > 1 else math.nan
    if mean == 0 and not spread > 0:
        return Estimate(0.0, 0.0, 0.0, 0.0) if count > 1 else Estimate(0.0, math.nan, math.nan, math.nan)
    if spread <= abs(mean) * 1e-12:
        sure = math.copysign(math.inf, mean)
        return Estimate(sure, 0.0, sure, sure)
    effect = mean / spread
    error = math.sqrt(1 / count + effect * effect / (2 * count))
    reach = error * t_quantile((1 + level) / 2, count - 1)
    return Estimate(effect, error, effect - reach, effect + reach)


def power(effect: float, inputs: int, level: float = LEVEL) -> float:
    """The chance that a two-sided paired t-test finds an effect, to either side, with so many inputs."""
    from scipy.special import nctdtr  # noqa: PLC0415  # to keep ``import verax`` light

    if inputs < 2 or math.isnan(effect):
        return 0.0
    bound, centre = t_quantile((1 + level) / 2, inputs - 1), abs(effect) * math.sqrt(inputs)
    if centre > bound + 40:  # beyond what the distribution function computes, and certain
        return 1.0
    above = 1 - float(nctdtr(inputs - 1, centre, bound))
    return min(1.0, above + float(nctdtr(inputs - 1, centre, -bound)))


def inputs_needed(effect: float, level: float = LEVEL) -> float:
    """The fewest inputs with which a paired t-test finds an effect so often; infinity where no number is enough."""
    if math.isnan(effect) or power(effect, _MOST, level) < POWER:
        return math.inf
    return float(2 + bisect.bisect_left(range(2, _MOST), POWER, key=lambda inputs: power(effect, inputs, level)))
