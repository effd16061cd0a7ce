"""Scores of configurations: a box per method, pairs with and without the input as factor, Infidelity against DPC."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from verax.attribution.names import KINDS, LOCAL, ORIENTED, TIMES, abbreviation, method_colours
from verax.core.palette import GREY, PURPLE, VERMILION
from verax.report.html import signed
from verax.report.plots import legend, panels, plain
from verax.report.vega import KIND_COLOURS, axis_title, by_model, metric_chart, scale_of, tooltips, vega_lite
from verax.report.view import View, present
from verax.study.tables import MetricInfo

STEP = 23  # height of one method


def box_charts(view: View) -> dict[str, Any]:
    shown: list[tuple[str, str | None, MetricInfo]] = [(each.column, axis_title(each), each) for each in view.main]
    shown += [("other", None, metric) for metric in other_metrics(view)[:1]]
    return {f"boxes-{name}": vega_lite(_box_chart(view, title), metric=metric.column) for name, title, metric in shown}


def other_metrics(view: View) -> list[MetricInfo]:
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


def box_figure(view: View, metric: MetricInfo) -> Figure:
    column = metric.column
    measured = view.rows.drop_nulls(column)
    models = present(view.models, measured["model"])
    drawn, axes = panels(len(models), width=5.2, height=0.6 + 0.27 * len(view.labels), columns=2)
    for model, ax in zip(models, axes, strict=True):
        rows = measured.filter(pl.col("model") == model)
        labels = present(view.labels, rows["label"])
        groups = {label: rows.filter(pl.col("label") == label) for label in labels}
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
    return sorted(paired_rows(view)["method"].unique())


def paired_charts(view: View) -> dict[str, Any]:
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
    models = present(view.models, rows["model"])
    drawn, axes = panels(len(models), width=3.6, height=2.6, columns=2)
    for model, ax in zip(models, axes, strict=True):
        model_rows = rows.filter(pl.col("model") == model)
        methods = present(paired_methods(view), model_rows["method"])
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
    words = re.sub("(?<=[a-z])(?=[A-Z])", " ", abbreviation(method))
    return f"{words} alone" if local else f"{words} {TIMES}\N{NO-BREAK SPACE}input"


SCATTER_SIZE = (480, 380)
SETTING = "setting "  # before the names of LIME's settings, which could be those of other columns
_SHAPES = {KINDS[0]: "circle", KINDS[1]: "square", KINDS[2]: "triangle-up"}


def scatter_charts(view: View) -> dict[str, Any]:
    charts = {}
    if scatter_models(view, lime=True):
        colour = next(iter(colourings(view)))
        charts["scatter-lime"] = vega_lite(_lime(view), **_choices(view, lime=True), colour=colour)
    if scatter_models(view, lime=False):
        charts["scatter-others"] = vega_lite(_others(view), **_choices(view, lime=False))
    return charts


def colourings(view: View) -> dict[str, str]:
    """By what LIME's points can be coloured: column of the page's table, and name of the setting."""
    return {SETTING + name: name for name in view.settings} or {"name": "method"}


def scatter_models(view: View, lime: bool) -> list[str]:
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
    dpc, infidelity = (view.tables.metric(column).label for column in view.pair)
    return dpc, infidelity


def _choices(view: View, lime: bool) -> dict[str, Any]:
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
    return chart.properties(title=shown, width=SCATTER_SIZE[0], height=SCATTER_SIZE[1], description=description)


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


def scatter_figure(view: View, lime: bool) -> Figure:
    """The paper's scatter: Infidelity to the right, DPC up, a panel per model; LIME's Pareto set is marked."""
    shown = scatter_models(view, lime)
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
            names = present(view.method_names, rows["name"])
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
