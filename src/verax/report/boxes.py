"""Scores by method: one box per method over its configurations, whiskers at the extremes, one column per model."""

from collections.abc import Iterable
from typing import Any

import altair as alt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from verax.report.figure import panels, plain
from verax.report.style import KIND_COLOURS
from verax.report.vega import axis_title, by_model, metric_chart, scale_of, tooltips, vega_lite
from verax.report.view import View
from verax.study.tables import MetricInfo

STEP = 23  # height of one method


def charts(view: View) -> dict[str, Any]:
    """The main metrics by method, and a chart of the metric that the reader chooses."""
    charts = {
        f"boxes-{metric.column}": vega_lite(_chart(view, axis_title(metric)), metric=metric.column)
        for metric in view.main
    }
    others = other_metrics(view)
    if others:
        charts["boxes-other"] = vega_lite(_chart(view, None), metric=others[0].column)
    return charts


def other_metrics(view: View) -> list[MetricInfo]:
    """Metrics beside the main ones that the study has."""
    return [metric for metric in view.measured if metric not in view.main]


def _chart(view: View, title: str | None) -> Any:
    base = metric_chart()
    legend = alt.Legend(orient="top", symbolType="square")
    where = base.encode(
        x=alt.X("mean:Q", title=title, axis=alt.Axis(tickCount=4, format="~g", labelSeparation=6)),
        y=alt.Y("label:N", sort=view.labels, title=None),
        color=alt.Color("kind:N", title=None, scale=scale_of(KIND_COLOURS), legend=legend),
    )
    thin = {"color": "currentColor", "opacity": 0.5}
    box = where.mark_boxplot(
        extent="min-max",
        size=13,
        opacity=0.4,
        median={"color": "currentColor", "thickness": 2, "size": 13},
        ticks={**thin, "size": 7},
        rule=thin,
    )
    size = "datum.others < 3 ? 60 : datum.others < 50 ? 16 : 8"  # one alone must be seen, many must not hide the box
    opacity = "datum.others < 100 ? 0.6 : 0.2"
    points = where.transform_joinaggregate(others="count()", groupby=["model", "label"])
    points = points.transform_calculate(size=size, opacity=opacity, height="datum.others < 3 ? 0.5 : datum.jitter")
    points = points.mark_circle(aria=False).encode(
        yOffset=alt.YOffset("height:Q", scale=alt.Scale(domain=[-0.3, 1.3])),
        size=alt.Size("size:Q", scale=None),
        opacity=alt.Opacity("opacity:Q", scale=None),
        tooltip=tooltips("configuration", ("mean", "mean", ".4g"), ("error", "standard error", ".2g")),
    )
    random = base.transform_filter("datum.method == 'Random'").mark_rule(strokeDash=[4, 3], opacity=0.8, aria=False)
    layers = alt.layer(box, random.encode(x="mean(mean):Q"), points)
    chart = alt.layer(*layers.layer, data=alt.NamedData(name="configurations"))
    faceted = by_model(chart.properties(height=STEP * len(view.labels)), view.models, margin=30)
    return faceted.resolve_scale(x="independent").properties(
        description=f"{title or 'The chosen metric'} by method, one panel per model."
    )


def figure(view: View, metric: MetricInfo) -> Figure:
    """The paper's figure of one metric: box plots by method, a panel per model, random as a dashed line."""
    column = metric.column
    measured = view.rows.drop_nulls(column)
    models = [model for model in view.models if model in set(measured["model"])]
    drawn, axes = panels(len(models), width=5.2, height=0.6 + 0.27 * len(view.labels), columns=2)
    for model, ax in zip(models, axes, strict=True):
        rows = measured.filter(pl.col("model") == model)
        groups = {label: rows.filter(pl.col("label") == label) for label in view.labels}
        groups = {label: group for label, group in groups.items() if group.height}
        values, kinds = [group[column] for group in groups.values()], [group["kind"][0] for group in groups.values()]
        draw_boxes(ax, values, kinds, orientation="horizontal", widths=0.55, alpha=0.6)
        random = rows.filter(pl.col("method") == "Random")[column]
        if len(random):
            ax.axvline(sum(random) / len(random), color="0.4", linestyle="--", linewidth=0.8)
        ax.set_yticks(range(1, len(groups) + 1), [plain(label) for label in groups])
        ax.invert_yaxis()
        ax.set(title=plain(model), xlabel=plain(metric.label))
    return drawn


def draw_boxes(ax: Axes, values: Any, kinds: Iterable[str], alpha: float, **where: Any) -> None:
    """Box plots with whiskers at the extremes, in the colours of the kinds of methods."""
    parts = ax.boxplot(values, whis=(0, 100), patch_artist=True, **where)
    for patch, kind in zip(parts["boxes"], kinds, strict=True):
        patch.set(facecolor=KIND_COLOURS[kind], alpha=alpha, edgecolor=KIND_COLOURS[kind])
    for line in parts["medians"]:
        line.set(color="black")
