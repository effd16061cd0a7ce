"""Spearman correlation over configurations."""

import numpy as np
import polars as pl
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from analysis.synthetic import HELOC_MLP, ISIC_LINEAR, explained, study
from verax.analysis.agreement import agreement, agreement_of, spearman
from verax.analysis.matrices import Matrix
from verax.analysis.summary import configurations
from verax.attribution import grid


def of(*values, names=None):
    """Matrices over the same configurations."""
    names = names or tuple(f"SmoothGrad(sigma={i})" for i in range(len(values[0])))
    return [Matrix(names, np.arange(v.shape[1]), v) for v in values]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12))
def test_the_correlation_is_scipys_with_ties(pairs):
    x, y = np.array(pairs, dtype=float).T
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    assert spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic)
    assert np.allclose(spearman(np.stack((x, x)), np.stack((y, -y))), [spearman(x, y), -spearman(x, y)])


def test_equal_values_rank_nothing():
    assert np.isnan(spearman(np.ones(3), np.arange(3.0)))
    x, y = of(np.ones((3, 4)), np.random.default_rng(0).normal(size=(3, 4)))
    assert np.isnan(agreement_of(x, y, lime=False).low)


@pytest.mark.parametrize(("modality", "lime"), [("tabular", 729), ("image", 1536)])
def test_the_papers_grid_has_44_configurations_besides_lime_and_references(modality, lime):
    names = tuple(member.canonical for member in grid(modality))
    x, y = of(*np.random.default_rng(0).normal(size=(2, len(names), 3)), names=names)
    assert agreement_of(x, y, lime=False, resamples=2).configurations == 44
    assert agreement_of(x, y, lime=True, resamples=2).configurations == lime


@pytest.mark.parametrize("lime", [True, False])
def test_a_study_is_ranked_by_its_means(lime):
    tables = study([HELOC_MLP, ISIC_LINEAR], inputs=12, noise=0.02)
    found = agreement(tables.scores, "HELOC-MLP", lime=lime, resamples=20)
    is_lime = pl.col("method") == "LimeTabular"
    others = ~is_lime & (pl.col("method") != "Random")
    table = configurations(tables.scores).filter(pl.col("model") == "HELOC-MLP").filter(is_lime if lime else others)
    oracle = scipy.stats.spearmanr(table["dpc_magnitude"], table["infidelity"]).statistic
    assert found.spearman == pytest.approx(oracle)
    assert (found.configurations, found.inputs) == (table.height, 12)
    assert found.low <= found.spearman <= found.high


def test_the_interval_is_that_of_resampled_inputs():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(12, 40)) + np.arange(12)[:, None] * 0.1
    y = -x + rng.normal(size=(12, 40))
    found = agreement_of(*of(x, y), lime=False, resamples=4000)
    drawn = [
        scipy.stats.spearmanr(x[:, chosen].mean(1), y[:, chosen].mean(1)).statistic
        for chosen in rng.integers(40, size=(4000, 40))
    ]
    assert [found.low, found.high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]).tolist(), abs=0.02)


def test_more_inputs_narrow_the_interval_and_the_seed_decides_it():
    rng = np.random.default_rng(0)
    signal = np.arange(10.0)[:, None] * 0.2
    few, many = (of(*(signal * s + rng.normal(size=(10, n)) for s in (1, -1))) for n in (20, 2000))
    wide, narrow = (agreement_of(*pair, lime=False) for pair in (few, many))
    assert narrow.high - narrow.low < (wide.high - wide.low) / 2
    assert agreement_of(*few, lime=False) == wide
    assert agreement_of(*few, lime=False, seed=1) != wide


def test_only_inputs_with_both_metrics_count():
    tables = study([HELOC_MLP], inputs=10, noise=0.05)
    some = tables.scores.with_columns(pl.when(pl.col("input") < 6).then("infidelity").alias("infidelity"))
    assert agreement(some, "HELOC-MLP") == agreement(tables.scores.filter(pl.col("input") < 6), "HELOC-MLP")
    assert agreement(some, "HELOC-MLP").inputs == 6


def test_too_little_to_rank_is_not_a_number():
    tables = study([HELOC_MLP], inputs=1)
    assert np.isnan(agreement(tables.scores, "HELOC-MLP").spearman)
    two = study([HELOC_MLP], inputs=4, members=lambda _: explained("tabular")[:1])
    found = agreement(two.scores, "HELOC-MLP")
    assert (np.isnan(found.spearman), found.configurations) == (True, 1)


def test_any_pair_of_metrics_can_be_compared_and_it_is_printed_with_signs():
    tables = study([HELOC_MLP], inputs=4)
    same = agreement(tables.scores, "HELOC-MLP", x="dpc_signed", y="dpc_magnitude", resamples=10)
    assert str(same) == "+1.00 [+1.00, +1.00]"
