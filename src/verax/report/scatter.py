"""Infidelity against DPC: LIME's grid with its Pareto set and near-zero attributions, and all other methods."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl
from matplotlib.figure import Figure

from verax.report.draw import legend_below, panels, plain
from verax.report.names import KINDS, METRIC_NAMES
from verax.report.spec import spec
from verax.report.style import GREY, PURPLE, VERMILION, method_colours, signed
from verax.report.view import View

SIZE = (480, 380)
SETTING = "setting "  # before the names of LIME's settings, which could be those of other columns
_SHAPES = {KINDS[0]: "circle", KINDS[1]: "square", KINDS[2]: "triangle-up"}


def charts(view: View) -> dict[str, Any]:
    """LIME's grid and the other methods, each for the model that the reader chooses."""
    found = {}
    if models(view, lime=True):
        found["scatter-lime"] = spec(_lime(view), **_choices(view, lime=True), colour=next(iter(colourings(view))))
    if models(view, lime=False):
        found["scatter-others"] = spec(_others(view), **_choices(view, lime=False))
    return found


def colourings(view: View) -> dict[str, str]:
    """By what LIME's points can be coloured: column of the page's table, and name of the setting."""
    names = [name for name in view.settings.columns if name not in ("model", "configuration")]
    return {SETTING + name: name for name in names} or {"name": "method"}


def title(view: View, model: str, lime: bool) -> str:
    """What the scatter of a model shows, in numbers."""
    found = view.agreements.get((model, lime))
    if found is None:
        return f"{model}: too few configurations to compare"
    text = f"{model}: Spearman {signed(found.spearman)} (95 % interval {signed(found.low)} to {signed(found.high)})"
    return f"{text}, {found.configurations} configurations"


def subtitle(view: View, model: str) -> str:
    """How many of LIME's configurations stand out."""
    best = view.pareto_set.filter(pl.col("model") == model).height
    nothing = view.near_zero.filter(pl.col("model") == model).height
    return f"{best} in the Pareto set; {nothing} with attributions near zero"


def models(view: View, lime: bool) -> list[str]:
    """Models that have both metrics for LIME, or for the other methods."""
    rows = _comparable(view).filter(pl.col("lime") == lime)
    return [model for model in view.models if model in set(rows["model"])]


def _comparable(view: View) -> pl.DataFrame:
    return view.rows.filter(pl.col("dpc_magnitude").is_not_null(), pl.col("infidelity").is_not_null())


def _axes() -> Mapping[str, Any]:
    return {
        "x": alt.X("infidelity:Q", title="better ← Infidelity", scale=alt.Scale(zero=False), axis=_ticks(".3~e")),
        "y": alt.Y("dpc_magnitude:Q", title="DPC → better", scale=alt.Scale(zero=False), axis=_ticks("~g")),
        "tooltip": [
            alt.Tooltip("configuration:N"),
            alt.Tooltip("dpc_magnitude:Q", title="DPC", format=".4g"),
            alt.Tooltip("infidelity:Q", title="Infidelity", format=".4g"),
            alt.Tooltip("infidelity_mc_error:Q", title="its Monte-Carlo error", format=".2g"),
            alt.Tooltip("attribution_norm:Q", title="norm of the attribution", format=".3g"),
        ],
    }


def _ticks(form: str) -> alt.Axis:
    return alt.Axis(format=form, tickCount=6)


def _choices(view: View, lime: bool) -> dict[str, Any]:
    """The model to begin with, and the titles that follow the choice."""
    without = "Random and Edges are shown but not ranked"
    titles = {model: [title(view, model, lime), subtitle(view, model) if lime else without] for model in view.models}
    return {"model": view.models[0], "titles": titles}


def _titled(chart: Any, description: str) -> Any:
    shown = alt.Title(text=alt.ExprRef("titles[model]"), fontSize=12, fontWeight="normal")
    return chart.properties(title=shown, width=SIZE[0], height=SIZE[1], description=description)


def _lime(view: View) -> Any:
    states = {"Pareto set": "diamond", "near zero": "cross", "others": "circle"}
    base = alt.Chart(alt.NamedData(name="configurations"))
    base = base.transform_filter("datum.model == model && datum.lime && isValid(datum.infidelity)").transform_calculate(
        coloured="isValid(datum[colour]) ? datum[colour] : 'none'",
        state="datum.pareto ? 'Pareto set' : datum.near_zero ? 'near zero' : 'others'",
        size="datum.pareto ? 110 : datum.near_zero ? 40 : 22",
    )
    colours = alt.Scale(scheme=alt.SchemeParams(name="viridis", extent=[0.15, 0.9]))
    points = base.mark_point(filled=True, opacity=0.75, aria=False).encode(
        color=alt.Color("coloured:O", title=None, scale=colours, legend=_legend(symbolType="circle")),
        shape=alt.Shape(
            "state:N",
            title=None,
            scale=alt.Scale(domain=list(states), range=list(states.values())),
            legend=_legend(symbolFillColor="currentColor", symbolStrokeWidth=0),
        ),
        size=alt.Size("size:Q", scale=None),
        **_axes(),
    )
    best = base.transform_filter("datum.pareto").mark_line(
        interpolate="step-after", color=VERMILION, strokeWidth=1.5, point=False, aria=False
    )
    best = best.encode(x="infidelity:Q", y="dpc_magnitude:Q", order="infidelity:Q")
    chart = alt.layer(best, points)
    return _titled(chart, "Scatter of Infidelity against DPC over LIME's configurations, Pareto set marked.")


def _legend(**more: Any) -> alt.Legend:
    return alt.Legend(orient="bottom", columns=4, **more)


def _others(view: View) -> Any:
    names = [name for name in view.method_names if name != "LIME"]
    colours = alt.Scale(domain=names, range=method_colours(names))
    shapes = alt.Scale(domain=list(_SHAPES), range=list(_SHAPES.values()))
    chart = (
        alt.Chart(alt.NamedData(name="configurations"))
        .transform_filter("datum.model == model && !datum.lime && isValid(datum.infidelity)")
        .mark_point(size=55, filled=True, opacity=0.85, aria=False)
        .encode(
            color=alt.Color("name:N", title=None, scale=colours, legend=_legend(symbolType="circle")),
            shape=alt.Shape("kind:N", title=None, scale=shapes, legend=_legend(symbolFillColor="currentColor")),
            **_axes(),
        )
    )
    return _titled(chart, "Scatter of Infidelity against DPC over the configurations of all methods but LIME.")


def figure(view: View, lime: bool) -> Figure:
    """The paper's scatter: Infidelity to the right, DPC up, a panel per model; LIME's Pareto set is marked."""
    shown = models(view, lime)
    drawn, axes = panels(len(shown), width=3.6, height=2.9)
    for model, ax in zip(shown, axes, strict=True):
        own = _comparable(view).filter(pl.col("model") == model, pl.col("lime") == lime)
        if lime:
            _draw_lime(ax, own)
        else:
            names = [name for name in view.method_names if name in set(own["name"])]
            for name, colour in zip(names, method_colours(names), strict=True):
                part = own.filter(pl.col("name") == name)
                ax.scatter(part["infidelity"], part["dpc_magnitude"], s=12, color=colour, label=plain(name))
        found = view.agreements.get((model, lime))
        ending = f", Spearman {signed(found.spearman)}" if found else ""
        ax.set(title=plain(model) + ending, xlabel=METRIC_NAMES["infidelity"], ylabel=METRIC_NAMES["dpc_magnitude"])
        ax.ticklabel_format(axis="both", style="sci", scilimits=(-3, 4))
    legend_below(drawn, axes)
    return drawn


def _draw_lime(ax: Any, own: pl.DataFrame) -> None:
    usual = own.filter(~pl.col("pareto"), ~pl.col("near_zero"))
    nothing, best = own.filter(pl.col("near_zero")), own.filter(pl.col("pareto")).sort("infidelity")
    ax.scatter(usual["infidelity"], usual["dpc_magnitude"], s=5, color=GREY, alpha=0.6, label="configurations")
    ax.scatter(nothing["infidelity"], nothing["dpc_magnitude"], s=12, marker="x", color=PURPLE, label="near zero")
    ax.scatter(best["infidelity"], best["dpc_magnitude"], s=18, marker="D", color=VERMILION, label="Pareto set")
