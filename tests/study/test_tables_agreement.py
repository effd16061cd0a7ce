"""Spearman correlation over configurations."""

import numpy as np
import polars as pl
import pytest
import scipy.stats

from paper.synthetic import HELOC_MLP, ISIC_LINEAR, explained, study
from verax.attribution import grid
from verax.study.ranking import agreement
from verax.study.summary import configurations
from verax.study.tables import Matrix, matrix


def of(*values, names=None):
    """Matrices over the same configurations."""
    names = names or tuple(f"SmoothGrad(sigma={i})" for i in range(len(values[0])))
    return [Matrix(names, np.arange(v.shape[1]), v) for v in values]


def in_study(scores, x="dpc_signed", y="infidelity", lime=False, resamples=1000):
    return agreement(*(matrix(scores, "HELOC-MLP", metric) for metric in (x, y)), lime=lime, resamples=resamples)


def test_equal_values_rank_nothing():
    x, y = of(np.ones((3, 4)), np.random.default_rng(0).normal(size=(3, 4)))
    assert np.isnan(agreement(x, y, lime=False).spearman.low)


@pytest.mark.parametrize(("modality", "lime"), [("tabular", 729), ("image", 1536)])
def test_the_papers_grid_has_44_configurations_besides_lime_and_references(modality, lime):
    names = tuple(member.canonical for member in grid(modality))
    x, y = of(*np.random.default_rng(0).normal(size=(2, len(names), 3)), names=names)
    assert agreement(x, y, lime=False, resamples=2).configurations == 44
    assert agreement(x, y, lime=True, resamples=2).configurations == lime


@pytest.mark.parametrize("lime", [True, False])
def test_a_study_is_ranked_by_its_means(lime):
    tables = study([HELOC_MLP, ISIC_LINEAR], inputs=12, noise=0.02)
    found = in_study(tables.scores, lime=lime, resamples=20)
    is_lime = pl.col("method") == "LimeTabular"
    others = ~is_lime & (pl.col("method") != "Random")
    table = (
        configurations(tables.scores, tables.metrics)
        .filter(pl.col("model") == "HELOC-MLP")
        .filter(is_lime if lime else others)
    )
    oracle = scipy.stats.spearmanr(table["dpc_signed"], table["infidelity"]).statistic
    assert found.spearman.mean == pytest.approx(oracle)
    assert (found.configurations, found.inputs) == (table.height, 12)
    assert found.spearman.low <= found.spearman.mean <= found.spearman.high


def test_the_interval_is_that_of_resampled_inputs():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(12, 40)) + np.arange(12)[:, None] * 0.1
    y = -x + rng.normal(size=(12, 40))
    found = agreement(*of(x, y), lime=False, resamples=4000)
    drawn = [
        scipy.stats.spearmanr(x[:, chosen].mean(1), y[:, chosen].mean(1)).statistic
        for chosen in rng.integers(40, size=(4000, 40))
    ]
    assert [found.spearman.low, found.spearman.high] == pytest.approx(
        np.quantile(drawn, [0.025, 0.975]).tolist(), abs=0.02
    )


def test_more_inputs_narrow_the_interval_and_the_seed_decides_it():
    rng = np.random.default_rng(0)
    signal = np.arange(10.0)[:, None] * 0.2
    few, many = (of(*(signal * s + rng.normal(size=(10, n)) for s in (1, -1))) for n in (20, 2000))
    wide, narrow = (agreement(*pair, lime=False).spearman for pair in (few, many))
    assert narrow.high - narrow.low < (wide.high - wide.low) / 2
    assert agreement(*few, lime=False).spearman == wide
    assert agreement(*few, lime=False, seed=1).spearman != wide


def test_only_inputs_with_both_metrics_count():
    tables = study([HELOC_MLP], inputs=10, noise=0.05)
    some = tables.scores.with_columns(pl.when(pl.col("input") < 6).then("infidelity").alias("infidelity"))
    assert in_study(some) == in_study(tables.scores.filter(pl.col("input") < 6))
    assert in_study(some).inputs == 6


def test_too_little_to_rank_is_not_a_number():
    tables = study([HELOC_MLP], inputs=1)
    assert np.isnan(in_study(tables.scores).spearman.mean)
    two = study([HELOC_MLP], inputs=4, members=lambda _: explained("tabular")[:1])
    found = in_study(two.scores)
    assert (np.isnan(found.spearman.mean), found.configurations) == (True, 1)


def test_any_pair_of_metrics_can_be_compared_and_it_is_printed_with_signs():
    tables = study([HELOC_MLP], inputs=4)
    same = in_study(tables.scores, x="dpc_magnitude", y="dpc_signed", resamples=10)
    assert str(same) == "+1.00 [+1.00, +1.00]"


def test_rounding_neither_ranks_configurations_nor_widens_the_interval():
    rng = np.random.default_rng(3)
    distinct = rng.normal(size=(6, 30)) + np.arange(6)[:, None]
    twins = np.concatenate([distinct[:1]] * 5 + [distinct[1:]])  # as the gradients of a linear model are
    rounding = 1 + 1e-15 * rng.normal(size=(10, 1))
    x, y = of(twins * rounding, -twins / rounding)
    exact = agreement(*of(twins, -twins), lime=False)
    rounded = agreement(x, y, lime=False)
    assert rounded.spearman == exact.spearman
    assert (rounded.spearman.low, rounded.ties) == (-1.0, (5, 5))
