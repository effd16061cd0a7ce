"""Integrated Gradients and DeepLiftSHAP with and without multiplication by the input: the same settings, joined."""

import re
from typing import Any

import altair as alt
import polars as pl
from matplotlib.figure import Figure

from verax.attribution.names import LOCAL, ORIENTED, TIMES, abbreviation
from verax.report.boxes import draw_boxes
from verax.report.figure import panels, plain
from verax.report.style import KIND_COLOURS
from verax.report.vega import axis_title, by_model, metric_chart, scale_of, tooltips, vega_lite
from verax.report.view import View
from verax.study.tables import MetricInfo

HEIGHT = 190


def paired_rows(view: View) -> pl.DataFrame:
    """Configurations that exist both with and without multiplication by the input."""
    both = pl.col("local").n_unique().over("model", "method", "pair") == 2
    return view.rows.filter(both).with_columns(
        pl.struct("method", "local").map_elements(lambda v: _side(**v), return_dtype=pl.String).alias("side")
    )


def paired_methods(view: View) -> list[str]:
    """Methods that have such pairs."""
    return sorted(paired_rows(view)["method"].unique())


def charts(view: View) -> dict[str, Any]:
    """The main metrics of every pair, a panel per model."""
    if not paired_methods(view):
        return {}
    return {
        f"input-factor-{metric.column}": vega_lite(_chart(view, metric), metric=metric.column) for metric in view.main
    }


def _chart(view: View, metric: MetricInfo) -> Any:
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
    faceted = by_model(chart.properties(height=HEIGHT), view.models, margin=50)
    description = f"{metric.label} of {' and '.join(methods)} with and without multiplication by the input."
    return faceted.resolve_scale(y="independent").resolve_axis(x="independent").properties(description=description)


def figure(view: View, metric: MetricInfo) -> Figure:
    """The paper's figure: box plots of both variants of each method, pairs joined by lines, a panel per model."""
    rows = paired_rows(view).drop_nulls(metric.column)
    models = [model for model in view.models if model in set(rows["model"])]
    drawn, axes = panels(len(models), width=3.6, height=2.6, columns=2)
    for model, ax in zip(models, axes, strict=True):
        own = rows.filter(pl.col("model") == model)
        methods = [method for method in paired_methods(view) if method in set(own["method"])]
        for at, method in enumerate(methods):
            means = own.filter(pl.col("method") == method).sort("pair", "local")[metric.column]
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
