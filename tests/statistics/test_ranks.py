"""Spearman correlation."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from verax.statistics.ranks import ranks, spearman


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
