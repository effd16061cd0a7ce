"""One row per configuration, one box per method."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paper.synthetic import COLUMNS, HELOC_LINEAR, HELOC_MLP, METRICS, explained, study
from verax.study.summary import configurations, methods
from verax.study.tables import COST_COLUMNS

STUDY = study([HELOC_LINEAR, HELOC_MLP], inputs=9)


def row(table, model, configuration):
    return table.filter(pl.col("model") == model, pl.col("configuration") == configuration).row(0, named=True)


def test_configurations_are_rows_in_the_order_of_the_study():
    table = configurations(STUDY.scores, METRICS)
    members = explained("tabular")
    assert table["configuration"].to_list() == [member.canonical for member in members] * 2
    assert table["model"].unique(maintain_order=True).to_list() == ["HELOC-Linear", "HELOC-MLP"]
    assert table["inputs"].unique().to_list() == [9]
    assert table["local"].to_list() == [member.local for member in members] * 2
    assert table.select("dataset", "model", "modality", "method", "configuration").dtypes == [pl.String] * 5


@pytest.mark.parametrize("metric", COLUMNS)
def test_means_and_their_errors_are_those_of_numpy(metric):
    table = configurations(STUDY.scores, METRICS)
    for name in ("Gradient()", "Random(constant=True, seed=0)"):
        chosen = STUDY.scores.filter(pl.col("model") == "HELOC-MLP", pl.col("configuration") == name)
        values = chosen[metric].cast(pl.Float64).to_numpy()
        found = row(table, "HELOC-MLP", name)
        assert found[metric] == pytest.approx(values.mean(), rel=1e-12)
        assert found[f"{metric}_error"] == pytest.approx(values.std(ddof=1) / 3, rel=1e-9)


def test_monte_carlo_error_of_a_mean_falls_with_the_root_of_the_inputs():
    found = row(configurations(STUDY.scores, METRICS), "HELOC-MLP", "Gradient()")
    assert found["infidelity_mc_error"] == pytest.approx(1e-5 / 3, rel=1e-6)
    assert found["infidelity_baseline_mc_error"] == pytest.approx(1e-5 / 3, rel=1e-6)


def test_costs_are_sums_and_single_precision_does_not_lose_small_shares():
    many = pl.concat([STUDY.scores.head(1)] * 20001).with_columns(
        pl.Series("attribution_seconds", [2.0**24] + [1.0] * 20000).cast(pl.Float32),
        pl.Series("input", range(20001)),
    )
    assert configurations(many, METRICS)["attribution_seconds"].item() == 2**24 + 20000
    table = configurations(STUDY.scores, METRICS)
    for name in COST_COLUMNS:
        assert table[name].sum() == STUDY.scores[name].sum()


def test_a_metric_that_was_left_out_stays_null_and_of_partly_measured_inputs_the_measured_count():
    some = pl.when(pl.col("input") < 4).then("infidelity").alias("infidelity")
    table = configurations(STUDY.scores.with_columns(pl.lit(None, pl.Float32).alias("pc"), some), METRICS)
    assert table["pc"].null_count() == table["pc_error"].null_count() == table.height
    chosen = STUDY.scores.filter(
        pl.col("model") == "HELOC-MLP", pl.col("configuration") == "Gradient()", pl.col("input") < 4
    )
    found = row(table, "HELOC-MLP", "Gradient()")
    assert found["infidelity"] == pytest.approx(chosen["infidelity"].mean())
    assert found["infidelity_error"] == pytest.approx(chosen["infidelity"].std() / 2)


def test_text_and_categories_give_the_same_table():
    text = STUDY.scores.with_columns(pl.col("dataset", "model", "modality", "method", "configuration").cast(pl.String))
    assert configurations(text, METRICS).equals(configurations(STUDY.scores, METRICS))


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12), st.sampled_from(["pc", "infidelity"]))
def test_a_box_is_numpys_and_its_names_hold_its_ends(values, metric):
    names = [f"c{i}" for i in range(len(values))]
    table = pl.DataFrame({"dataset": "d", "model": "m", "method": "x", "configuration": names, metric: values})
    box = methods(table, STUDY.metric(metric)).row(0, named=True)
    assert box["count"] == len(values)
    expected = np.quantile(values, [0, 0.5, 1])
    assert [box[key] for key in ("min", "median", "max")] == pytest.approx(expected.tolist())
    held = dict(zip(names, values, strict=True))
    best, worst = (max, min) if metric == "pc" else (min, max)
    assert held[box["best"]] == best(values)
    assert held[box["worst"]] == worst(values)


def test_variants_get_boxes_of_their_own_when_asked():
    table = configurations(STUDY.scores, METRICS)
    together = methods(table, STUDY.metric("pc")).filter(pl.col("model") == "HELOC-MLP")
    apart = methods(table, STUDY.metric("pc"), by=("model", "method", "local")).filter(pl.col("model") == "HELOC-MLP")
    assert together["method"].to_list()[:3] == ["Gradient", "GuidedBackprop", "IntegratedGradients"]
    counts = {(method, local): count for method, local, count in apart.select("method", "local", "count").rows()}
    assert counts["IntegratedGradients", True] == counts["IntegratedGradients", False] == 4
    assert counts["DeepLiftSHAP", True] == counts["DeepLiftSHAP", False] == 12


def test_a_metric_without_values_has_no_boxes():
    table = configurations(STUDY.scores, METRICS).with_columns(pl.lit(None, pl.Float64).alias("pc"))
    assert methods(table, STUDY.metric("pc")).height == 0
