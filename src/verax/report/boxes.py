"""Scores by method: one box per method over its configurations, whiskers at the extremes, one column per model."""

from typing import Any

import altair as alt
from matplotlib.figure import Figure

from verax.report.draw import panels, plain
from verax.report.names import KINDS, METRIC_NAMES
from verax.report.spec import by_model, spec
from verax.report.style import KIND_COLOURS
from verax.report.view import View

STEP = 23  # height of one method


def charts(view: View) -> dict[str, Any]:
    """PC and DPC by method, and a chart of the metric that the reader chooses."""
    shown = [metric for metric in ("pc", "dpc_magnitude") if view.measured(metric)]
    found = {f"boxes-{metric}": spec(_chart(view, metric)) for metric in shown}
    others = other_metrics(view)
    if others:
        found["boxes-other"] = spec(_chart(view, "chosen"), metric=others[0])
    return found


def other_metrics(view: View) -> list[str]:
    """Metrics beside PC and DPC that the study has."""
    return [name for name in METRIC_NAMES if name not in ("pc", "dpc_magnitude") and view.measured(name)]


def _chart(view: View, metric: str) -> Any:
    base = alt.Chart()
    if metric == "chosen":
        base = base.transform_calculate(chosen="datum[metric]", chosen_error="datum[metric + '_error']")
    base = base.transform_filter(f"isValid(datum.{metric})")
    colour = alt.Color("kind:N", title=None, scale=_kinds(), legend=alt.Legend(orient="top", symbolType="square"))
    title = METRIC_NAMES.get(metric)
    where = base.encode(
        x=alt.X(
            f"{metric}:Q",
            title=title and f"{title} → better",
            axis=alt.Axis(tickCount=4, format="~g", labelSeparation=6),
        ),
        y=alt.Y("label:N", sort=view.labels, title=None),
        color=colour,
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
        tooltip=[
            alt.Tooltip("configuration:N", title="configuration"),
            alt.Tooltip(f"{metric}:Q", title=title or "mean", format=".4g"),
            alt.Tooltip(f"{metric}_error:Q", title="standard error", format=".2g"),
        ],
    )
    random = base.transform_filter("datum.method == 'Random'").mark_rule(strokeDash=[4, 3], opacity=0.8, aria=False)
    layers = alt.layer(box, random.encode(x=f"mean({metric}):Q"), points)
    chart = alt.layer(*layers.layer, data=alt.NamedData(name="configurations"))
    faceted = by_model(chart.properties(height=STEP * len(view.labels)), view.models, margin=30)
    return faceted.resolve_scale(x="independent").properties(
        description=f"{title or 'The chosen metric'} by method, one panel per model."
    )


def _kinds() -> alt.Scale:
    return alt.Scale(domain=list(KINDS), range=[KIND_COLOURS[kind] for kind in KINDS])


def figure(view: View, metric: str) -> Figure:
    """The paper's figure of one metric: box plots by method, a panel per model, random as a dashed line."""
    models = [model for model in view.models if view.measured(metric, model)]
    drawn, axes = panels(len(models), width=5.2, height=0.6 + 0.27 * len(view.labels))
    for model, ax in zip(models, axes, strict=True):
        own = [row for row in view.rows.iter_rows(named=True) if row["model"] == model and row[metric] is not None]
        labels = [label for label in view.labels if any(row["label"] == label for row in own)]
        values = [[row[metric] for row in own if row["label"] == label] for label in labels]
        kinds = [next(row["kind"] for row in own if row["label"] == label) for label in labels]
        parts = ax.boxplot(values, orientation="horizontal", whis=(0, 100), widths=0.55, patch_artist=True)
        for patch, kind in zip(parts["boxes"], kinds, strict=True):
            patch.set(facecolor=KIND_COLOURS[kind], alpha=0.6, edgecolor=KIND_COLOURS[kind])
        for line in parts["medians"]:
            line.set(color="black")
        random = [row[metric] for row in own if row["method"] == "Random"]
        if random:
            ax.axvline(sum(random) / len(random), color="0.4", linestyle="--", linewidth=0.8)
        ax.set_yticks(range(1, len(labels) + 1), [plain(label) for label in labels])
        ax.invert_yaxis()
        ax.set(title=plain(model), xlabel=METRIC_NAMES[metric])
    return drawn
