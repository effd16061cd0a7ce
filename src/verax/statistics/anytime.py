"""Means and tests by betting, which may be looked at after every row: they hold at any time of stopping."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from verax.core.arguments import checked_level
from verax.core.shapes import Float
from verax.statistics.intervals import LEVEL, Estimate, t_quantile
from verax.statistics.sums import UNIT, ScoreSums, exact_sum

_STAKES = 0.9 * 0.5 ** np.arange(30.0)  # shares of the largest that cannot lose all; the smaller, for the more rows
_LOG_SHARES = -np.log((np.arange(30.0) + 1) * (np.arange(30.0) + 2))  # of the capital on each; together below 1
_FOURTH = np.where(  # least factors with log(1 + y) >= y - y^2 / 2 + y^3 / 3 - factor y^4 for all y >= -stake
    _STAKES > 0.01, (-np.log1p(-_STAKES) - _STAKES - _STAKES**2 / 2 - _STAKES**3 / 3) / _STAKES**4, 0.26
)
_DISTANCES = np.concatenate((0.5 ** np.arange(40.0, 0.0, -1.0), 1 - 0.5 ** np.arange(2.0, 9.0)))  # shares of a mean
_LARGEST = 1e75  # scores beyond are as good as unknown: their fourth power overflows
_ROUNDING = 1e-5  # of the range: scores of float32 may lie that far outside


@dataclass(frozen=True)
class ScoreRange:
    """The least and the greatest score that a metric can have.

    Attributes:
        low: The least; infinity where nothing is known.
        high: The greatest; minus infinity where nothing is known.
        certain: Whether no score can lie outside. If not, the range is widened by the scores seen, and an interval
            holds if none of the scores to come lies outside.

    Example:
        >>> ScoreRange(-1.0, 1.0).holding(-0.5, 1.5)
        ScoreRange(low=-1.0, high=1.5, certain=False)
    """

    low: float = math.inf
    high: float = -math.inf
    certain: bool = False

    @property
    def width(self) -> float:
        """How far apart both ends are; 0 where nothing is known, or all scores seen are alike."""
        return max(0.0, self.high - self.low)

    def holding(self, low: float, high: float) -> "ScoreRange":
        """The range with these scores in it; raises where a range that is certain is wrong."""
        beyond = max(self.low - low, high - self.high)
        if self.certain and beyond > _ROUNDING * self.width:
            raise ValueError(f"expected scores from {self.low:g} to {self.high:g}, got {low:g} to {high:g}.")
        return replace(self, low=min(self.low, low), high=max(self.high, high))


@dataclass(frozen=True)
class AnytimeSums(ScoreSums):
    """Sums of scores whose interval may decide when to stop.

    Bets are placed against every mean m that there can be. For scores x within a range of 0 to 1, the capital of a bet
    on a higher mean is multiplied by ``1 + s (x / m - 1)`` for every score, for 30 stakes s that share a capital of 1;
    a bet on a lower mean does the same with ``1 - x`` and ``1 - m``. If m is the mean, given all scores before, a
    capital reaches ``2 / (1 - level)`` with a probability of at most ``(1 - level) / 2``, ever (Ville's inequality;
    Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, 2024). The interval holds all m
    against which neither bet won that much. No distribution is assumed.

    The capital for all m follows from four sums of powers, by a lower bound of the logarithm:
    ``log(1 + y) >= y - y^2 / 2 + y^3 / 3 - c y^4`` for ``y >= -s``. So nothing but sums is kept, their order does not
    count, and those of independent streams may be added: their capitals multiply.
    """

    cubes: int = 0  # the sum of cubes, in units of ``2**-1130``
    fourths: int = 0  # the sum of fourth powers, in the same unit
    range: ScoreRange = ScoreRange()  # where scores lie

    @classmethod
    def of(cls, scores: Float[Tensor, " n"], known: ScoreRange = ScoreRange()) -> "AnytimeSums":  # noqa: B008
        values = scores.detach().to("cpu", torch.float64)
        sums = ScoreSums.of(values.where(values.abs() < _LARGEST, torch.nan))
        kept = values[values.abs() < _LARGEST].numpy()
        seen = known.holding(float(kept.min()), float(kept.max())) if len(kept) else known
        powers = exact_sum(kept * kept * kept), exact_sum((kept * kept) ** 2)
        return cls(sums.count, sums.total, sums.squares, sums.unknown, *powers, seen)

    def __add__(self, other: ScoreSums) -> "AnytimeSums":
        if not isinstance(other, AnytimeSums):
            raise TypeError("expected sums with anytime intervals on both sides of +, got one without.")
        both = ScoreSums.__add__(self, other)
        powers = self.cubes + other.cubes, self.fourths + other.fourths
        seen = self.range.holding(other.range.low, other.range.high)
        return AnytimeSums(both.count, both.total, both.squares, both.unknown, *powers, seen)

    def estimate(self, level: float = LEVEL) -> Estimate:
        """The mean with an interval that holds at any time; its ends are not numbers where no range is known."""
        checked_level(level)
        error = math.sqrt(self.variance / self.count) if self.count > 1 else math.nan
        width, low = self.range.width, self.range.low
        if not self.count or self.unknown or not width:
            return Estimate(self.mean, error, math.nan, math.nan)
        mean = (self.mean - low) / width
        moments, needed = self._moments(), math.log(2 / (1 - level))
        below = _reach_below(mean, moments, needed) * width
        above = _reach_below(1 - mean, replace(moments, cubes=-moments.cubes), needed) * width
        return Estimate(self.mean, error, self.mean - below, self.mean + above)

    def _moments(self) -> "_Moments":
        count, width = self.count, self.range.width
        total, squares, cubes, fourths = (
            Fraction(power, 1 << UNIT) for power in (self.total, self.squares, self.cubes, self.fourths)
        )
        mean = total / count
        second = float(squares - count * mean**2) / width**2
        third = float(cubes - 3 * mean * squares + 2 * count * mean**3) / width**3
        fourth = float(fourths - 4 * mean * cubes + 6 * mean**2 * squares - 3 * count * mean**4) / width**4
        size = max(abs(self.range.low), abs(self.range.high)) / width
        rounding = 2.0**-46 * count  # generous: each power was rounded before it was added
        second = max(0.0, second) + rounding * size**2
        third = min(max(third, -second), second)  # no difference is more than 1
        fourth = min(max(0.0, fourth) + rounding * size**4, second)
        return _Moments(count, second, third, min(rounding * size**3, 2 * second), fourth)


def mean_below(scores: Float[Tensor, " n"], bound: float, known: ScoreRange, level: float = LEVEL) -> bool:
    """Whether the mean of scores is surely below a bound, by the bets of ``AnytimeSums``, score by score.

    At most ``(1 - level) / 2`` of such tests are ever wrong, however often they are repeated as scores come.
    """
    checked_level(level)
    if not known.width:
        return False
    mean = (bound - known.low) / known.width
    if not 0 < mean < 1:
        return mean >= 1
    values = (scores.detach().to("cpu", torch.float64).numpy() - known.low) / known.width
    gains, needed = (mean - values) / (1 - mean), math.log(2 / (1 - level))
    most = 1 + float(_STAKES[0]) * float(gains.mean())
    if not (most > 1 and len(gains) * math.log(most) >= needed):  # no stake wins more than if all scores were alike
        return False
    logs = np.log1p(_STAKES[:, None] * gains).sum(1)
    return bool(np.logaddexp.reduce(_LOG_SHARES + logs) >= needed)


@dataclass(frozen=True)
class _Moments:
    """Sums of powers of the differences from the mean, of scores from 0 to 1.

    Squares and fourth powers are at least what they are, cubes are within their error.
    """

    count: int
    squares: float
    cubes: float
    cube_error: float
    fourths: float

    def log_capital(self, mean: float, distances: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """At least the logarithm of what bets on a mean above ``mean - distance`` have won, for each distance."""
        distance = distances[:, None]
        stakes = _STAKES / (mean - distance)
        square = self.squares + self.count * distance**2
        cube = self.cubes - self.cube_error + 3 * distance * self.squares + self.count * distance**3
        largest = abs(self.cubes) + self.cube_error
        fourth = self.fourths + distance * (4 * largest + 6 * distance * self.squares + self.count * distance**3)
        logs = stakes * self.count * distance - stakes**2 * square / 2 + stakes**3 * cube / 3
        capital: npt.NDArray[np.float64] = np.logaddexp.reduce(
            _LOG_SHARES + logs - _FOURTH * stakes**4 * fourth, axis=1
        )
        return capital


def _reach_below(mean: float, moments: _Moments, needed: float) -> float:
    """How far below the mean of scores from 0 to 1 the interval reaches: to where bets on a higher mean win enough."""
    if not mean > 0:
        return 0.0
    inside, outside, distances = 0.0, mean, mean * _DISTANCES
    for _ in range(5):  # the first search is coarse, each further one 32 times finer
        enough = moments.log_capital(mean, distances) >= needed
        if not enough.any():
            return mean
        place = int(enough.argmax())
        inside, outside = float(distances[place - 1]) if place else inside, float(distances[place])
        distances = np.linspace(inside, outside, 33)[1:]
    return outside


_STAKES_ON_FALL = tuple(0.9 * 0.5**power for power in range(8))  # of the largest stake that cannot lose all


@dataclass(frozen=True)
class BettingTest:
    """Bets against a mean that is still that of the reference; if they win too much, it is not.

    A capital of 1 is split over all windows in which a fall may begin, ``1 / (t (t + 1))`` for window t, and over eight
    stakes ``s``. From its window on, each part is multiplied by ``1 + s (m - u)`` for every score, where u is the score
    within the range of the reference (0 to 1, clipped) and m a lower confidence bound of the reference's mean. While
    the mean of u, given all before, is at least m, the capital is a supermartingale that is never negative: it reaches
    ``1 / rate`` with a probability of at most ``rate``, ever (Ville's inequality; Waudby-Smith and Ramdas, Estimating
    means of bounded random variables by betting, 2024; e-detectors: Shin, Ramdas and Rinaldo, 2024). No distribution is
    assumed. Half of the rate goes to the bound m, which is Student's t and so takes a mean for about normal.
    """

    floor: float  # the lowest score of the reference
    ceiling: float  # the highest
    bound: float  # the lower confidence bound m of its mean, in units of scores
    rate: float  # false alarms of the bets, at most; with those of the bound twice that
    windows: int = 0  # seen so far
    # logarithm of the capital on each stake, before it is divided by their number
    capitals: tuple[float, ...] = (-math.inf,) * len(_STAKES_ON_FALL)

    @classmethod
    def against(cls, reference: npt.NDArray[np.float64], rate: float) -> "BettingTest":
        """The test against some reference scores, all at hand."""
        sums = ScoreSums.of(torch.from_numpy(reference))
        return cls.from_sums(sums, float(reference.min()), float(reference.max()), rate)

    @classmethod
    def from_sums(cls, sums: ScoreSums, floor: float, ceiling: float, rate: float) -> "BettingTest":
        """The test against a reference of which sums and range are known."""
        if not floor < ceiling:
            raise ValueError(f"reference: all {sums.count} scores are {floor:.4g}, so that no fall can be detected.")
        reach = t_quantile(1 - rate / 2, sums.count - 1) * math.sqrt(sums.variance / sums.count)
        return cls(floor, ceiling, sums.mean - reach, rate / 2)

    def gains(self, scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """What some scores add to the logarithm of each capital; those of parts of a window add up."""
        span = self.ceiling - self.floor
        bound = (self.bound - self.floor) / span
        within = (np.clip(scores, self.floor, self.ceiling) - self.floor) / span
        stakes = np.array(_STAKES_ON_FALL) / (1 - bound)
        gains: npt.NDArray[np.float64] = np.log1p(stakes[:, None] * (bound - within)).sum(1)
        return gains

    def after(self, scores: npt.NDArray[np.float64]) -> "BettingTest":
        """The test after one more window."""
        return self.after_gains(self.gains(scores).tolist())

    def after_gains(self, gains: Sequence[float]) -> "BettingTest":
        """The same from the gains of the window's scores."""
        number = self.windows + 1
        fresh = -math.log(number * (number + 1))
        capitals = np.logaddexp(self.capitals, fresh) + np.asarray(gains)
        return replace(self, windows=number, capitals=tuple(capitals.tolist()))

    @property
    def log_evidence(self) -> float:
        """Logarithm of the capital: 0 at the beginning, the higher the surer that the mean fell."""
        running = float(np.logaddexp.reduce(self.capitals)) - math.log(len(self.capitals))
        return float(np.logaddexp(running, -math.log(self.windows + 1)))

    @property
    def alarm(self) -> bool:
        """Whether the evidence is too much for chance."""
        return self.log_evidence >= -math.log(self.rate)
