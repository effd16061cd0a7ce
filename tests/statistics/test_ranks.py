"""Spearman correlation."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from verax.statistics.ranks import ranks, spearman, tie_count, tied


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


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_values_that_differ_by_rounding_share_a_rank_and_others_do_not(scale):
    values = scale * np.array([0.1, 0.7, 0.1 + 1e-15, 0.7 - 1e-15, 0.7 + 1e-6, 0.4])
    assert tie_count(values) == 4
    assert ranks(tied(values)).tolist() == [-2.0, 1.0, -2.0, 1.0, 2.5, -0.5]


def test_each_row_is_tied_by_its_own_spread_and_nan_is_tied_with_nothing():
    values = np.array([[0.0, 1e-9, 1.0], [0.0, 1e-9, 1e-9 + 1e-12], [0.0, np.nan, 1.0]])
    equal = tied(values)
    assert equal[0].tolist() == [0.0, 0.0, 1.0]
    assert equal[1].tolist() == values[1].tolist()
    assert np.array_equal(equal[2], values[2], equal_nan=True)


def test_equal_values_and_single_ones_are_left_as_they_are():
    assert tied(np.ones((2, 3))).tolist() == [[1.0] * 3] * 2
    assert tied(np.array([5.0])).tolist() == [5.0]
