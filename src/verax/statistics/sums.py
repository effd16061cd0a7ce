"""Scores that are not kept: sums that add up exactly, and sketches of quantiles, whatever parts the scores came in."""

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from verax.core.arguments import checked_level
from verax.core.packages import optional_package
from verax.core.shapes import Float
from verax.statistics.intervals import LEVEL, Estimate, t_quantile

UNIT = 1130  # sums are whole numbers of 2**-1130: every float64, the smallest with all its 53 places, is one
_HALF = 26  # bits of the lower half of a mantissa, so that float64 adds up 2**26 halves without rounding
_ACCURACY = 0.005  # of the sketch; bfloat16, in which equal scores are counted first, adds 2**-8
_NOTHING = 1e-12  # scores nearer to 0 count as 0, so that the bins stay few


@dataclass(frozen=True)
class ScoreSums:
    """Number, sum and sum of squares of some scores, without rounding; ``+`` joins those of two parts.

    Sums of floating-point numbers depend on their order. These are whole numbers: to add is associative and
    commutative to the last bit, and the mean is the sum rounded once. A square is rounded to float64 before it is
    added; squares of float32 scores are exact.
    """

    count: int = 0  # scores
    total: int = 0  # their sum, in units of ``2**-1130``
    squares: int = 0  # the sum of their squares, in the same unit
    unknown: int = 0  # scores among them that are not finite; with one of them nothing is known of the mean

    @classmethod
    def of(cls, scores: Float[Tensor, " n"]) -> "ScoreSums":
        values = scores.detach().to("cpu", torch.float64).numpy()
        known = np.isfinite(values) & (np.abs(values) < 1e150)  # beyond, squares overflow
        values = values[known]
        return cls(len(known), exact_sum(values), exact_sum(values * values), int((~known).sum()))

    def __add__(self, other: "ScoreSums") -> "ScoreSums":
        both = self.total + other.total, self.squares + other.squares
        return ScoreSums(self.count + other.count, *both, self.unknown + other.unknown)

    @property
    def mean(self) -> float:
        """The mean, rounded once; not a number of no scores."""
        return self.total / (self.count << UNIT) if self.count and not self.unknown else math.nan

    @property
    def variance(self) -> float:
        """The variance of the scores' source, over ``count - 1``; not a number of fewer than two."""
        if self.count < 2 or self.unknown:
            return math.nan
        spread = (self.count * self.squares << UNIT) - self.total**2
        return max(0, spread) / (self.count * (self.count - 1) << 2 * UNIT)

    def estimate(self, level: float = LEVEL) -> Estimate:
        """The mean with Student's t interval, as ``estimates`` gives it for scores that are all at hand."""
        error = math.sqrt(self.variance / self.count) if self.count > 1 else math.nan
        reach = error * t_quantile((1 + checked_level(level)) / 2, self.count - 1)
        return Estimate(self.mean, error, self.mean - reach, self.mean + reach)

    def to_json(self) -> list[str]:
        """Four whole numbers as text: most readers of JSON round long ones."""
        return [hex(number) for number in (self.count, self.total, self.squares, self.unknown)]

    @classmethod
    def from_json(cls, texts: list[str]) -> "ScoreSums":
        return cls(*(int(text, 16) for text in texts))


def exact_sum(values: npt.NDArray[np.float64]) -> int:
    """The sum as a whole number of units: mantissas of equal exponents are added as whole numbers."""
    parts, exponents = np.frexp(values)
    mantissas = np.ldexp(parts, 53).astype(np.int64)
    present, place = np.unique(exponents, return_inverse=True)
    high = np.bincount(place, weights=mantissas >> _HALF, minlength=len(present))
    low = np.bincount(place, weights=mantissas & ((1 << _HALF) - 1), minlength=len(present))
    return sum(
        ((int(above) << _HALF) + int(below)) << (UNIT - 53 + int(exponent))
        for exponent, above, below in zip(present, high, low, strict=True)
    )


class QuantileSketch:
    """A DDSketch (Masson, Rim and Lee, VLDB 2019): quantiles with a relative error of at most one per cent.

    It counts scores in bins of growing width, so that two sketches merge exactly and in any order. The library adds
    scores one at a time; here equal ones are counted first, which is 20 times faster.
    """

    def __init__(self, scores: Float[Tensor, " n"]) -> None:
        self.sketch = sketches().DDSketch(_ACCURACY)
        values, counts = np.unique(scores.detach().cpu().bfloat16().float().numpy(), return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            if math.isfinite(value):  # what is not a number has no place among the others
                self.sketch.add(value if abs(value) > _NOTHING else 0.0, float(count))

    def quantile(self, share: float) -> float:
        """The score that this share of all is at most; not a number of no scores."""
        value = self.sketch.get_quantile_value(share)
        return float("nan") if value is None else float(value)

    def merged(self, other: "QuantileSketch") -> "QuantileSketch":
        """The sketch of all scores together."""
        whole = copy.deepcopy(self)
        whole.sketch.merge(other.sketch)
        return whole


def sketches() -> Any:
    """The library of sketches, or how to install it."""
    return optional_package("ddsketch", "verax[stream]", "quantiles")
