"""Intervals that stay honest where few scores or draws carry nearly all.

Student's t takes the scores seen for all there are. Sixty good scores say nothing of the one in fifty that is bad; its
interval of them is a point, and a requirement that is false would pass.
"""

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from verax.core.arguments import checked_level
from verax.core.shapes import Bool, Float
from verax.statistics.intervals import LEVEL, Estimate, t_quantile

_NORMAL = NormalDist()
_EDGE = 1e-9  # of an interval, left out at its end
_ROUNDING = 1e-6  # of float32 scores; a mean this near to the greatest possible may be that
Numbers = npt.NDArray[np.float64]
_HEAVY = 6  # draws over those that carry an effect; 3 where it is normal
_FEW = 40  # that carry an effect: more show how it is spread, however heavy its tail


def bounded_mean(scores: Float[Tensor, " n"], low: float, high: float, level: float = LEVEL) -> Estimate:
    """The mean of scores from ``low`` to ``high``, with an interval for any distribution on that range.

    The upper end is the largest mean that scores can have when one more, the greatest possible, is added and all are
    weighted at random: the quantile of ``sum_i w_i x_i``, w uniform over all weights that sum to 1 (Gaffke 2005). It is
    that of Clopper and Pearson where scores are 0 or 1, and close to Student's t for many scores of a normal kind. That
    it covers every distribution is proven for scores of two values, and otherwise conjectured; no counterexample is
    known (Learned-Miller and Thomas 2019; Phan, Thomas and Learned-Miller 2021).
    """
    checked_level(level)
    values = scores.detach().double().cpu().numpy()
    count = len(values)
    if not count or not np.isfinite(values).all() or not low < high:
        mean = float(values.mean()) if count else math.nan
        return Estimate(mean, math.nan, math.nan, math.nan)
    if values.min() < low or values.max() > high:
        raise ValueError(f"scores: expected values from {low:g} to {high:g}, got {values.min():g} to {values.max():g}.")
    error = float(values.std(ddof=1)) / math.sqrt(count) if count > 1 else math.nan
    within, weights = np.unique((values - low) / (high - low), return_counts=True)
    above = _upper_end(within, weights.astype(float), (1 - level) / 2)
    below = 1 - _upper_end(1 - within[::-1], weights[::-1].astype(float), (1 - level) / 2)
    mean = float(values.mean())
    return Estimate(mean, error, min(mean, low + below * (high - low)), max(mean, low + above * (high - low)))


def _upper_end(values: Numbers, weights: Numbers, rate: float) -> float:
    """Where the randomly weighted mean of sorted values from 0 to 1, and of one 1 more, is reached so rarely."""
    from scipy.optimize import brentq  # noqa: PLC0415  # to keep ``import verax`` light

    values, weights = np.append(values, 1.0), np.append(weights, 1.0)
    mean = float(np.average(values, weights=weights))
    if 1 - mean < _ROUNDING:
        return 1.0
    return float(brentq(lambda end: _log_tail(values - end, weights) - math.log(rate), mean, 1 - _EDGE * (1 - mean)))


def _log_tail(distances: Numbers, weights: Numbers) -> float:
    """The logarithm of the probability that ``sum_i a_i G_i`` is above 0, for gamma variables G of these shapes.

    Weights that are uniform over all that sum to 1 are exponential variables over their sum. The saddle point
    approximation of Lugannani and Rice (1980): the rate of an interval's end is off by less than a tenth of itself
    where the exact one is known, and then too small.
    """
    from scipy.optimize import brentq  # noqa: PLC0415

    if float((weights * distances).sum()) >= 0:  # the mean itself
        return math.log(0.5)
    pole = 1 / float(distances.max())
    point = brentq(lambda at: float((weights * distances / (1 - distances * at)).sum()), 0, pole * (1 - _EDGE))
    shrunk = 1 - distances * point
    exponent = float((weights * np.log(shrunk)).sum())  # minus the cumulant function, above 0 beyond the mean
    root = math.sqrt(max(0.0, 2 * exponent))
    if root < _EDGE:
        return math.log(0.5)
    slope = point * math.sqrt(float((weights * (distances / shrunk) ** 2).sum()))
    if root > 30:  # where the normal distribution's tail is no number any more: its leading term
        return -exponent - math.log(slope * math.sqrt(2 * math.pi))
    density = math.exp(-exponent) / math.sqrt(2 * math.pi)
    return math.log(max(_NORMAL.cdf(-root) + density * (1 / slope - 1 / root), 1e-300))


def participation_ratio(effects: Float[Tensor, "n draws"]) -> Float[Tensor, " n"]:
    """How many draws carry an effect S, ``sum(S^2)^2 / sum(S^4)``: one if it is one draw's alone, all if all are equal.

    It is called the participation ratio, or the effective sample size of weights; 0 where nothing happens.
    """
    size = effects.abs().amax(1, keepdim=True)
    squares = (effects / torch.where(size > 0, size, 1)).square()  # the fourth power of 1e-80 would be 0
    fourth = squares.square().sum(1)
    return squares.sum(1).square() / torch.where(fourth > 0, fourth, 1)


def depends_on_few_draws(carried: Float[Tensor, " n"], draws: int) -> Bool[Tensor, " n"]:
    """Whether so few draws carry an effect that others may carry more, as where a model is sure of an input."""
    return (carried < _FEW) & (carried * _HEAVY < draws)


def mean_square_interval(
    mean: Float[Tensor, "k n"],
    error: Float[Tensor, "k n"],
    carried: Float[Tensor, " n"],
    draws: int,
    most: float,
    level: float,
) -> tuple[Float[Tensor, "k n"], Float[Tensor, "k n"]]:
    """Where a mean of squares would lie with endless draws.

    Squares are skewed, and from few draws their spread comes out too small. So the interval is one of Student's t for
    the logarithm, with its upper part longer by the relative error. Where the effect rests on few draws, the mean may
    hang on draws that none of these is like. What n draws have not shown has a probability of at most ``1 - (alpha /
    2)^(1 / n)`` (the rule of three: Hanley and Lippman-Hand 1983); that much, times the largest square there can be, is
    added to the upper end.
    """
    relative = torch.where(mean > 0, error / mean, torch.zeros_like(error))
    reach = t_quantile((1 + level) / 2, draws - 1) * relative
    unseen = 1 - ((1 - level) / 2) ** (1 / draws)
    doubt = torch.where(depends_on_few_draws(carried, draws), most**2 * unseen, 0.0)
    return mean * (-reach).exp(), mean * (reach * (1 + relative)).exp() + doubt
