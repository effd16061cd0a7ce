"""Rows and seconds."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calls
import verax
from paper.synthetic import HELOC_LINEAR, HELOC_MLP, METRICS, study, timing
from verax.study.summary import by_kind, configurations, crossover, sharing, together
from verax.study.tables import COSTS_SCHEMA, empty

STUDY = study([HELOC_LINEAR, HELOC_MLP], inputs=3)


@given(st.integers(1, 60), st.integers(1, 3000), st.integers(1, 60))
def test_the_crossover_is_the_first_count_at_which_shared_draws_cost_no_more(steps, draws, features):
    found = crossover(steps, draws, features)
    rows = 2 * min(steps, features)
    assert found.guided_rows == rows
    assert found.attributions == next(k for k in range(1, 3001) if draws <= rows * k)
    assert found.ratio == draws / rows


def test_the_papers_figures():
    assert crossover(20, 640).ratio == 16
    assert crossover(20, 1280, features=20).attributions == 32
    assert together(20, signed=True) == 40
    assert together(1) == together(1, signed=True) == 2


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"draws": 0}, {"features": 0}])
def test_numbers_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}: expected a positive number"):
        crossover(**wrong)


@pytest.mark.parametrize("steps", [2, 5, 20, 30])
def test_the_rows_of_both_metrics_are_those_that_the_library_runs(steps):
    rng = np.random.default_rng(0)
    weights, inputs = rng.normal(size=20), rng.normal(size=(1, 20))
    # Half of the signs differ, so that no step of one order removes the same features as a step of the other.
    attribution = np.where(np.arange(20) % 2, 1, -1) * np.exp(np.arange(20.0))[None]
    model = verax.Scorer(lambda x: x @ weights, returns="logits")
    both = calls.evaluate(model, inputs, attribution, [metric(steps) for metric in _metrics("magnitude")])
    shared = calls.evaluate(model, inputs, attribution, [metric(steps) for metric in _metrics("signed")])
    assert shared.rows == together(steps, 20, signed=True)
    assert together(steps, 20) - 4 <= both.rows <= together(steps, 20)  # identical rows are run once


def _metrics(order):
    return (
        lambda steps: verax.metrics.PredictionChange(steps=steps),
        lambda steps: verax.metrics.DirectedPredictionChange(order=order, steps=steps),
    )


def test_costs_per_attribution_are_sums_divided_by_configurations_times_inputs():
    doubled = STUDY.scores.with_columns(
        (pl.when(pl.col("method") == "SmoothGrad").then(2.0).otherwise(1.0) * 40).alias("guided_rows").cast(pl.Float32)
    )
    smooth = doubled.filter(pl.col("method") == "SmoothGrad")
    found = by_kind(configurations(smooth, METRICS)).filter(pl.col("model") == "HELOC-MLP", pl.col("kind") == "guided")
    costs = found.select("attributions", "rows", "rows_per_attribution", "seconds_per_attribution").row(0)
    assert costs == (15, 1200, 80, 1)
    everything = by_kind(configurations(doubled, METRICS))
    assert everything["kind"].to_list() == ["attribution", "guided", "sampled"] * 2
    assert everything.filter(pl.col("kind") == "guided")["rows"].sum() == doubled["guided_rows"].sum()
    assert everything["model"].unique(maintain_order=True).to_list() == ["HELOC-Linear", "HELOC-MLP"]


def test_sharing_sums_units_by_model_and_says_how_many_times_less_was_run():
    units = [
        timing(HELOC_LINEAR, unit, 2.0) | {"rows_forward_unshared": more} for unit, more in (("a", 3.0), ("b", 5.0))
    ]
    units += [timing(HELOC_MLP, "a", 7.0) | {"rows_forward": 0.0, "device": "cuda"}]
    found = sharing(pl.DataFrame(units, schema=dict(COSTS_SCHEMA)))
    assert found.select("model", "seconds", "rows_forward", "rows_forward_unshared", "saving", "device").rows() == [
        ("HELOC-Linear", 4.0, 2.0, 8.0, 4.0, "cpu"),
        ("HELOC-MLP", 7.0, 0.0, 1.0, None, "cuda"),
    ]
    assert sharing(empty(COSTS_SCHEMA)).height == 0
