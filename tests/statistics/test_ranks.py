"""Spearman correlation."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from verax.statistics.ranks import TIE, ranks, spearman, tie_count, tied


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12))
def test_the_correlation_is_scipys_with_ties(pairs):
    x, y = np.array(pairs, dtype=float).T
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    assert spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic)
    assert np.allclose(spearman(np.stack((x, x)), np.stack((y, -y))), [spearman(x, y), -spearman(x, y)])


@given(st.lists(st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.5, np.inf, np.nan]), min_size=4, max_size=4), min_size=1))
def test_ranks_are_scipys(rows):
    wanted = scipy.stats.rankdata(rows, axis=-1)
    assert np.array_equal(ranks(np.array(rows)), wanted - wanted.mean(-1, keepdims=True), equal_nan=True)


def test_equal_values_rank_nothing():
    assert np.isnan(spearman(np.ones(3), np.arange(3.0)))


SCALES = pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])


@SCALES
def test_values_that_differ_by_rounding_share_a_rank_and_others_do_not(scale):
    values = scale * np.array([0.1, 0.7, 0.1 + 1e-15, 0.7 - 1e-15, 0.7 + 1e-8, 0.4])
    assert tie_count(values) == 4
    assert ranks(tied(values)).tolist() == [-2.0, 1.0, -2.0, 1.0, 2.5, -0.5]


@SCALES
def test_half_of_a_grid_may_be_equal_but_for_rounding(scale):
    rounding = 1e-15 * np.random.default_rng(0).normal(size=23)
    values = scale * np.concatenate((0.3 + rounding, np.linspace(0.31, 2, 21)))
    assert tie_count(values) == 23
    assert tied(values)[:23].tolist() == [values[:23].min()] * 23
    assert tied(values)[23:].tolist() == values[23:].tolist()
    assert tie_count(values[:24]) == 23  # what remains of the spread is that of the others


@SCALES
@pytest.mark.parametrize("step", [2e-10, 1e-8])
def test_a_dense_ladder_of_distinct_values_stays_as_it_is(scale, step):
    ladder = scale * np.concatenate((step * np.arange(300), np.linspace(0.5, 1.5, 500)))
    assert tied(ladder).tolist() == ladder.tolist()
    assert tie_count(ladder) == 0


@given(st.lists(st.integers(0, 10**6), min_size=12, max_size=60))
def test_nothing_further_apart_than_the_tolerance_is_tied_however_dense_the_values_between(steps):
    values = np.array(steps) * 1e-14  # chained, they would all be one
    values = np.concatenate((values, [0.0, 1.0, 1.0, 1.0], np.linspace(1, 2, 3 * len(values))))
    equal = tied(values)
    spread = np.subtract(*np.sort(values)[[len(values) - 1 - len(values) // 4, len(values) // 4]])
    assert (values - equal >= 0).all()
    assert (values - equal <= TIE * spread).all()
    clusters = np.unique(equal)
    assert (np.diff(clusters) > TIE * spread).all()


def test_an_outlier_does_not_widen_the_tolerance():
    dense = np.linspace(0.1, 0.1001, 40)
    for outliers in ([1e9], [-1e9, 1e12], [np.inf]):
        values = np.concatenate((dense, outliers))
        assert tied(values).tolist() == values.tolist()


def test_where_most_values_are_equal_but_for_rounding_the_others_are_the_spread():
    values = np.array([0.5, 0.5 + 1e-15, 0.5, 0.5 - 1e-15, 0.5, 0.5 + 2e-15, 0.9, 0.1])
    assert tie_count(values) == 6
    assert tie_count(np.array([1.0, 1.0, 1.0, 1.0, 1.0 + 1e-9, 5.0])) == 4


def test_a_tolerance_may_be_given():
    assert tied(np.array([0.5, 0.1, 0.14, 0.18, 0.22]), 0.1).tolist() == [0.5, 0.1, 0.1, 0.1, 0.22]
    assert tied(np.array([0.3, 0.1, 0.1 + 1e-15]), 0.0).tolist() == [0.3, 0.1, 0.1 + 1e-15]


def test_each_row_is_tied_by_its_own_spread_and_nan_is_tied_with_nothing():
    values = np.array([[0.0, 1e-11, 1.0], [0.0, 1e-11, 1e-11 + 1e-14], [0.0, np.nan, 1.0]])
    equal = tied(values)
    assert equal[0].tolist() == [0.0, 0.0, 1.0]
    assert equal[1].tolist() == values[1].tolist()
    assert np.array_equal(equal[2], values[2], equal_nan=True)


def test_equal_values_and_single_ones_are_left_as_they_are():
    assert tied(np.ones((2, 3))).tolist() == [[1.0] * 3] * 2
    assert tied(np.array([5.0])).tolist() == [5.0]
