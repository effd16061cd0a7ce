"""Outcomes: passed, failed or undecided, by where an interval lies; and how many inputs would decide."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from verax.checking.requirement import Bound
from verax.core.shapes import Float
from verax.statistics.anytime import AnytimeSums, ScoreRange
from verax.statistics.intervals import Estimate, estimates
from verax.statistics.rare_effects import bounded_mean

Outcome = Literal["passed", "failed", "undecided"]
_MOST = 1 << 17  # inputs that are counted on
_HALVINGS = 60  # of the range in which a share lies


@dataclass(frozen=True)
class Sample:
    """What was measured of some inputs, of which a mean decides.

    Attributes:
        values: One number per input.
        range: Where such numbers can lie.
        whole: What they are parts of, where the ratio of both means is what counts.
    """

    values: Float[Tensor, " n"]
    range: ScoreRange
    whole: Float[Tensor, " n"] | None = None

    def estimate(self, level: float, anytime: bool) -> Estimate:
        """The mean, or the ratio of means, with an interval."""
        if self.whole is None:
            return _mean(self.values, self.range, level, anytime)
        return _ratio(self, level, anytime)

    def interval(self, anytime: bool) -> str:
        """What kind of interval it has, in words."""
        if math.isinf(self.range.low) and not anytime:
            return "Student's t"
        held = "at any time of stopping" if anytime else "for any distribution"
        assumed = "" if self.range.certain else ", if no score lies outside the range assumed"
        return f"{held}{assumed}"


def _mean(values: Float[Tensor, " n"], known: ScoreRange, level: float, anytime: bool) -> Estimate:
    if not len(values):
        return Estimate(math.nan, math.nan, math.nan, math.nan)
    if anytime:
        return AnytimeSums.of(values, known).estimate(level)
    if math.isinf(known.low):
        return estimates(values[None], level=level)[0]
    held = known.holding(float(values.min()), float(values.max()))
    return bounded_mean(values, held.low, held.high, level)


def _ratio(sample: Sample, level: float, anytime: bool) -> Estimate:
    """All ratios r of which the mean of ``value - r whole`` may be 0, as Fieller's interval; from -1 to 1."""
    values, whole = sample.values, sample.whole
    assert whole is not None  # noqa: S101  # as the caller has asked
    mean = float(values.mean() / whole.mean()) if len(values) and float(whole.mean()) > 0 else math.nan

    def side(ratio: float) -> int:
        """Whether the ratio is below the interval (1), in it (0) or above it (-1)."""
        found = _mean(values - ratio * whole, _spread(sample.range, ratio), level, anytime)
        return int(found.low > 0) - int(found.high < 0)

    if math.isnan(mean) or math.isnan(_mean(values, sample.range, level, anytime).low):
        return Estimate(mean, math.nan, math.nan, math.nan)
    middle = min(1.0, max(-1.0, mean))
    low, high = _edge(side, middle, -1.0, 1), _edge(side, middle, 1.0, -1)
    return Estimate(mean, math.nan, min(mean, low), max(mean, high))


def _edge(side: Callable[[float], int], inside: float, outside: float, wanted: int) -> float:
    """Where the interval ends between a ratio in it and one that may be outside."""
    if side(outside) != wanted:
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if middle in (inside, outside):
            break
        inside, outside = (inside, middle) if side(middle) == wanted else (middle, outside)
    return outside


def _spread(known: ScoreRange, ratio: float) -> ScoreRange:
    """The range of a part less a ratio of the whole, of which both lie within the width of the scores' range."""
    if math.isinf(known.low):
        return known
    width = known.high
    return replace(known, low=-width * (1 + max(0.0, ratio)), high=width * (1 + max(0.0, -ratio)))


def outcome_of(found: Estimate, bound: float, direction: Bound, strict: bool) -> Outcome:
    """Passed where the whole interval is on the right side of the bound, failed where it is on the wrong one.

    Args:
        found: The interval.
        bound: What it is held against.
        direction: The right side.
        strict: Whether the bound itself is on the wrong side.

    Example:
        >>> [outcome_of(Estimate(0.5, 0.1, 0.3, 0.7), bound, "at least", False) for bound in (0.2, 0.5, 0.8)]
        ['passed', 'undecided', 'failed']
    """
    low, high = (found.low - bound, found.high - bound)
    low, high = (low, high) if direction == "at least" else (-high, -low)
    if low > 0 or (low == 0 and not strict):
        return "passed"
    return "failed" if high < 0 or (high == 0 and strict) else "undecided"


def inputs_to_decide(sample: Sample, level: float, anytime: bool, decide: Callable[[Estimate], Outcome]) -> int | None:
    """How many inputs in all would decide if further ones score like these; None if more than 131,072 were needed.

    Args:
        sample: What is undecided.
        level: Coverage of the interval.
        anytime: Whether it must hold at any time.
        decide: The outcome of an interval.
    """
    count = len(sample.values)

    def decided(many: int) -> bool:
        times = -(-many // max(1, count))
        values = sample.values.repeat(times)[:many]
        whole = None if sample.whole is None else sample.whole.repeat(times)[:many]
        found = replace(sample, values=values, whole=whole)
        return decide(found.estimate(level, anytime)) != "undecided"

    low, high = count, 2 * count
    while 0 < high <= _MOST and not decided(high):
        low, high = high, 2 * high
    if not 0 < high <= _MOST:
        return None
    while high - low > max(1, low // 20):
        middle = (low + high) // 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return high
