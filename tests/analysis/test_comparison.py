"""One attribution against another, paired over inputs."""

import jaxtyping
import numpy as np
import polars as pl
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from verax.analysis.comparison import compare, compare_methods


def scores(values, metric="dpc_magnitude"):
    """Scores by configuration: ``{"Gradient()": [...]}``."""
    frames = [
        pl.DataFrame(
            {"model": "m", "configuration": name, "input": np.arange(len(row)), metric: np.asarray(row, float)}
        )
        for name, row in values.items()
    ]
    return pl.concat(frames)


def noise(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@given(st.integers(0, 10**6), st.integers(2, 40), st.floats(-1, 1))
@settings(max_examples=30)
def test_it_is_the_paired_t_test(seed, count, shift):
    a, b = noise(2, count, seed=seed)
    found = compare(scores({"A()": a + shift, "B()": b}), "m", "A()", "B()")
    oracle = scipy.stats.ttest_1samp(a + shift - b, 0)
    low, high = oracle.confidence_interval(0.95)
    assert found.difference == pytest.approx((a + shift - b).mean(), abs=1e-12)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.p_value == pytest.approx(oracle.pvalue)
    assert (found.better is not None) == (found.p_value < 0.05)


def test_pairing_finds_a_small_difference_under_large_common_noise():
    common = 100 * noise(50)
    found = compare(scores({"A()": common + 0.1 + 0.01 * noise(50, seed=1), "B()": common}), "m", "A()", "B()")
    assert found.low > 0.09
    assert found.share_first_better == 1
    assert found.better == "A()"


def test_exchanging_the_two_exchanges_the_answer():
    table = scores({"A()": noise(30) + 1, "B()": noise(30, seed=1)})
    there, back = compare(table, "m", "A()", "B()"), compare(table, "m", "B()", "A()")
    assert (there.difference, there.low, there.high) == pytest.approx((-back.difference, -back.high, -back.low))
    assert there.better == back.better == "A()"
    assert there.share_first_better == pytest.approx(1 - back.share_first_better)


def test_less_infidelity_is_better():
    table = scores({"A()": noise(30) * 0.1 + 1, "B()": noise(30) * 0.2 + 2}, metric="infidelity")
    found = compare(table, "m", "A()", "B()", metric="infidelity")
    assert found.difference < 0
    assert found.better == "A()"
    assert found.share_first_better == 1


def test_equal_scores_constant_differences_and_single_inputs():
    row = noise(5)
    same = compare(scores({"A()": row, "B()": row}), "m", "A()", "B()")
    assert (same.difference, same.p_value, same.share_first_better, same.better) == (0, 1, 0, None)
    shifted = compare(scores({"A()": [3, 3], "B()": [1, 1]}), "m", "A()", "B()")
    assert (shifted.low, shifted.high, shifted.p_value, shifted.better) == (2, 2, 0, "A()")
    alone = compare(scores({"A()": [3], "B()": [1]}), "m", "A()", "B()")
    assert alone.difference == 2
    assert np.isnan([alone.low, alone.high, alone.p_value]).all()
    assert alone.better is None


def test_what_is_not_there_is_named():
    table = scores({"A()": noise(4), "B(x=1)": noise(4)})
    with pytest.raises(ValueError, match=r"model 'm' has no values of 'dpc_magnitude' for 'C\(\)'"):
        compare(table, "m", "A()", "C()")
    with pytest.raises(ValueError, match="no configuration of 'C' has values"):
        compare_methods(table, "m", "A", "C")
    with pytest.raises(ValueError, match="need two inputs of model 'm', found 1"):
        compare_methods(table.filter(pl.col("input") == 0), "m", "A", "B")


def test_another_choice_is_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match='choose: expected "best" or "median"'):
        compare_methods(scores({"A()": noise(4), "B()": noise(4)}), "m", "A", "B", choose="worst")


@pytest.mark.parametrize("metric", ["dpc_magnitude", "infidelity"])
def test_the_best_and_the_median_configuration_of_each_method_are_compared(metric):
    sign = -1 if metric == "infidelity" else 1
    levels = {"A(x=1)": 0, "A(x=2)": 5, "A(x=3)": 2, "A(x=4)": 3, "B(x=1)": 1}
    table = scores({name: sign * (level + 0.01 * noise(11)) for name, level in levels.items()}, metric=metric)
    best = compare_methods(table, "m", "A", "B", metric=metric)
    assert (best.first, best.second, best.inputs, best.better) == ("A(x=2)", "B(x=1)", 6, "A(x=2)")
    median = compare_methods(table, "m", "A", "B", metric=metric, choose="median")
    assert median.first == "A(x=4)"
    assert compare_methods(table, "m", "A", "B", metric=metric) == best


def test_choosing_does_not_flatter_the_method_with_more_configurations():
    count, fair, naive = 40, [], []
    for seed in range(60):
        values = {f"A(x={i})": row for i, row in enumerate(noise(50, count, seed=seed))}
        values["B(x=0)"] = noise(count, seed=1000 + seed)
        found = compare_methods(scores(values), "m", "A", "B", seed=seed)
        fair.append(found.difference)
        naive.append(max(row.mean() for name, row in values.items() if name[0] == "A") - values["B(x=0)"].mean())
    error = np.std(fair) / np.sqrt(len(fair))
    assert abs(np.mean(fair)) < 3 * error
    assert np.mean(naive) > 0.25  # the best of fifty means of pure noise


def test_other_seeds_choose_on_other_inputs():
    table = scores({f"A(x={i})": row for i, row in enumerate(noise(30, 10))} | {"B()": noise(10, seed=9)})
    differences = {compare_methods(table, "m", "A", "B", seed=seed).difference for seed in range(5)}
    assert len(differences) > 1
