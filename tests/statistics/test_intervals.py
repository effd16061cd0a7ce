"""Means over a data set with an interval."""

import itertools
import math
from dataclasses import astuple

import jaxtyping
import numpy as np
import pytest
import scipy.stats
import torch

import calls
import verax
from verax.metrics import Estimate, Result
from verax.statistics.intervals import estimates, resampled_means


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def bootstrap(values, level=0.95, resamples=2000, seed=0):
    return estimates(values, "bootstrap", level, resamples, seed)


MODEL = verax.Scorer(lambda x: x.sum(1), returns="logits")


def measured(attributions, rows=30):
    return calls.prediction_change(MODEL, normal(rows, 4), attributions)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_normal_interval_is_the_textbook_formula(level):
    values = normal(3, 40) + 2
    for found, row in zip(estimates(values, "normal", level, 2, 0), values.numpy(), strict=True):
        error = row.std(ddof=1) / math.sqrt(40)
        low, high = scipy.stats.norm.interval(level, loc=row.mean(), scale=error)
        assert found.mean == pytest.approx(row.mean())
        assert found.standard_error == pytest.approx(error)
        assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


@pytest.mark.parametrize("count", [2, 5, 40])
def test_t_interval_is_the_textbook_formula(count):
    values = normal(3, count) + 2
    for found, row in zip(estimates(values), values.numpy(), strict=True):
        low, high = scipy.stats.ttest_1samp(row, 0.0).confidence_interval(0.95)
        assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


@pytest.mark.parametrize("count", [3, 5, 10])
def test_t_interval_covers_as_often_as_it_says_also_with_few_inputs(count):
    found = estimates(normal(4000, count, seed=5))
    covered = sum(one.low <= 0 <= one.high for one in found) / len(found)
    assert 0.94 < covered < 0.96


@pytest.mark.parametrize(
    ("method", "least", "most"), [("t", 0.94, 0.96), ("normal", 0.90, 0.935), ("bootstrap", 0.86, 0.90)]
)
def test_coverage_with_ten_inputs_is_what_the_docs_say(method, least, most):
    found = estimates(normal(3000, 10, seed=6), method, 0.95, 500, 0)
    covered = sum(one.low <= 0 <= one.high for one in found) / len(found)
    assert least < covered < most
    text = estimates.__doc__ + Result.mean.__doc__
    assert all(said in text for said in ("about 88 %", "about 92 %", "92 % and 88 %"))


def test_the_ends_of_a_bootstrap_interval_are_exact_percentiles():
    (found,) = estimates(normal(1, 30), "bootstrap", 0.9, 200, 0)
    low, high = np.quantile(resampled_means(normal(1, 30), 200, 0).numpy(), [(1 - 0.9) / 2, (1 + 0.9) / 2])
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-15), pytest.approx(high, abs=1e-15))


def test_one_input_has_no_interval():
    (found,) = estimates(normal(1, 1))
    assert math.isnan(found.low)
    assert math.isnan(found.standard_error)


def test_t_interval_is_the_default_at_95_percent():
    result = measured(normal(30, 4, seed=1))
    assert result.mean() == result.mean("t", level=0.95)
    assert result.mean() != result.mean("normal")
    assert result.mean().mean == pytest.approx(result.value.mean().item())


@pytest.mark.parametrize("method", ["normal", "bootstrap"])
@pytest.mark.parametrize("draw", ["normal", "skewed"])
def test_intervals_cover_the_true_mean_about_as_often_as_they_say(method, draw):
    values = normal(1000, 60, seed=3)
    truth = 0.0
    if draw == "skewed":
        values, truth = values.square(), 1.0
    found = estimates(values, method, 0.9, 400, 0)
    covered = sum(one.low <= truth <= one.high for one in found) / len(found)
    assert 0.84 < covered < 0.94


def test_bootstrap_agrees_with_the_normal_interval_on_a_large_sample():
    values = normal(1, 500)
    (one,), (other,) = bootstrap(values, resamples=4000), estimates(values, "normal", 0.95, 2, 0)
    assert one.mean == other.mean
    assert one.standard_error == pytest.approx(other.standard_error, rel=0.05)
    assert one.low == pytest.approx(other.low, abs=0.1 * other.standard_error)
    assert one.high == pytest.approx(other.high, abs=0.1 * other.standard_error)


def test_bootstrap_is_repeatable_and_changes_with_the_seed():
    values = normal(2, 30)
    assert bootstrap(values) == bootstrap(values)
    for one, other in zip(bootstrap(values), bootstrap(values, seed=1), strict=True):
        assert one.mean == other.mean
        assert one.low != other.low
        assert one.high != other.high


def test_bootstrap_of_one_attribution_does_not_depend_on_the_others():
    values = normal(3, 30)
    assert astuple(bootstrap(values)[1]) == pytest.approx(astuple(bootstrap(values[1:2])[0]), rel=1e-12)


def test_bootstrap_draws_the_same_inputs_for_every_attribution():
    one, other = bootstrap(torch.cat((normal(1, 30), normal(1, 30) + 5)))
    assert other.standard_error == pytest.approx(one.standard_error)
    assert other.low - one.low == pytest.approx(5)


@pytest.mark.parametrize("method", ["normal", "bootstrap"])
def test_intervals_widen_with_the_level_around_the_mean(method):
    values = normal(1, 40)
    found = [estimates(values, method, level, 1000, 0)[0] for level in (0.5, 0.8, 0.95, 0.99)]
    for narrow, wide in itertools.pairwise(found):
        assert wide.low < narrow.low < narrow.mean < narrow.high < wide.high
        assert wide.standard_error == narrow.standard_error


def test_one_input_has_a_mean_but_no_standard_error():
    (found,) = estimates(torch.tensor([[0.25]]), "normal", 0.95, 2, 0)
    assert found.mean == 0.25
    assert all(math.isnan(value) for value in (found.standard_error, found.low, found.high))


def test_single_precision_values_are_averaged_in_double():
    values = torch.full((1, 100_000), 0.1, dtype=torch.float32)
    assert estimates(values, "normal", 0.95, 2, 0)[0].mean == pytest.approx(values[0, 0].item(), rel=1e-12)


def test_mean_has_the_form_of_the_attributions():
    a, b = normal(30, 4, seed=1), normal(30, 4, seed=2)
    one, stack, named = measured(a).mean(), measured(torch.stack((a, b))).mean(), measured({"a": a, "b": b}).mean()
    assert isinstance(one, Estimate)
    assert isinstance(stack, list)
    assert [stack[0], named["a"]] == [one, one]
    assert list(named) == ["a", "b"]
    assert named["b"] == stack[1] != one


def test_a_stack_of_one_stays_a_list():
    assert len(measured(normal(1, 30, 4, seed=1)).mean()) == 1


def test_mean_passes_its_settings_on():
    result = measured(normal(30, 4, seed=1))
    wanted = estimates(result.scores, "bootstrap", 0.8, 100, 7)[0]
    assert result.mean("bootstrap", level=0.8, resamples=100, seed=7) == wanted


def test_estimate_prints_mean_and_interval():
    assert str(Estimate(0.123456, 0.01, 0.1, 0.15)) == "0.123 [0.100, 0.150]"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"interval": "student"}, "interval: .*'normal', 'bootstrap'.*'student'"),
        ({"level": 0.0}, "level: .*between 0 and 1.*0.0"),
        ({"level": 1.0}, "level: .*between 0 and 1.*1.0"),
        ({"level": 95}, "level: .*between 0 and 1.*95"),
        ({"level": float("nan")}, "level: .*between 0 and 1.*nan"),
        ({"interval": "bootstrap", "resamples": 1}, "resamples: .*at least 2, got 1"),
    ],
    ids=str,
)
def test_bad_settings_are_named(settings, message, monkeypatch):
    result = measured(normal(30, 4, seed=1))
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=message):
        result.mean(**settings)
