"""Scores as matrices, and the bootstrap over inputs."""

import numpy as np
import polars as pl
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from verax.study.tables import Matrix, common, estimate, interval, matrix, resampled_means


def scores(values, model="m", metric="pc"):
    count, inputs = values.shape
    return pl.DataFrame(
        {
            "model": [model] * values.size,
            "configuration": [f"c{i}" for i in range(count) for _ in range(inputs)],
            "input": list(range(inputs)) * count,
            metric: values.reshape(-1),
        }
    )


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@given(st.integers(1, 5), st.integers(1, 6), st.randoms(use_true_random=False))
def test_rows_in_any_order_give_each_value_its_place(count, inputs, random):
    values = normal(count, inputs)
    rows = list(range(values.size))
    random.shuffle(rows)
    found = matrix(scores(values)[rows], "m", "pc")
    assert sorted(found.configurations) == [f"c{i}" for i in range(count)]
    assert np.array_equal(found.values[found.places([f"c{i}" for i in range(count)])], values)
    assert found.inputs.tolist() == list(range(inputs))


def test_configurations_come_in_the_order_in_which_they_first_appear_as_text_or_as_categories():
    table = scores(normal(3, 2))[[4, 5, 0, 1, 3, 2]]
    names = [pl.col("model", "configuration").cast(kind) for kind in (pl.String, pl.Categorical)]
    for cast in names:
        found = matrix(table.with_columns(cast), "m", "pc")
        assert found.configurations == ("c2", "c0", "c1")
        assert found.values.dtype == np.float64


def test_other_models_and_what_was_not_measured_are_left_out():
    table = pl.concat([scores(normal(3, 4)), scores(normal(2, 2), model="other")])
    left_out = (pl.col("configuration") == "c1") | (pl.col("input") == 3)
    found = matrix(table.with_columns(pl.when(~left_out).then("pc")), "m", "pc")
    assert found.configurations == ("c0", "c2")
    assert found.inputs.tolist() == [0, 1, 2]
    nothing = matrix(table, "no such model", "pc")
    assert nothing.values.shape == (0, 0)


@pytest.mark.parametrize("rows", [[0, 1, 2], [0, 1, 2, 2], [0, 0, 2, 3], [0, 1, 2, 3, 3]])
def test_missing_and_repeated_inputs_are_refused(rows):
    with pytest.raises(ValueError, match="model 'm' do not all have the same inputs once"):
        matrix(scores(normal(2, 2))[rows], "m", "pc")


def test_common_keeps_the_values_of_shared_configurations_and_inputs():
    values = normal(4, 5)
    names = ("a", "b", "c", "d")
    first = Matrix(names, np.arange(5), values)
    second = Matrix(("d", "b"), np.array([1, 3, 4, 9]), normal(2, 4, seed=1))
    left, right = common(first, second)
    assert left.configurations == right.configurations == ("b", "d")
    assert left.inputs.tolist() == right.inputs.tolist() == [1, 3, 4]
    assert np.array_equal(left.values, values[np.ix_([1, 3], [1, 3, 4])])
    assert np.array_equal(right.values, second.values[np.ix_([1, 0], [0, 1, 2])])


def test_resampled_means_are_means_of_drawn_inputs_the_same_for_every_configuration():
    values = normal(2, 30)
    means = resampled_means(np.vstack((values, values[:1] * 2 + 1, np.ones((1, 30)))), 300, seed=3)
    assert means.shape == (300, 4)
    assert np.allclose(means[:, 2], means[:, 0] * 2 + 1)
    assert np.allclose(means[:, 3], 1)
    exact = np.eye(4) * 4  # the mean of a unit vector counts how often its input was drawn
    counts = resampled_means(exact, 50, seed=0)
    assert np.allclose(counts, counts.round())
    assert np.allclose(counts.sum(1), 4)


def test_more_resamples_begin_with_the_same_draws_and_another_seed_has_others():
    values = normal(3, 20)
    many = resampled_means(values, 300, seed=0)
    assert np.array_equal(many[:7], resampled_means(values, 7, seed=0))
    assert not np.array_equal(many[:7], resampled_means(values, 7, seed=1))


def test_the_interval_is_scipys_percentile_bootstrap_of_a_paired_difference():
    values = normal(2, 80) + np.array([[0.5], [0.0]])
    found = estimate(lambda m: m[..., 0] - m[..., 1], (values.mean(1), resampled_means(values, 20000, seed=0)))
    rng = np.random.default_rng(1)
    sampled = (values[0] - values[1],)
    oracle = scipy.stats.bootstrap(sampled, np.mean, n_resamples=20000, method="percentile", rng=rng)
    assert found.mean == pytest.approx(values[0].mean() - values[1].mean())
    assert found.low == pytest.approx(oracle.confidence_interval.low, abs=0.01)
    assert found.high == pytest.approx(oracle.confidence_interval.high, abs=0.01)


def test_an_interval_holds_its_figure_and_ignores_resamples_without_one():
    assert interval(0.0, np.array([1.0, 2.0])).low == 0
    assert interval(3.0, np.array([1.0, 2.0, np.nan])).high == 3
    assert np.isnan(interval(np.nan, np.array([np.nan])).low)
    assert f"{interval(0.5, np.array([0.25, 0.25])):.3g}" == "0.5 [0.25, 0.5]"


def test_parts_and_negatives_have_draws_of_their_own_which_are_made_once():
    values = normal(5, 40)
    whole = Matrix(tuple("abcde"), np.arange(40), values)
    part = whole.part(np.array([3, 1]))
    assert part.configurations == ("d", "b")
    assert part is whole.part(np.array([3, 1]))
    assert np.array_equal(part.resampled(30, seed=2), resampled_means(values[[3, 1]], 30, seed=2))
    drawn = whole.resampled(30, seed=2)
    assert np.shares_memory(whole.resampled(7, seed=2), drawn)
    assert np.array_equal(whole.resampled(7, seed=2), drawn[:7])
    assert np.array_equal(whole.resampled(50, seed=2)[:30], drawn)
    assert not np.array_equal(whole.resampled(30, seed=3), drawn)
    assert np.array_equal(whole.negated().values, -values)
    assert np.array_equal(whole.negated().resampled(30, seed=2), resampled_means(-values, 30, seed=2))


def test_what_is_common_to_all_is_left_as_it_is():
    first, second = (Matrix(("a", "b"), np.arange(3), normal(2, 3)) for _ in range(2))
    assert all(a is b for a, b in zip(common(first, second), (first, second), strict=True))
    fewer = Matrix(("b",), np.arange(1, 3), normal(1, 2))
    assert np.array_equal(common(first, fewer)[0].values, first.values[1:, 1:])
