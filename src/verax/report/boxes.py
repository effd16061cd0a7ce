"""Scores by method: one box per method over its configurations, and pairs with and without the input as factor."""

import re
from collections.abc import Iterable
from typing import Any

import altair as alt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from verax.attribution.names import LOCAL, ORIENTED, TIMES, abbreviation
from verax.report.plots import panels, plain
from verax.report.vega import KIND_COLOURS, axis_title, by_model, metric_chart, scale_of, tooltips, vega_lite
from verax.report.view import View
from verax.study.tables import MetricInfo

STEP = 23  # height of one method


def charts(view: View) -> dict[str, Any]:
    """The main metrics by method, and a chart of the metric that the reader chooses."""
    charts = {
        f"boxes-{metric.column}": vega_lite(_box_chart(view, axis_title(metric)), metric=metric.column)
        for metric in view.main
    }
    others = other_metrics(view)
    if others:
        charts["boxes-other"] = vega_lite(_box_chart(view, None), metric=others[0].column)
    return charts


def other_metrics(view: View) -> list[MetricInfo]:
    """Metrics beside the main ones that the study has."""
    return [metric for metric in view.measured if metric not in view.main]


def _box_chart(view: View, title: str | None) -> Any:
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


PAIRED_HEIGHT = 190


def paired_rows(view: View) -> pl.DataFrame:
    """Configurations that exist both with and without multiplication by the input."""
    both = pl.col("local").n_unique().over("model", "method", "pair") == 2
    return view.rows.filter(both).with_columns(
        pl.struct("method", "local").map_elements(lambda v: _side(**v), return_dtype=pl.String).alias("side")
    )


def paired_methods(view: View) -> list[str]:
    """Methods that have such pairs."""
    return sorted(paired_rows(view)["method"].unique())


def paired_charts(view: View) -> dict[str, Any]:
    """The main metrics of every pair, a panel per model."""
    if not paired_methods(view):
        return {}
    return {
        f"input-factor-{metric.column}": vega_lite(_paired_chart(view, metric), metric=metric.column)
        for metric in view.main
    }


def _paired_chart(view: View, metric: MetricInfo) -> Any:
    methods = paired_methods(view)
    order = [_side(method, local) for method in methods for local in (False, True)]
    lines_of_words = alt.Axis(labelAngle=0, labelExpr="split(datum.label, ' ')")
    base = metric_chart().encode(
        x=alt.X("side:N", sort=order, title=None, axis=lines_of_words),
        y=alt.Y("mean:Q", title=axis_title(metric), axis=alt.Axis(tickCount=5, format="~g")),
    )
    kinds = {kind: KIND_COLOURS[kind] for kind in (LOCAL, ORIENTED)}
    lines = base.mark_line(opacity=0.35, color="currentColor", strokeWidth=1, aria=False)
    lines = lines.encode(detail=["name:N", "pair:N"])
    points = base.mark_circle(size=40, opacity=0.8, aria=False).encode(
        color=alt.Color("kind:N", title=None, scale=scale_of(kinds), legend=alt.Legend(orient="top")),
        tooltip=tooltips("configuration", ("mean", "mean", ".4g"), ("error", "standard error", ".2g")),
    )
    chart = alt.layer(lines, points, data=alt.NamedData(name="input_factor"))
    faceted = by_model(chart.properties(height=PAIRED_HEIGHT), view.models, margin=50)
    description = f"{metric.label} of {' and '.join(methods)} with and without multiplication by the input."
    return faceted.resolve_scale(y="independent").resolve_axis(x="independent").properties(description=description)


def paired_figure(view: View, metric: MetricInfo) -> Figure:
    """The paper's figure: box plots of both variants of each method, pairs joined by lines, a panel per model."""
    rows = paired_rows(view).drop_nulls(metric.column)
    models = [model for model in view.models if model in set(rows["model"])]
    drawn, axes = panels(len(models), width=3.6, height=2.6, columns=2)
    for model, ax in zip(models, axes, strict=True):
        model_rows = rows.filter(pl.col("model") == model)
        methods = [method for method in paired_methods(view) if method in set(model_rows["method"])]
        for at, method in enumerate(methods):
            means = model_rows.filter(pl.col("method") == method).sort("pair", "local")[metric.column]
            pairs = means.to_numpy().reshape(-1, 2)
            places = [2.5 * at, 2.5 * at + 1]
            ax.plot(places, pairs.T, color="0.6", linewidth=0.6, zorder=1)
            draw_boxes(ax, pairs, (ORIENTED, LOCAL), positions=places, widths=0.5, alpha=0.7, zorder=2)
        places = [2.5 * at + side for at in range(len(methods)) for side in (0, 1)]
        words = [_side(method, local).replace(" ", "\n") for method in methods for local in (False, True)]
        ax.set_xticks(places, [plain(word) for word in words])
        ax.set(title=plain(model), ylabel=plain(metric.label))
    return drawn


def _side(method: str, local: bool) -> str:
    """A short name of a variant; its words stand below each other."""
    words = re.sub("(?<=[a-z])(?=[A-Z])", " ", abbreviation(method))
    return f"{words} alone" if local else f"{words} {TIMES}\N{NO-BREAK SPACE}input"
