"""Means over a data set with an interval: how far would they move with other inputs of the same kind?

Student's t takes the scores seen for all there are. Sixty good scores say nothing of the one in fifty that is bad; its
interval of them is a point, and a requirement that is false would pass. ``bounded_mean`` and ``mean_square_interval``
stay honest where few scores or draws carry nearly all.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from verax.core import noise
from verax.core.arguments import checked_choice, checked_count, checked_level
from verax.core.blocks import pieces
from verax.core.display import digits_of_interval
from verax.core.shapes import Bool, Float, Shaped

_AT_ONCE = 128  # resamples: how often each of many inputs is drawn in all of them would not fit into memory
Method = Literal["t", "normal", "bootstrap"]
LEVEL = 0.95
_EDGE = 1e-9  # of an interval, left out at its end
_ROUNDING = 1e-6  # of float32 scores; a mean this near to the greatest possible may be that
_HEAVY = 6  # draws over those that carry an effect; 3 where it is normal
_FEW = 40  # that carry an effect: more show how it is spread, however heavy its tail
Numbers = npt.NDArray[np.float64]


def resampled_means(values: Float[Tensor, "k n"], resamples: int, seed: int) -> Float[Tensor, "resamples k"]:
    """Means over inputs drawn with replacement: how often each is drawn, times the values."""
    return means_of(values, times_drawn(values.shape[1], resamples, seed))


def means_of(values: Float[Tensor, "k n"], times: Iterable[Float[Tensor, "part n"]]) -> Float[Tensor, "resamples k"]:
    """Those means, from what ``times_drawn`` gave: who averages much over the same draws makes them once."""
    values = values.double().cpu()
    return torch.cat([part @ values.T / values.shape[1] for part in times])


def times_drawn(count: int, resamples: int, seed: int) -> Iterator[Float[Tensor, "part n"]]:
    """How often each of so many inputs is drawn in each resample, in parts."""
    key = noise.input_keys(torch.zeros(1, 1), seed, "bootstrap")
    for part in pieces(resamples, _AT_ONCE):
        size = part.stop - part.start
        drawn = noise.words(key, part.start * count, size * count).reshape(size, count) % count
        times = torch.zeros(size, count, dtype=torch.float64)
        yield times.scatter_add_(1, drawn, torch.ones_like(times))


def resampled_columns(means: Float[Tensor, "resamples k"], seed: int) -> Float[Tensor, "resamples k"]:
    """In each resample the columns drawn with replacement: where what is averaged is a draw itself, not chosen."""
    key = noise.input_keys(torch.zeros(1, 1), seed, "redrawn")
    drawn = noise.words(key, 0, means.numel()).reshape(means.shape) % max(1, means.shape[1])
    return means.gather(1, drawn)


@dataclass(frozen=True)
class Estimate:
    """A figure over inputs, as a rule a mean, its standard error and an interval.

    Its text has as many digits as the interval leaves meaning.

    Attributes:
        mean: The figure itself.
        standard_error: Of the figure; not a number where it is not known.
        low: Where the interval begins.
        high: Where it ends.

    Example:
        >>> print(Estimate(0.5, 0.1, 0.3, 0.7), f"{Estimate(0.123456, 0.1, 0.0, 0.2):.2g}")
        0.50 [0.30, 0.70] 0.12 [0, 0.2]
    """

    mean: float
    standard_error: float
    low: float
    high: float

    @property
    def may_be_zero(self) -> bool:
        """Whether the interval contains 0, or is not known."""
        return not (self.low > 0 or self.high < 0)

    def digits(self) -> tuple[str, str, str]:
        """The figure and the ends of its interval, with the decimals that show two digits of its half-width."""
        mean, low, high = digits_of_interval((self.mean, self.low, self.high), (self.high - self.low) / 2)
        return mean, low, high

    def __str__(self) -> str:
        mean, low, high = self.digits()
        return f"{mean} [{low}, {high}]"

    def __format__(self, form: str) -> str:
        return f"{self.mean:{form}} [{self.low:{form}}, {self.high:{form}}]" if form else str(self)


def estimates(
    values: Float[Tensor, "k n"], method: Method = "t", level: float = LEVEL, resamples: int = 2000, seed: int = 0
) -> list[Estimate]:
    """Estimate the mean of each row of values.

    Args:
        values: One row per mean, one column per input.
        method: ``"t"``, Student's t, which is right for few inputs of a normal kind; ``"normal"``, its limit for many;
            or ``"bootstrap"``, percentiles of resampled inputs. The bootstrap draws the same inputs for every row, so
            that differences may be read as paired; with ten inputs its 95 % interval covers about 88 %, and that of
            ``"normal"`` about 92 %.
        level: Coverage of the interval.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.
    """
    checked_choice("interval", method, ("t", "normal", "bootstrap"))
    checked_count("resamples", resamples, least=2)
    checked_level(level)
    values = values.double().cpu()
    mean, count = values.mean(1), values.shape[1]
    error = values.std(1) / count**0.5 if count > 1 else torch.full_like(mean, torch.nan)
    if method == "bootstrap":
        resampled = resampled_means(values, resamples, seed) * (1 if count > 1 else torch.nan)
        error = resampled.std(0)
        low, high = _middle(resampled, level)
    else:
        quantile = (1 + level) / 2
        reach = error * (t_quantile(quantile, count - 1) if method == "t" else NormalDist().inv_cdf(quantile))
        low, high = mean - reach, mean + reach
    rows = torch.stack((mean, error, low, high), dim=1).tolist()
    return [Estimate(*row) for row in rows]


def resampled_estimate(figure: float, resampled: Float[Tensor, " r"], level: float = LEVEL) -> Estimate:
    """Any figure with the middle of its values over resampled inputs (percentile bootstrap).

    A resample is noisier than the data, which draws figures such as a correlation or a largest median to one side;
    where the figure itself lies outside, the interval is widened to hold it. Resamples without a figure do not count.
    """
    if math.isnan(figure):
        return Estimate(math.nan, math.nan, math.nan, math.nan)
    values = resampled[~resampled.isnan()].double()
    low, high = _middle(values, level).tolist()
    return Estimate(figure, float(values.std()), min(low, figure), max(high, figure))


def _middle(values: Float[Tensor, "resamples *k"], level: float) -> Float[Tensor, "2 *k"]:
    """The ends of the middle of resampled values."""
    return torch.quantile(values, torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64), dim=0)


def t_quantile(probability: float, degrees: int) -> float:
    """The quantile of Student's t distribution; not a number without a degree of freedom."""
    from scipy.special import stdtrit  # noqa: PLC0415  # to keep ``import verax`` light

    return float(stdtrit(degrees, probability)) if degrees > 0 else math.nan


def proportion(hits: Shaped[Tensor, " n"], level: float = LEVEL) -> Estimate:
    """The share of inputs that are hits, with Wilson's interval, which holds for few inputs and for shares near 0 or 1.

    An input may also be the share of its draws that are hits.
    """
    count = len(hits)
    if count == 0:
        return Estimate(math.nan, math.nan, math.nan, math.nan)
    # By hand: SciPy's takes whole numbers of hits alone, and cuts a sum of shares off.
    share, z = float(hits.double().mean()), NormalDist().inv_cdf((1 + level) / 2)
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    error = math.sqrt(share * (1 - share) / count)
    reach = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return Estimate(share, error, min(share, middle - reach), max(share, middle + reach))


def ratios_of_means(parts: Float[Tensor, "k n"], whole: Float[Tensor, " n"], level: float = LEVEL) -> list[Estimate]:
    """Mean of a part over the mean of the whole, for each of several parts.

    The mean of each input's ratio would hang on inputs whose whole is near 0; here they count little. The interval is
    Student's t on the residuals ``part - ratio * whole`` (the classical ratio estimator: Cochran, Sampling Techniques,
    chapter 6).
    """
    parts, whole = parts.double().cpu(), whole.double().cpu()
    count, mean = len(whole), float(whole.mean()) or math.nan
    ratio = parts.mean(1) / mean
    if count < 2:
        return [Estimate(figure, math.nan, math.nan, math.nan) for figure in ratio.tolist()]
    residual = parts - ratio[:, None] * whole
    error = residual.square().sum(1).div(count - 1).sqrt() / (count**0.5 * abs(mean))
    reach = error * t_quantile((1 + level) / 2, count - 1)
    return [Estimate(*row) for row in torch.stack((ratio, error, ratio - reach, ratio + reach), dim=1).tolist()]


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
    return math.log(max(NormalDist().cdf(-root) + density * (1 / slope - 1 / root), 1e-300))


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
