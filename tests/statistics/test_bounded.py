"""Means of bounded scores: Clopper and Pearson's interval where scores are 0 or 1, honest about what was not seen."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from verax.statistics.intervals import bounded_mean, estimates


@pytest.mark.parametrize(("hits", "count"), [(0, 1), (0, 50), (1, 20), (7, 10), (33, 60), (299, 300), (5, 5)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.995])
def test_of_zeros_and_ones_it_is_clopper_and_pearson(hits, count, level):
    scores = torch.zeros(count)
    scores[:hits] = 1
    found, rate = bounded_mean(scores, 0.0, 1.0, level), (1 - level) / 2
    missed_below = beta.cdf(found.low, hits, count - hits + 1) if hits else 0.0
    missed_above = beta.sf(found.high, hits + 1, count - hits) if hits < count else 0.0
    assert missed_below == pytest.approx(rate if hits else 0, rel=0.1)
    assert missed_above == pytest.approx(rate if hits < count else 0, rel=0.1)
    assert max(missed_below, missed_above) <= rate * 1.01


def test_it_approaches_students_t():
    scores = torch.from_numpy(np.random.default_rng(0).beta(3, 2, size=20_000))
    found, (student,) = bounded_mean(scores, 0.0, 1.0), estimates(scores[None])
    assert found.mean == pytest.approx(student.mean)
    assert found.high - found.mean == pytest.approx(student.high - student.mean, rel=0.02)
    assert found.mean - found.low == pytest.approx(student.mean - student.low, rel=0.02)


def test_good_scores_do_not_rule_out_rare_bad_ones():
    """One input in fifty scores -1; without it in the sample, Student's t is a point that the mean lies below."""
    found = bounded_mean(torch.full((64,), 0.95), -1.0, 1.0)
    assert found.low < 0.98 * 0.95 - 0.02
    assert found.mean == pytest.approx(0.95)


@given(
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=30),
    st.floats(-5, 5),
    st.floats(0.1, 10),
)
def test_scale_and_side_do_not_matter(scores, low, width):
    values = torch.tensor(scores, dtype=torch.float64)
    unit = bounded_mean(values, 0.0, 1.0)
    moved = bounded_mean((low + width * values).clamp(low, low + width), low, low + width)
    turned = bounded_mean(1 - values, 0.0, 1.0)
    assert unit.low <= unit.mean <= unit.high
    assert (moved.low, moved.high) == pytest.approx((low + width * unit.low, low + width * unit.high), abs=1e-6 * width)
    assert (turned.low, turned.high) == pytest.approx((1 - unit.high, 1 - unit.low), abs=1e-6)


def test_the_order_of_scores_does_not_matter():
    scores = torch.rand(100, generator=torch.Generator().manual_seed(0))
    assert bounded_mean(scores, 0.0, 1.0) == bounded_mean(scores.flip(0), 0.0, 1.0)


def test_nothing_is_known_of_no_scores_or_of_what_is_no_number():
    assert math.isnan(bounded_mean(torch.zeros(0), 0.0, 1.0).low)
    assert math.isnan(bounded_mean(torch.tensor([0.5, torch.nan]), 0.0, 1.0).high)


def test_scores_outside_the_range_are_an_error():
    with pytest.raises(ValueError, match=r"expected values from 0 to 1, got -0\.5 to 0\.5"):
        bounded_mean(torch.tensor([-0.5, 0.5]), 0.0, 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_it_covers_the_mean_of_a_skewed_distribution(seed):
    """Scores that are 1 but for one in thirty, of 60 inputs: at most 5 % of 400 intervals may miss."""
    draws = np.random.default_rng(seed)
    missed = 0
    for _ in range(400):
        scores = torch.from_numpy(np.where(draws.uniform(size=60) < 1 / 30, 0.2, 1.0))
        found = bounded_mean(scores, 0.0, 1.0)
        missed += not found.low <= 1 - 0.8 / 30 <= found.high
    assert missed <= 0.05 * 400 + 2 * math.sqrt(400 * 0.05 * 0.95)


@pytest.mark.parametrize("missing", [0.0, 2**-53, 2**-24, 2**-22])
def test_scores_that_round_to_the_greatest_possible_have_it_as_upper_end(missing: float) -> None:
    scores = torch.full((50,), 1 - missing, dtype=torch.float64)
    upper, lower = bounded_mean(scores, 0.0, 1.0), bounded_mean(1 - scores, 0.0, 1.0)
    assert upper.high == 1.0
    assert lower.low == 0.0
    assert upper.low == pytest.approx(1 - lower.high) == pytest.approx(0.0251 ** (1 / 50), abs=2e-3)
