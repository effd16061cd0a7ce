"""Scores over epsilon."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from paper.synthetic import METRICS
from report.synthetic import study
from verax.metrics import DirectedPredictionChange, LocalPredictionChange
from verax.problem.replacement import Nudge, Toward
from verax.report import sweeps
from verax.report.view import View
from verax.study.metrics import described
from verax.study.tables import MetricInfo, Tables

EPSILONS = (1.0, 0.01, 0.1)


def near(size: float, series: str = "lpc") -> MetricInfo:
    return MetricInfo(f"{series}_{size}", f"LPC {size}", True, "local", noisy=False, epsilon=size, series=series)


def measured(*metrics: MetricInfo) -> View:
    """A study whose further metrics are DPC times epsilon, which is a straight line over epsilon."""
    plain = study(("HELOC-MLP", "HELOC-Linear"), inputs=3, every=200, uncertain=False)
    further = [(pl.col("dpc_signed").cast(pl.Float64) * metric.epsilon).alias(metric.column) for metric in metrics]
    tables: Tables = replace(plain, scores=plain.scores.with_columns(further), metrics=(*METRICS, *metrics))
    return View(tables, ())


def test_a_straight_line_is_flat_once_it_is_divided() -> None:
    view = measured(*map(near, EPSILONS))
    found = sweeps.epsilon_points(view)
    assert [metric.epsilon for metric in sweeps.epsilon_series(view)] == sorted(EPSILONS)
    assert set(found["label"]) == set(view.labels)
    whole = view.boxes(view.tables.metric("dpc_signed"))
    for size in EPSILONS:
        assert np.allclose(found.filter(pl.col("epsilon") == size)["value"], whole["median"])


def test_it_is_drawn_where_three_columns_differ_in_epsilon_alone() -> None:
    view = measured(*map(near, EPSILONS))
    (chart,) = sweeps.epsilon_charts(view).values()
    assert chart["tables"] == ["epsilon"]
    assert set(sweeps.epsilon_columns(view)) == {"model", "label", "epsilon", "value"}
    drawn = sweeps.epsilon_figure(view)
    assert [ax.get_title() for ax in drawn.axes] == view.models
    for ax in drawn.axes:
        assert {tuple(line.get_xdata()) for line in ax.lines} == {(0.01, 0.1, 1.0)}


@pytest.mark.parametrize("metrics", [(), (near(0.1), near(1.0)), (near(0.1), near(1.0), near(0.01, "dpc"))])
def test_it_is_left_out_elsewhere(metrics: tuple[MetricInfo, ...]) -> None:
    view = measured(*metrics)
    assert sweeps.epsilon_series(view) == []
    assert sweeps.epsilon_charts(view) == {}
    assert sweeps.epsilon_points(view).is_empty()


def test_a_series_is_all_that_a_metric_is_apart_from_epsilon() -> None:
    def info(metric: LocalPredictionChange | DirectedPredictionChange) -> tuple[float | None, str]:
        found = described("any", metric, noisy=False)
        return found.epsilon, found.series

    near_ones = [info(LocalPredictionChange(epsilon=size)) for size in EPSILONS]
    assert [size for size, _ in near_ones] == list(EPSILONS)
    assert len({series for _, series in near_ones}) == 1
    assert info(LocalPredictionChange(steps=5))[1] != near_ones[0][1]
    nudged, moved = (info(DirectedPredictionChange(replacement=one)) for one in (Nudge(0.5), Toward(0.5)))
    assert nudged[0] == moved[0] == 0.5
    assert nudged[1] != moved[1]
    assert info(DirectedPredictionChange()) == (None, "")
