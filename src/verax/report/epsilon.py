"""Scores over epsilon: how a metric's judgement changes as its perturbations reach further from the input.

Scores shrink with epsilon, so that they are divided by it: a line that is flat says that the score changes along a
straight line as far as that, and where lines cross, methods change places.
"""

from typing import Any

import altair as alt
import polars as pl
from matplotlib.figure import Figure

from verax.attribution.names import label_of, method_colours
from verax.report.figure import legend, panels, plain
from verax.report.vega import by_model, tooltips, vega_lite
from verax.report.view import View
from verax.study.tables import MetricInfo

FEWEST = 3  # columns that differ in epsilon alone: two points are no curve
_VALUE = "score / epsilon"


def series(view: View) -> list[MetricInfo]:
    """The metrics of the first series that is long enough, by ascending epsilon; none where there is no such one."""
    alike: dict[str, list[MetricInfo]] = {}
    for metric in view.measured:
        if metric.epsilon is not None:
            alike.setdefault(metric.series, []).append(metric)
    found = next((metrics for metrics in alike.values() if len(metrics) >= FEWEST), [])
    return sorted(found, key=lambda metric: metric.epsilon or 0.0)


def points(view: View) -> pl.DataFrame:
    """One row per model, method with its variant, and epsilon: the median over configurations, divided by epsilon."""
    frames = [
        view.boxes(metric).select(
            "model",
            pl.struct("method", "local").map_elements(lambda v: label_of(**v), return_dtype=pl.String).alias("label"),
            pl.lit(metric.epsilon).alias("epsilon"),
            (pl.col("median") / metric.epsilon).alias("value"),
        )
        for metric in series(view)
    ]
    schema = {"model": pl.String(), "label": pl.String(), "epsilon": pl.Float64(), "value": pl.Float64()}
    return pl.concat(frames) if frames else pl.DataFrame(schema=schema)


def columns(view: View) -> dict[str, list[Any]]:
    """The points as the page's chart needs them."""
    return points(view).to_dict(as_series=False)


def charts(view: View) -> dict[str, Any]:
    """One line per method, a panel per model."""
    if not series(view):
        return {}
    found = points(view)
    labels = [label for label in view.labels if label in set(found["label"])]
    ticks = alt.Axis(values=sorted(set(found["epsilon"])), grid=False)
    base = alt.Chart().encode(
        x=alt.X("epsilon:Q", scale=alt.Scale(type="log", nice=False), axis=ticks),
        y=alt.Y("value:Q", title=_VALUE, axis=alt.Axis(format="~g", tickCount=5)),
        color=alt.Color(
            "label:N",
            title=None,
            scale=alt.Scale(domain=labels, range=method_colours(labels)),
            legend=alt.Legend(orient="top", columns=6, symbolType="circle"),
        ),
        tooltip=tooltips("label", ("epsilon", "epsilon", "~g"), ("value", _VALUE, ".4g")),
    )
    layers = alt.layer(
        base.mark_line(strokeWidth=1.6, aria=False),
        base.mark_circle(size=28, aria=False),
        data=alt.NamedData(name="epsilon"),
    )
    faceted = by_model(layers.properties(height=230), _models(view, found), margin=60, columns=2)
    described = (
        faceted.resolve_scale(y="independent")
        .resolve_axis(x="independent")
        .properties(description="Score divided by epsilon against epsilon, by method, one panel per model.")
    )
    return {"epsilon": vega_lite(described)}


def figure(view: View) -> Figure:
    """The same as a figure."""
    found = points(view)
    models, labels = _models(view, found), [label for label in view.labels if label in set(found["label"])]
    drawn, axes = panels(len(models), width=4.4, height=2.8, columns=2)
    for model, ax in zip(models, axes, strict=True):
        for label, colour in zip(labels, method_colours(labels), strict=True):
            line = found.filter(pl.col("model") == model, pl.col("label") == label)
            ax.plot(line["epsilon"], line["value"], color=colour, linewidth=1.2, marker=".", label=plain(label))
        ax.set_xscale("log")
        ax.set(title=plain(model), xlabel="epsilon", ylabel=_VALUE)
    legend(drawn, axes, columns=4)
    return drawn


def _models(view: View, found: pl.DataFrame) -> list[str]:
    return [model for model in view.models if model in set(found["model"])]
