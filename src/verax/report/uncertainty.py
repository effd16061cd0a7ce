"""Infidelity against the number of draws: its mean with error bars by method, and how its error falls."""

from typing import Any

import altair as alt
import polars as pl
from matplotlib.figure import Figure

from verax.attribution.names import method_colours
from verax.report.figure import legend, panels, plain
from verax.report.vega import by_model, scale_of, vega_lite
from verax.report.view import View

ERRORS = {"resampled_sd": "resampled", "analytic_se": "analytic", "independent_sd": "independent draws"}
# a resample that is the whole pool has no spread but rounding errors, which must not stretch the scale
DRAWN = "datum.size > 0 && !(datum.size < 0.001 * datum.analytic_se)"
_DASHES = {"resampled": [1, 0], "analytic": [5, 3], "independent draws": [1, 3]}


def columns(view: View) -> dict[str, list[Any]]:
    """The curves as the page's charts need them, with the ends of the error bars."""
    value, spread = pl.col("value"), pl.col("resampled_sd")
    frame = view.uncertainty.with_columns((value - spread).alias("low"), (value + spread).alias("high"))
    return frame.select("model", "name", "draws", "value", "low", "high", *ERRORS).to_dict(as_series=False)


def charts(view: View) -> dict[str, Any]:
    """Values with their resampled spread, and three kinds of error on logarithmic scales."""
    if not view.uncertainty.height:
        return {}
    return {"uncertainty-values": vega_lite(_values(view)), "uncertainty-errors": vega_lite(_errors(view))}


def _methods(view: View) -> list[str]:
    return [name for name in view.method_names if name in set(view.uncertainty["name"])]


def _models(view: View) -> list[str]:
    return [model for model in view.models if model in set(view.uncertainty["model"])]


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
        tooltip=[
            alt.Tooltip("name:N", title="method"),
            alt.Tooltip("draws:Q"),
            alt.Tooltip("value:Q", title="Infidelity", format=".4g"),
            alt.Tooltip("resampled_sd:Q", title="resampled sd", format=".2g"),
            alt.Tooltip("analytic_se:Q", title="analytic error", format=".2g"),
        ],
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
        tooltip=[
            alt.Tooltip("name:N", title="method"),
            alt.Tooltip("kind:N", title="error"),
            alt.Tooltip("draws:Q"),
            alt.Tooltip("size:Q", title="size", format=".3g"),
        ],
    )
    dashes = alt.StrokeDash("kind:N", title=None, scale=scale_of(_DASHES), legend=alt.Legend(orient="top"))
    lines = base.mark_line(strokeWidth=1.6, aria=False).encode(strokeDash=dashes)
    points = base.mark_point(size=24, filled=True, aria=False).properties(name="errors").add_params(_picked())
    chart = alt.layer(lines, points, data=alt.NamedData(name="uncertainty"))
    return _faceted(view, chart, 4).properties(
        description="Error of Infidelity against the number of draws on log scales, by method and kind of error."
    )


def _faceted(view: View, chart: Any, columns: int) -> Any:
    faceted = by_model(chart.properties(height=230), _models(view), margin=60, columns=columns)
    return faceted.resolve_scale(y="independent").resolve_axis(x="independent")


def figure(view: View) -> Figure:
    """The paper's figure: Infidelity, mean and standard deviation over resamples, against draws, by method."""
    models, names = _models(view), _methods(view)
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
