"""Spearman correlation."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from verax.statistics.ranks import spearman


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12))
def test_the_correlation_is_scipys_with_ties(pairs):
    x, y = np.array(pairs, dtype=float).T
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    assert spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic)
    assert np.allclose(spearman(np.stack((x, x)), np.stack((y, -y))), [spearman(x, y), -spearman(x, y)])


def test_equal_values_rank_nothing():
    assert np.isnan(spearman(np.ones(3), np.arange(3.0)))
