"""Scores over epsilon and over the number of draws: how a metric's judgement changes with its settings."""

from typing import Any

import altair as alt
import polars as pl
from matplotlib.figure import Figure

from verax.attribution.names import label_of, method_colours
from verax.report.plots import legend, panels, plain
from verax.report.vega import by_model, scale_of, tooltips, vega_lite
from verax.report.view import View, present
from verax.study.tables import MetricInfo

FEWEST = 3  # columns that differ in epsilon alone: two points are no curve
_VALUE = "score / epsilon"


def epsilon_series(view: View) -> list[MetricInfo]:
    """The metrics of the first series that is long enough, by ascending epsilon; none where there is no such one."""
    alike: dict[str, list[MetricInfo]] = {}
    for metric in view.measured:
        if metric.epsilon is not None:
            alike.setdefault(metric.series, []).append(metric)
    series = next((metrics for metrics in alike.values() if len(metrics) >= FEWEST), [])
    return sorted(series, key=lambda metric: metric.epsilon or 0.0)


def epsilon_points(view: View) -> pl.DataFrame:
    """One row per model, method with its variant, and epsilon: the median over configurations, divided by epsilon."""
    frames = [
        view.boxes(metric).select(
            "model",
            pl.struct("method", "local").map_elements(lambda v: label_of(**v), return_dtype=pl.String).alias("label"),
            pl.lit(metric.epsilon).alias("epsilon"),
            (pl.col("median") / metric.epsilon).alias("value"),
        )
        for metric in epsilon_series(view)
    ]
    schema = {"model": pl.String(), "label": pl.String(), "epsilon": pl.Float64(), "value": pl.Float64()}
    return pl.concat(frames) if frames else pl.DataFrame(schema=schema)


def epsilon_columns(view: View) -> dict[str, list[Any]]:
    return epsilon_points(view).to_dict(as_series=False)


def epsilon_charts(view: View) -> dict[str, Any]:
    if not epsilon_series(view):
        return {}
    points = epsilon_points(view)
    labels = present(view.labels, points["label"])
    ticks = alt.Axis(values=sorted(set(points["epsilon"])), grid=False)
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
    faceted = by_model(layers.properties(height=230), present(view.models, points["model"]), margin=60, columns=2)
    described = (
        faceted.resolve_scale(y="independent")
        .resolve_axis(x="independent")
        .properties(description="Score divided by epsilon against epsilon, by method, one panel per model.")
    )
    return {"epsilon": vega_lite(described)}


def epsilon_figure(view: View) -> Figure:
    points = epsilon_points(view)
    models, labels = present(view.models, points["model"]), present(view.labels, points["label"])
    drawn, axes = panels(len(models), width=4.4, height=2.8, columns=2)
    for model, ax in zip(models, axes, strict=True):
        for label, colour in zip(labels, method_colours(labels), strict=True):
            line = points.filter(pl.col("model") == model, pl.col("label") == label)
            ax.plot(line["epsilon"], line["value"], color=colour, linewidth=1.2, marker=".", label=plain(label))
        ax.set_xscale("log")
        ax.set(title=plain(model), xlabel="epsilon", ylabel=_VALUE)
    legend(drawn, axes, columns=4)
    return drawn


ERRORS = {"resampled_sd": "resampled", "analytic_se": "analytic", "independent_sd": "independent draws"}
# a resample that is the whole pool has no spread but rounding errors, which must not stretch the scale
DRAWN = "datum.size > 0 && !(datum.size < 0.001 * datum.analytic_se)"
_WHERE = (("name", "method", ""), ("draws", "draws", "d"))  # in tooltips
_DASHES = {"resampled": [1, 0], "analytic": [5, 3], "independent draws": [1, 3]}


def uncertainty_columns(view: View) -> dict[str, list[Any]]:
    value, spread = pl.col("value"), pl.col("resampled_sd")
    frame = view.uncertainty.with_columns((value - spread).alias("low"), (value + spread).alias("high"))
    return frame.select("model", "name", "draws", "value", "low", "high", *ERRORS).to_dict(as_series=False)


def uncertainty_charts(view: View) -> dict[str, Any]:
    """Values with their resampled spread, and three kinds of error on logarithmic scales."""
    if not view.uncertainty.height:
        return {}
    return {"uncertainty-values": vega_lite(_values(view)), "uncertainty-errors": vega_lite(_errors(view))}


def _methods(view: View) -> list[str]:
    return present(view.method_names, view.uncertainty["name"])


def _colour(view: View) -> Any:
    names = _methods(view)
    scale = alt.Scale(domain=names, range=method_colours(names))
    return alt.Color("name:N", title=None, scale=scale, legend=alt.Legend(orient="top", columns=9, symbolType="circle"))


def _picked() -> Any:
    """A method that the reader picks in the legend."""
    return alt.selection_point(name="picked", fields=["name"], bind="legend")


def _faded(opacity: float) -> Any:
    """Full strength for what is picked, or for everything where nothing is."""
    return alt.when(_picked()).then(alt.value(opacity)).otherwise(alt.value(0.1))


def _values(view: View) -> Any:
    base = alt.Chart().encode(
        x=alt.X("draws:O", title="draws per input", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("name:N", sort=_methods(view)),
        color=_colour(view),
        opacity=_faded(1.0),
    )
    ticks = alt.Axis(format=".2~e", tickCount=6)
    room = alt.Scale(nice=False, padding=8)  # a number beside the upper edge would push the heading up
    value = alt.Y("value:Q", title="Infidelity, mean ± sd", axis=ticks, scale=room)
    bars = base.mark_rule(strokeWidth=2, aria=False)
    bars = bars.encode(y=alt.Y("low:Q", title="Infidelity, mean ± sd", axis=ticks, scale=room), y2="high:Q")
    points = base.mark_circle(size=26, aria=False).encode(
        y=value,
        tooltip=tooltips(
            *_WHERE,
            ("value", "Infidelity", ".4g"),
            ("resampled_sd", "resampled sd", ".2g"),
            ("analytic_se", "analytic error", ".2g"),
        ),
    )
    points = points.properties(name="values").add_params(_picked())
    return _faceted(view, alt.layer(bars, points, data=alt.NamedData(name="uncertainty")), 2).properties(
        description="Infidelity with its resampled standard deviation against the number of draws, by method."
    )


def _errors(view: View) -> Any:
    base = alt.Chart().transform_fold(list(ERRORS), as_=["error", "size"]).transform_filter(DRAWN)
    base = base.transform_calculate(kind=f"({ERRORS!r})[datum.error]")
    ticks = alt.Axis(values=sorted(set(view.uncertainty["draws"])), grid=False)
    base = base.encode(
        x=alt.X("draws:Q", title="draws per input", scale=alt.Scale(type="log", base=2, nice=False), axis=ticks),
        y=alt.Y(
            "size:Q",
            title="error of the mean",
            scale=alt.Scale(type="log", nice=False, padding=8),
            axis=alt.Axis(format="~e", tickCount=4, grid=False),
        ),
        color=_colour(view),
        opacity=_faded(0.9),
        tooltip=tooltips(*_WHERE, ("kind", "error", ""), ("size", "size", ".3g")),
    )
    dashes = alt.StrokeDash("kind:N", title=None, scale=scale_of(_DASHES), legend=alt.Legend(orient="top"))
    lines = base.mark_line(strokeWidth=1.6, aria=False).encode(strokeDash=dashes)
    points = base.mark_point(size=24, filled=True, aria=False).properties(name="errors").add_params(_picked())
    chart = alt.layer(lines, points, data=alt.NamedData(name="uncertainty"))
    return _faceted(view, chart, 4).properties(
        description="Error of Infidelity against the number of draws on log scales, by method and kind of error."
    )


def _faceted(view: View, chart: Any, columns: int) -> Any:
    faceted = by_model(
        chart.properties(height=230), present(view.models, view.uncertainty["model"]), margin=60, columns=columns
    )
    return faceted.resolve_scale(y="independent").resolve_axis(x="independent")


def uncertainty_figure(view: View) -> Figure:
    """The paper's figure: Infidelity, mean and standard deviation over resamples, against draws, by method."""
    models, names = present(view.models, view.uncertainty["model"]), _methods(view)
    drawn, axes = panels(len(models), width=4.4, height=2.8, columns=2)
    for model, ax in zip(models, axes, strict=True):
        for name, colour in zip(names, method_colours(names), strict=True):
            curve = view.uncertainty.filter(pl.col("model") == model, pl.col("name") == name).sort("draws")
            low, high = curve["value"] - curve["resampled_sd"], curve["value"] + curve["resampled_sd"]
            ax.plot(curve["draws"], curve["value"], color=colour, linewidth=1.2, marker=".", label=plain(name))
            ax.fill_between(curve["draws"], low, high, color=colour, alpha=0.15, linewidth=0)
        draws = sorted(set(view.uncertainty["draws"]))
        ax.set_xscale("log", base=2)
        ax.set_xticks(draws, [str(count) for count in draws])
        ax.set(title=plain(model), xlabel="draws per input", ylabel="Infidelity, mean ± sd")
        ax.ticklabel_format(axis="y", style="sci", scilimits=(-3, 4))
    legend(drawn, axes, columns=5)
    return drawn
