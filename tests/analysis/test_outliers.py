"""LIME configurations near zero."""

import polars as pl
import pytest
import scipy.stats

from analysis.synthetic import HELOC_LINEAR, ISIC_LINEAR, study
from verax.analysis.canonical import settings
from verax.analysis.outliers import near_zero
from verax.analysis.summary import configurations

TABLE = configurations(study([HELOC_LINEAR, ISIC_LINEAR], inputs=8).scores)
LIME = TABLE.filter(pl.col("method").is_in(["LimeTabular", "LimeImage"]))


def test_configurations_regularised_to_nothing_are_found_in_each_model():
    found = near_zero(TABLE)
    for model, alpha in (("HELOC-Linear", 0.55), ("ISIC-Linear", 1.0)):
        names = LIME.filter(pl.col("model") == model)["configuration"]
        expected = [name for name in names if settings(name)["alpha"] == alpha]
        assert found.filter(pl.col("model") == model)["configuration"].to_list() == expected
    assert found["relative_norm"].max() < 1e-3


def test_they_are_worst_under_infidelity_and_zero_under_dpc():
    found = near_zero(TABLE).filter(pl.col("model") == "HELOC-Linear")
    count = LIME.filter(pl.col("model") == "HELOC-Linear").height
    assert found["infidelity_rank"].min() == pytest.approx((count - found.height) / (count - 1))
    assert found["infidelity_rank"].max() == 1
    assert found["dpc_relative"].abs().max() < 0.05
    assert found["dpc_rank"].min() > 0.5


def test_ranks_are_scipys_scaled_to_one():
    found = near_zero(TABLE, fraction=0.999).filter(pl.col("model") == "ISIC-Linear")
    lime = LIME.filter(pl.col("model") == "ISIC-Linear")
    ranks = (scipy.stats.rankdata(-lime["dpc_magnitude"].to_numpy()) - 1) / (lime.height - 1)
    expected = dict(zip(lime["configuration"], ranks, strict=True))
    for row in found.iter_rows(named=True):
        assert row["dpc_rank"] == pytest.approx(expected[row["configuration"]])


def test_other_methods_neither_count_nor_are_found():
    assert near_zero(TABLE).equals(near_zero(LIME))
    assert near_zero(TABLE.filter(pl.col("method") == "Gradient")).height == 0


def test_equal_norms_are_not_near_zero_and_a_single_configuration_has_no_rank():
    even = LIME.with_columns(pl.lit(1e-9).alias("attribution_norm"))
    assert near_zero(even).height == 0
    alone = LIME.head(1).with_columns(pl.lit(1.0).alias("attribution_norm"))
    assert near_zero(alone).height == 0


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1])
def test_a_fraction_lies_between_zero_and_one(fraction):
    with pytest.raises(ValueError, match="fraction: expected a number between 0 and 1"):
        near_zero(TABLE, fraction=fraction)
