"""Pareto sets."""

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from verax.paper.published import PAPER_DPC, PAPER_INFIDELITY
from verax.study.ranking import front, pareto

POINTS = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=20)


def table(points, model="m"):
    return pl.DataFrame(
        {
            "model": [model] * len(points),
            "configuration": [f"c{i}" for i in range(len(points))],
            PAPER_DPC: [float(good) for good, _ in points],
            PAPER_INFIDELITY: [float(bad) for _, bad in points],
        }
    )


def dominates(first, second):
    """At least as good in both (more of the first, less of the second number), better in one."""
    return first[0] >= second[0] and first[1] <= second[1] and first != second


@given(POINTS)
def test_it_is_what_brute_force_finds_ties_included(points):
    expected = [f"c{i}" for i, point in enumerate(points) if not any(dominates(other, point) for other in points)]
    assert pareto(table(points))["configuration"].to_list() == expected
    assert expected


@given(POINTS)
def test_what_is_left_out_is_dominated_by_something_in_the_set(points):
    kept = pareto(table(points)).select(PAPER_DPC, PAPER_INFIDELITY).rows()
    for point in points:
        assert point in kept or any(dominates(other, point) for other in kept)


@given(POINTS)
def test_better_in_everything_is_alone_and_monotone_scales_change_nothing(points):
    assert pareto(table([*points, (9, -9)]))["configuration"].to_list() == [f"c{len(points)}"]
    good, bad = np.array(points, dtype=float).T
    assert np.array_equal(front(good, bad), front(np.exp(good), 5 * bad - 1))


def test_a_set_of_random_points_is_small_and_brute_force_agrees():
    good, bad = np.random.default_rng(0).normal(size=(2, 1536))
    kept = front(good, bad)
    beaten = ((good[:, None] >= good) & (bad[:, None] <= bad) & ((good[:, None] > good) | (bad[:, None] < bad))).any(0)
    assert np.array_equal(kept, ~beaten)


def test_each_model_has_its_own_set_and_rows_without_a_metric_are_no_candidates():
    both = pl.concat([table([(1, 1), (2, 0)]), table([(0, 5), (-1, 6)], model="worse")])
    assert pareto(both).select("model", "configuration").rows() == [("m", "c1"), ("worse", "c0")]
    unmeasured = both.with_columns(
        pl.when(pl.col("configuration") != "c1").then(PAPER_INFIDELITY).alias(PAPER_INFIDELITY)
    )
    assert pareto(unmeasured)["configuration"].to_list() == ["c0", "c0"]
    assert pareto(both.clear()).height == 0


def test_other_columns_may_be_asked_for():
    rows = table([(1, 1), (2, 2), (0, 0)]).rename({PAPER_DPC: "pc", PAPER_INFIDELITY: "attribution_seconds"})
    assert pareto(rows, maximise="pc", minimise="attribution_seconds").height == 3


def test_rounding_puts_no_point_out_of_the_pareto_set():
    gains, losses = np.array([1.0, 1.0 + 1e-15, 0.0]), np.array([0.5, 0.5 - 1e-15, 1.0])
    assert front(gains, losses).tolist() == [True, True, False]


@given(st.integers(2, 300), st.sampled_from([1e-9, 1e-6, 1e-3]))
def test_a_dense_chain_of_distinct_points_keeps_its_members(count, step):
    gains = np.concatenate((np.arange(count), np.full(500, -1.0)))  # each better than the last, at a small price
    losses = np.concatenate((step * np.arange(count), np.linspace(1, 3, 500)))
    assert front(gains, losses).tolist() == [True] * count + [False] * 500
    assert front(np.zeros(count + 500), losses).sum() == 1
