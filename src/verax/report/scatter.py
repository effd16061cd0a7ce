"""Infidelity against DPC: LIME's grid with its Pareto set and near-zero attributions, and all other methods."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl
from matplotlib.figure import Figure

from verax.attribution.names import KINDS, method_colours
from verax.core.palette import GREY, PURPLE, VERMILION
from verax.report.html import signed
from verax.report.plots import legend, panels, plain
from verax.report.vega import scale_of, tooltips, vega_lite
from verax.report.view import View

SIZE = (480, 380)
SETTING = "setting "  # before the names of LIME's settings, which could be those of other columns
_SHAPES = {KINDS[0]: "circle", KINDS[1]: "square", KINDS[2]: "triangle-up"}


def charts(view: View) -> dict[str, Any]:
    """LIME's grid and the other methods, each for the model that the reader chooses."""
    charts = {}
    if models(view, lime=True):
        colour = next(iter(colourings(view)))
        charts["scatter-lime"] = vega_lite(_lime(view), **_choices(view, lime=True), colour=colour)
    if models(view, lime=False):
        charts["scatter-others"] = vega_lite(_others(view), **_choices(view, lime=False))
    return charts


def colourings(view: View) -> dict[str, str]:
    """By what LIME's points can be coloured: column of the page's table, and name of the setting."""
    return {SETTING + name: name for name in view.settings} or {"name": "method"}


def models(view: View, lime: bool) -> list[str]:
    """Models that have both metrics for LIME, or for the other methods."""
    return [model for model in view.models if view.comparable(model, lime).height]


def _axes(view: View) -> Mapping[str, Any]:
    scale = alt.Scale(zero=False)
    dpc, infidelity = view.pair
    good, bad = _names(view)
    return {
        "x": alt.X(f"{infidelity}:Q", title=f"better ← {bad}", scale=scale, axis=alt.Axis(format=".3~e", tickCount=6)),
        "y": alt.Y(f"{dpc}:Q", title=f"{good} → better", scale=scale, axis=alt.Axis(format="~g", tickCount=6)),
        "tooltip": tooltips(
            "configuration",
            (dpc, good, ".4g"),
            (infidelity, bad, ".4g"),
            (f"{infidelity}_mc_error", "its Monte-Carlo error", ".2g"),
            ("attribution_norm", "norm of the attribution", ".3g"),
        ),
    }


def _names(view: View) -> tuple[str, str]:
    """What people read for DPC and Infidelity, which both were measured."""
    dpc, infidelity = (view.tables.metric(column).label for column in view.pair)
    return dpc, infidelity


def _choices(view: View, lime: bool) -> dict[str, Any]:
    """The model to begin with, and the titles that follow the choice."""
    return {"model": view.models[0], "titles": {model: _title(view, model, lime) for model in view.models}}


def _title(view: View, model: str, lime: bool) -> list[str]:
    """What the scatter of a model shows, in numbers, and how many of LIME's configurations stand out."""
    title, agreement = f"{model}: too few configurations to compare", view.agreements.get((model, lime))
    if agreement is not None:
        spearman = agreement.spearman
        ends = f"{signed(spearman.low)} to {signed(spearman.high)}"
        interval = f"Spearman {signed(spearman.mean)} (95 % interval {ends})"
        ties = f", {max(agreement.ties)} of them tied" if max(agreement.ties) else ""
        title = f"{model}: {interval}, {agreement.configurations} configurations{ties}"
    if not lime:
        return [title, "References are shown but not ranked"]
    best, nothing = (rows.filter(pl.col("model") == model).height for rows in (view.pareto_set, view.near_zero))
    return [title, f"{best} in the Pareto set; {nothing} with attributions near zero"]


def _titled(chart: Any, description: str) -> Any:
    shown = alt.Title(text=alt.ExprRef("titles[model]"), fontSize=12, fontWeight="normal")
    return chart.properties(title=shown, width=SIZE[0], height=SIZE[1], description=description)


def _lime(view: View) -> Any:
    dpc, infidelity = view.pair
    states = {"Pareto set": "diamond", "near zero": "cross", "others": "circle"}
    base = alt.Chart(alt.NamedData(name="configurations"))
    base = base.transform_filter(
        f"datum.model == model && datum.lime && isValid(datum.{infidelity})"
    ).transform_calculate(
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
            scale=scale_of(states),
            legend=_legend(symbolFillColor="currentColor", symbolStrokeWidth=0),
        ),
        size=alt.Size("size:Q", scale=None),
        **_axes(view),
    )
    best = base.transform_filter("datum.pareto").mark_line(
        interpolate="step-after", color=VERMILION, strokeWidth=1.5, point=False, aria=False
    )
    best = best.encode(x=f"{infidelity}:Q", y=f"{dpc}:Q", order=f"{infidelity}:Q")
    chart = alt.layer(best, points)
    return _titled(chart, "Scatter of Infidelity against DPC over LIME's configurations, Pareto set marked.")


def _legend(**more: Any) -> alt.Legend:
    return alt.Legend(orient="bottom", columns=4, **more)


def _others(view: View) -> Any:
    names = [name for name in view.method_names if name != "LIME"]
    colours = alt.Scale(domain=names, range=method_colours(names))
    chart = (
        alt.Chart(alt.NamedData(name="configurations"))
        .transform_filter(f"datum.model == model && !datum.lime && isValid(datum.{view.pair[1]})")
        .mark_point(size=55, filled=True, opacity=0.85, aria=False)
        .encode(
            color=alt.Color("name:N", title=None, scale=colours, legend=_legend(symbolType="circle")),
            shape=alt.Shape(
                "kind:N", title=None, scale=scale_of(_SHAPES), legend=_legend(symbolFillColor="currentColor")
            ),
            **_axes(view),
        )
    )
    return _titled(chart, "Scatter of Infidelity against DPC over the configurations of all methods but LIME.")


def figure(view: View, lime: bool) -> Figure:
    """The paper's scatter: Infidelity to the right, DPC up, a panel per model; LIME's Pareto set is marked."""
    shown = models(view, lime)
    (dpc, infidelity), (good, bad) = view.pair, _names(view)
    drawn, axes = panels(len(shown), width=3.6, height=2.9, columns=2)
    for model, ax in zip(shown, axes, strict=True):
        rows = view.comparable(model, lime)
        if lime:
            usual = rows.filter(~pl.col("pareto"), ~pl.col("near_zero"))
            nothing, best = rows.filter(pl.col("near_zero")), rows.filter(pl.col("pareto")).sort(infidelity)
            ax.scatter(usual[infidelity], usual[dpc], s=5, color=GREY, alpha=0.6, label="configurations")
            ax.scatter(nothing[infidelity], nothing[dpc], s=12, marker="x", color=PURPLE, label="near zero")
            ax.scatter(best[infidelity], best[dpc], s=18, marker="D", color=VERMILION, label="Pareto set")
        else:
            names = [name for name in view.method_names if name in set(rows["name"])]
            for name, colour in zip(names, method_colours(names), strict=True):
                part = rows.filter(pl.col("name") == name)
                ax.scatter(part[infidelity], part[dpc], s=12, color=colour, label=plain(name))
        agreement = view.agreements.get((model, lime))
        ending = f", Spearman {signed(agreement.spearman.mean)}" if agreement else ""
        ax.set(title=plain(model) + ending, xlabel=bad, ylabel=good)
        ax.locator_params(axis="x", nbins=5)  # long numbers would run into each other
        ax.ticklabel_format(axis="both", style="sci", scilimits=(-3, 4))
    legend(drawn, axes, columns=5)
    return drawn
