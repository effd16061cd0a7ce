"""LIME configurations near zero."""

import polars as pl

from paper.synthetic import HELOC_LINEAR, ISIC_LINEAR, METRICS, study
from verax.paper.published import PAPER_DPC, PAPER_INFIDELITY
from verax.study.ranking import near_zero
from verax.study.summary import configurations, settings_of

TABLE = configurations(study([HELOC_LINEAR, ISIC_LINEAR], inputs=8).scores, METRICS)
LIME = TABLE.filter(pl.col("method").is_in(["LimeTabular", "LimeImage"]))


def test_configurations_regularised_to_nothing_are_found_in_each_model():
    found = near_zero(TABLE)
    for model, alpha in (("HELOC-Linear", 0.55), ("ISIC-Linear", 1.0)):
        names = LIME.filter(pl.col("model") == model)["configuration"]
        expected = [name for name in names if settings_of(name)["alpha"] == alpha]
        assert found.filter(pl.col("model") == model)["configuration"].to_list() == expected


def test_they_are_worst_under_infidelity_and_zero_under_dpc():
    found = near_zero(TABLE).filter(pl.col("model") == "HELOC-Linear")
    others = LIME.filter(
        pl.col("model") == "HELOC-Linear", ~pl.col("configuration").is_in(found["configuration"].implode())
    )
    assert found[PAPER_INFIDELITY].min() > others[PAPER_INFIDELITY].max()
    assert found[PAPER_DPC].abs().max() < 0.05 * others[PAPER_DPC].max()


def test_other_methods_neither_count_nor_are_found():
    assert near_zero(TABLE).equals(near_zero(LIME))
    assert near_zero(TABLE.filter(pl.col("method") == "Gradient")).height == 0


def test_equal_norms_are_not_near_zero_and_a_single_configuration_is_not():
    even = LIME.with_columns(pl.lit(1e-9).alias("attribution_norm"))
    assert near_zero(even).height == 0
    alone = LIME.head(1).with_columns(pl.lit(1.0).alias("attribution_norm"))
    assert near_zero(alone).height == 0
