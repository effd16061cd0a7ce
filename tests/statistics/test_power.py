"""Power against simulation, the number of inputs at its edge, shares and signed ranks against scipy."""

import math

import pytest
import torch
from scipy import stats

from verax.statistics.intervals import proportion
from verax.statistics.paired import POWER, effect_size, inputs_needed, power, signed_rank_p


@pytest.mark.parametrize(("effect", "inputs"), [(0.0, 12), (0.4, 30), (-0.9, 12)])
def test_power_is_how_often_the_test_finds_it(effect, inputs):
    drawn = torch.randn(4000, inputs, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + effect
    found = stats.ttest_1samp(drawn.numpy(), 0.0, axis=1).pvalue < 0.05
    assert power(effect, inputs) == pytest.approx(found.mean(), abs=0.02)


@pytest.mark.parametrize("effect", [0.05, 0.3, 1.0, 5.0])
def test_fewest_inputs(effect):
    needed = int(inputs_needed(effect))
    assert power(effect, needed) >= POWER > power(effect, needed - 1)


def test_no_number_is_enough_for_no_effect():
    assert inputs_needed(0.0) == math.inf
    assert inputs_needed(math.nan) == math.inf
    assert inputs_needed(math.inf) == 2.0


def test_effects():
    values = torch.tensor([1.0, 2.0, 4.0, 3.0, 2.5], dtype=torch.float64)
    assert effect_size(values).mean == pytest.approx(float(values.mean() / values.std()))
    assert effect_size(torch.zeros(5)).mean == 0.0
    assert effect_size(torch.ones(5)).mean == math.inf
    assert effect_size(-torch.ones(5)).high == -math.inf


def test_the_interval_of_an_effect_covers_it():
    drawn = torch.randn(800, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.5
    held = [found.low <= 0.5 <= found.high for found in map(effect_size, drawn)]
    assert 0.93 < sum(held) / len(held) < 0.99


@pytest.mark.parametrize(("hits", "count"), [(0, 7), (3, 9), (20, 20)])
def test_shares_have_wilsons_interval(hits, count):
    found = proportion(torch.arange(count) < hits)
    wanted = stats.binomtest(hits, count).proportion_ci(0.95, method="wilson")
    assert (found.mean, found.low, found.high) == pytest.approx((hits / count, wanted.low, wanted.high), abs=1e-12)
    assert math.isnan(proportion(torch.zeros(0)).mean)


def test_shares_count_as_parts_of_hits() -> None:
    """Four inputs, half of whose draws are hits, are as two hits of four."""
    assert proportion(torch.full((4,), 0.5)) == proportion(torch.tensor([True, True, False, False]))


def test_signed_ranks():
    values = torch.tensor([0.5, -0.2, 0.0, 1.5, 2.0, -0.1, 0.7])
    assert signed_rank_p(values) == pytest.approx(stats.wilcoxon(values[values != 0].double().numpy()).pvalue)
