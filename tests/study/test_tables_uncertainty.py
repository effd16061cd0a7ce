"""Monte-Carlo deviation by method and number of draws."""

import polars as pl
import pytest

from paper.synthetic import HELOC_LINEAR, HELOC_MLP, study
from verax.study.summary import curves, overlaps
from verax.study.tables import UNCERTAINTY_SCHEMA, empty

TABLE = study([HELOC_LINEAR, HELOC_MLP], inputs=2).uncertainty


def test_curves_average_over_the_configurations_of_a_method():
    found = curves(TABLE.with_columns((pl.col("resampled_sd") * pl.int_range(pl.len())).alias("resampled_sd")))
    varied = TABLE.with_columns((pl.col("resampled_sd") * pl.int_range(pl.len())).alias("resampled_sd"))
    for model, method, draws in [("HELOC-MLP", "SmoothGrad", 20), ("HELOC-Linear", "DeepLiftSHAP", 640)]:
        here = (pl.col("model") == model) & (pl.col("method") == method) & (pl.col("draws") == draws)
        expected, row = varied.filter(here), found.filter(here).row(0, named=True)
        assert row["value"] == pytest.approx(expected["value"].mean())
        assert row["resampled_sd"] == pytest.approx(expected["resampled_sd"].mean())


def test_curves_keep_the_order_of_methods_and_sort_the_draws():
    found = curves(TABLE[::-1])
    assert (
        found["method"].unique(maintain_order=True).to_list()
        == TABLE["method"][::-1].unique(maintain_order=True).to_list()
    )
    assert found.filter(pl.col("method") == "Gradient", pl.col("model") == "HELOC-MLP")["draws"].to_list() == [
        20, 40, 80, 160, 320, 640,
    ]  # fmt: skip


def test_deviations_that_were_not_measured_stay_null():
    found = curves(TABLE.with_columns(pl.lit(None, pl.Float64).alias("independent_sd")))
    assert found["independent_sd"].null_count() == found.height


def test_an_empty_table_has_no_curves_and_no_overlaps():
    found = curves(empty(UNCERTAINTY_SCHEMA))
    assert found.height == 0
    assert overlaps(found).height == 0


@pytest.mark.parametrize(("deviation", "overlapping"), [(0.0, 0), (0.49, 0), (0.5, 2), (0.99, 2), (1.0, 3), (10.0, 3)])
def test_bands_overlap_when_the_deviations_bridge_the_distance(deviation, overlapping):
    table = pl.DataFrame(
        {
            "dataset": "d",
            "model": "m",
            "method": ["a", "b", "c"],
            "draws": 20,
            "value": [1.0, 2.0, 3.0],
            "resampled_sd": deviation,
            "per_input_resampled": 10.0,
        }
    )
    row = overlaps(table).row(0, named=True)
    assert (row["pairs"], row["overlapping"], row["share"]) == (3, overlapping, overlapping / 3)
    assert overlaps(table, "per_input_resampled")["overlapping"].item() == 3


def test_overlaps_are_counted_by_model_and_draws_and_shrink_with_the_draws():
    found = overlaps(curves(TABLE))
    assert found.height == 12
    for _, group in found.group_by("model"):
        counts = group.sort("draws")["overlapping"].to_list()
        assert counts == sorted(counts, reverse=True)


def test_one_method_makes_no_pairs():
    found = overlaps(curves(TABLE.filter(pl.col("method") == "Gradient")))
    assert found["pairs"].unique().to_list() == [0]
    assert found["share"].null_count() == found.height
