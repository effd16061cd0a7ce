"""Power of the paired test: how large is a difference, and how many inputs does it take to find one of that size?"""

import math

from torch import Tensor

from verax.core.shapes import Float
from verax.statistics.intervals import LEVEL, Estimate, t_quantile

POWER = 0.95
_MOST = 1 << 30  # inputs; what needs more is never found


def effect_size(differences: Float[Tensor, " n"], level: float = LEVEL) -> Estimate:
    """The mean of paired differences in units of their standard deviation, with an interval.

    The error is that of large samples, ``sqrt(1/n + d^2 / (2n))`` (Hedges and Olkin, Statistical methods for
    meta-analysis, chapter 5). Differences that are all 0 have effect 0; equal ones of another size have an infinite
    one.

    Args:
        differences: One per input.
        level: Coverage of the interval.

    Example:
        >>> import torch
        >>> print(effect_size(torch.tensor([1.0, 2.0, 3.0, 2.0])))
        2.4 [-0.7, 5.6]
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
    """The chance that a two-sided paired t-test finds an effect, to either side, with so many inputs.

    Args:
        effect: Mean over standard deviation of the differences.
        inputs: How many.
        level: One minus the test's rate of false alarms.

    Example:
        >>> round(power(0.5, 34), 2), round(power(0.0, 34), 2)
        (0.81, 0.05)
    """
    from scipy.special import nctdtr  # noqa: PLC0415  # to keep ``import verax`` light

    if inputs < 2 or math.isnan(effect):
        return 0.0
    bound, centre = t_quantile((1 + level) / 2, inputs - 1), abs(effect) * math.sqrt(inputs)
    if centre > bound + 40:  # beyond what the distribution function computes, and certain
        return 1.0
    above = 1 - float(nctdtr(inputs - 1, centre, bound))
    return min(1.0, above + float(nctdtr(inputs - 1, centre, -bound)))


def inputs_needed(effect: float, level: float = LEVEL, wanted: float = POWER) -> float:
    """The fewest inputs with which a paired t-test finds an effect so often; infinity where no number is enough.

    Args:
        effect: Mean over standard deviation of the differences.
        level: One minus the test's rate of false alarms.
        wanted: The chance to find it.

    Example:
        >>> inputs_needed(0.5), inputs_needed(-0.5), inputs_needed(0.0)
        (54.0, 54.0, inf)
    """
    if math.isnan(effect) or power(effect, _MOST, level) < wanted:
        return math.inf
    low, high = 1, 2
    while power(effect, high, level) < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(effect, middle, level) >= wanted else (middle, high)
    return float(high)
