"""Intervals that hold at any time of stopping: against exact bets, by their symmetries, and in simulated streams."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from verax.evaluation.batches import looks
from verax.statistics.anytime import AnytimeSums, ScoreRange
from verax.statistics.sums import ScoreSums

UNIT = ScoreRange(0.0, 1.0, certain=True)
CHANGE = ScoreRange(-1.0, 1.0, certain=True)
STAKES = [(0.9 / 2**power, 1 / ((power + 1) * (power + 2))) for power in range(30)]


def sums(values, known=UNIT) -> AnytimeSums:
    return AnytimeSums.of(torch.as_tensor(np.asarray(values, dtype=float)), known)


def exact_low(values: np.ndarray, level: float = 0.95) -> float:
    """Where bets on a higher mean, score by score, reach their goal."""

    def excess(mean: float) -> float:
        logs = [math.log(share) + np.log1p(stake * (values / mean - 1)).sum() for stake, share in STAKES]
        return float(np.logaddexp.reduce(logs)) - math.log(2 / (1 - level))

    return brentq(excess, 1e-6, values.mean())


@pytest.mark.parametrize("kind", ["beta", "two values", "few"])
def test_the_interval_holds_that_of_the_exact_bets_and_is_hardly_wider(kind: str) -> None:
    draws = np.random.default_rng(0)
    values = {
        "beta": lambda: draws.beta(2, 3, size=2000),
        "two values": lambda: (draws.uniform(size=3000) < 0.4).astype(float),
        "few": lambda: draws.uniform(size=300),
    }[kind]()
    estimate = sums(values).estimate()
    low, high = exact_low(values), 1 - exact_low(1 - values)
    assert estimate.low <= low < values.mean() < high <= estimate.high
    assert estimate.high - estimate.low <= 1.05 * (high - low)


def test_zeros_leave_as_much_as_bets_on_zeros_win() -> None:
    for count in (20, 100, 1000):
        estimate = sums(np.zeros(count)).estimate()
        assert (estimate.mean, estimate.low) == (0, 0)
        won = sum(share * (1 + stake * estimate.high / (1 - estimate.high)) ** count for stake, share in STAKES)
        assert won >= 40 * (1 - 1e-6)  # 2 / 0.05
        assert won <= 44
        assert estimate.high >= 1 - 0.05 ** (1 / count)  # what an interval of one look at zeros must hold


def test_scores_that_are_alike_have_no_interval_where_nothing_is_known_of_their_range() -> None:
    estimate = sums(np.full(5000, 0.3), ScoreRange()).estimate()
    assert estimate.mean == pytest.approx(0.3)
    assert math.isnan(estimate.low)
    assert math.isnan(estimate.high)


def test_shift_scale_and_mirror() -> None:
    values = np.random.default_rng(1).beta(0.5, 3, size=700)
    whole = sums(values).estimate()
    moved = sums(4 * values - 3, ScoreRange(-3.0, 1.0, certain=True)).estimate()
    assert [moved.mean, moved.low, moved.high] == pytest.approx(
        [4 * end - 3 for end in (whole.mean, whole.low, whole.high)], abs=1e-8
    )
    mirrored = sums(-values, ScoreRange(-1.0, 0.0, certain=True)).estimate()
    assert [mirrored.high, mirrored.low] == pytest.approx([-whole.low, -whole.high], abs=1e-8)
    far = sums(values + 1e5, ScoreRange(1e5, 1e5 + 1, certain=True)).estimate()  # rounding may only widen
    assert far.low - 1e5 <= whole.low + 1e-9
    assert far.high - 1e5 >= whole.high - 1e-9


def test_nested_in_level_shrinking_with_rows_and_holding_the_mean() -> None:
    values = np.random.default_rng(2).normal(0.2, 0.2, size=40_000).clip(-1, 1)
    widths = []
    for count in (100, 1000, 10_000, 40_000):
        narrow, wide = (sums(values[:count], CHANGE).estimate(level) for level in (0.8, 0.99))
        assert -1 <= wide.low < narrow.low < narrow.mean < narrow.high < wide.high <= 1
        widths.append(wide.high - wide.low)
    assert all(after < before / 1.7 for before, after in itertools.pairwise(widths))
    error = 0.2 / math.sqrt(40_000)
    assert 2.58 * error < widths[-1] / 2 < 2 * 2.58 * error


def test_parts_add_up_in_any_order() -> None:
    values = np.random.default_rng(3).uniform(-1, 1, size=500)
    whole = sums(values, CHANGE)
    first, second, third = (sums(values[part], CHANGE) for part in (slice(0, 1), slice(1, 300), slice(300, 500)))
    assert third + first + second == whole
    assert (third + first + second).estimate() == whole.estimate()
    with pytest.raises(TypeError, match="anytime"):
        first + ScoreSums.of(torch.ones(3))


def test_a_range_that_is_certain_is_checked_and_others_grow() -> None:
    with pytest.raises(ValueError, match=r"expected scores from 0 to 1, got 0\.5 to 1\.2"):
        sums([0.5, 1.2])
    assert sums([0.5, 1.000001]).range.high == pytest.approx(1.000001)  # rounding
    assert sums([0.5, 1.2], ScoreRange(-1.0, 1.0)).range == ScoreRange(-1.0, 1.2)
    assert (sums([3.0], ScoreRange()) + sums([1.0], ScoreRange())).range == ScoreRange(1.0, 3.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e100])
def test_scores_that_are_no_numbers_leave_no_interval(bad: float) -> None:
    estimate = sums([0.1, bad, 0.3]).estimate()
    assert math.isnan(estimate.low)
    assert math.isnan(estimate.high)


def rare(draws: np.random.Generator) -> np.ndarray:
    return np.where(draws.uniform(size=12_000) < 0.004, draws.uniform(0.5, 1, size=12_000), 0.0)


KINDS = {
    "rare": (rare, 0.003, CHANGE),
    "skewed": (lambda draws: draws.beta(0.2, 2, size=12_000), 0.2 / 2.2, CHANGE),
    "normal": (lambda draws: draws.normal(0.1, 0.2, size=12_000).clip(-0.8, 1), 0.1, CHANGE),
    "without a bound": (lambda draws: draws.normal(5.0, 0.2, size=12_000), 5.0, ScoreRange()),
    "rare, without a bound": (rare, 0.003, ScoreRange()),
}


@pytest.mark.parametrize(("draw", "mean", "known"), KINDS.values(), ids=KINDS.keys())
def test_the_interval_at_the_stop_and_all_before_hold_the_mean(draw, mean: float, known: ScoreRange) -> None:
    """More runs, and what Student's t does: benchmarks/stream_until.py."""
    draws = np.random.default_rng(4)
    always, stopped = [], 0
    for _ in range(80):
        values, total, held = draw(draws), sums([], known), True
        for look in looks(len(values), most=8192):
            total += sums(values[look], known)
            estimate = total.estimate()
            held = held and not (estimate.low > mean or estimate.high < mean)
            if estimate.high - estimate.low <= 2 * 0.01:
                stopped += 1
                break
        always.append(held)
    assert np.mean(always) >= 0.95
    assert stopped == 80
