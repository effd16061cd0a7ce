"""Few draws that carry all: how many they are, and what they leave open."""

import math

import pytest
import torch

from verax.statistics.intervals import depends_on_few_draws, mean_square_interval, participation_ratio


def test_so_many_draws_carry_an_effect() -> None:
    one, four = torch.zeros(1, 100).double(), torch.zeros(1, 100).double()
    one[0, 7], four[0, :4] = 3.0, -2.0
    assert participation_ratio(torch.cat([one, four, one * 0, torch.ones(1, 100).double()])).tolist() == [1, 4, 0, 100]
    normal = torch.randn(1, 100_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert float(participation_ratio(normal)) == pytest.approx(100_000 / 3, rel=0.03)  # its fourth moment is 3


def test_tiny_effects_count_as_large_ones() -> None:
    """The fourth power of 1e-100 is 0."""
    effects = torch.tensor([[1.0, 2.0, 3.0]]).double()
    torch.testing.assert_close(participation_ratio(1e-100 * effects), participation_ratio(effects))


def test_few_is_few_of_all_and_few_as_such() -> None:
    assert depends_on_few_draws(torch.tensor([39.0, 41.0, 0.0]).double(), 1000).tolist() == [True, False, True]
    assert depends_on_few_draws(torch.tensor([4.0, 3.0]).double(), 20).tolist() == [False, True]


def test_the_upper_end_allows_for_what_no_draw_has_shown() -> None:
    mean, error = torch.tensor([[0.1, 0.1]]).double(), torch.tensor([[0.01, 0.01]]).double()
    carried = torch.tensor([600.0, 3.0]).double()
    low, high = mean_square_interval(mean, error, carried, 640, 1.0, 0.95)
    assert float(low[0, 0]) == float(low[0, 1])
    assert float(high[0, 1] - high[0, 0]) == pytest.approx(math.log(2 / 0.05) / 640, rel=0.01)
    _, high = mean_square_interval(mean, error, carried, 640, math.inf, 0.95)
    assert math.isfinite(high[0, 0])
    assert math.isinf(high[0, 1])
