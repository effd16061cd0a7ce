"""Exact sums: against fractions, and against the interval of scores that are all at hand."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from verax.statistics.intervals import estimates
from verax.statistics.sums import ScoreSums

finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e140, max_value=1e140)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(finite, min_size=1, max_size=30), st.integers(0, 30), st.randoms(use_true_random=False))
def test_sums_are_exact_whatever_the_parts_and_their_order(values: list[float], cut: int, shuffler) -> None:
    whole = ScoreSums.of(torch.tensor(values, dtype=torch.float64))
    shuffled = list(values)
    shuffler.shuffle(shuffled)
    first, second = shuffled[:cut], shuffled[cut:]
    parts = [ScoreSums.of(torch.tensor(part, dtype=torch.float64)) for part in (first, second)]
    assert parts[0] + parts[1] == parts[1] + parts[0] == whole
    assert whole.mean == float(sum(map(Fraction, values)) / len(values))
    assert ScoreSums.from_json(whole.to_json()) == whole


def test_the_interval_is_that_of_scores_at_hand() -> None:
    values = torch.randn(500, generator=torch.Generator().manual_seed(0)) + 1000
    found, wanted = ScoreSums.of(values).estimate(0.9), estimates(values[None], level=0.9)[0]
    for name in ("mean", "standard_error", "low", "high"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-12)


def test_the_smallest_numbers_count() -> None:
    tiny = torch.tensor([5e-324, 5e-324], dtype=torch.float64)
    assert ScoreSums.of(tiny).mean == 5e-324


def test_what_is_not_known_is_not_a_number() -> None:
    assert math.isnan(ScoreSums().mean)
    assert math.isnan(ScoreSums.of(torch.tensor([1.0, torch.nan])).mean)
    one = ScoreSums.of(torch.tensor([0.25])).estimate()
    assert one.mean == 0.25
    assert math.isnan(one.low)


def test_equal_scores_have_no_spread() -> None:
    same = ScoreSums.of(torch.full((7,), 0.1)).estimate()
    assert same.low == same.high == same.mean
