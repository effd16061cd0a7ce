"""Metrics look at what a model computes, not at how its weights are written."""

import copy

import pytest
import torch

import calls
from verax.attribution import Gradient
from verax.auditing.choices import chosen_metrics
from verax.metrics import METRICS


def networks():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        plain = torch.nn.Sequential(
            torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
        ).double()
    scaled = copy.deepcopy(plain)
    with torch.no_grad():
        for factor, (first, second) in zip((64.0, 1 / 32), ((0, 2), (2, 4)), strict=True):
            scaled[first].weight *= factor
            scaled[first].bias *= factor
            scaled[second].weight /= factor
    return plain, scaled


def shipped():
    asked = chosen_metrics(None)
    return [one for one in asked if not isinstance(one, str) or METRICS.get(one).__module__.startswith("verax.")]


def test_scaling_a_layer_and_the_next_one_back_changes_no_score():
    plain, scaled = networks()
    x = torch.randn(12, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    explanations = {"x": x, "slopes": calls.explained(Gradient(), plain, x)}
    assert torch.allclose(explanations["slopes"], calls.explained(Gradient(), scaled, x), rtol=1e-9)
    before, after = (calls.evaluate(model, x, explanations, shipped()) for model in (plain, scaled))
    assert len(before) > 10
    for name, result in before.items():
        assert torch.allclose(result.scores, after[name].scores, rtol=1e-7, atol=1e-12), name


def test_a_rescaled_feature_moves_local_metrics():
    """In other units slopes are others, and so are steps of one size: the same would be wrong."""
    plain, _ = networks()
    x = torch.randn(12, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    units, other = torch.tensor([1.0, 50.0, 1.0, 1.0, 1.0, 1.0]).double(), copy.deepcopy(plain)
    with torch.no_grad():
        other[0].weight /= units
    assert torch.allclose(other(x * units), plain(x))
    found = [
        calls.evaluate(model, rows, {"slopes": Gradient()}, ["lpc", "infidelity"])
        for model, rows in ((plain, x), (other, x * units))
    ]
    for name in ("lpc", "infidelity"):
        assert not torch.allclose(found[0][name].scores, found[1][name].scores, rtol=1e-3)


@pytest.mark.parametrize("metric", ["pc", "dpc"])
def test_a_shifted_baseline_moves_what_replaces_by_it(metric):
    plain, _ = networks()
    x = torch.randn(12, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    moved = [calls.evaluate(plain, x, x, [metric], baselines=one)[metric].scores for one in (0.0, 0.7)]
    assert not torch.allclose(*moved)
