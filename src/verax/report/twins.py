"""Integrated Gradients and DeepLiftSHAP with and without multiplication by the input: the same settings, joined."""

from typing import Any

import altair as alt
import polars as pl
from matplotlib.figure import Figure

from verax.report.draw import panels, plain
from verax.report.names import KINDS, LOCAL, METRIC_NAMES, ORIENTED, TIMES
from verax.report.spec import by_model, spec
from verax.report.style import KIND_COLOURS
from verax.report.view import View

HEIGHT = 190


def twin_rows(view: View) -> pl.DataFrame:
    """Configurations that exist both with and without multiplication by the input."""
    both = pl.col("local").n_unique().over("model", "method", "pair") == 2
    return view.rows.filter(both).with_columns(
        pl.struct("name", "local").map_elements(lambda v: _side(**v), return_dtype=pl.String).alias("side")
    )


def twin_methods(view: View) -> list[str]:
    """Methods that have such twins."""
    return [name for name in view.method_names if name in set(twin_rows(view)["name"])]


def charts(view: View) -> dict[str, Any]:
    """PC and DPC of every twin, a panel per model."""
    if not twin_methods(view):
        return {}
    return {
        f"twins-{metric}": spec(_chart(view, metric)) for metric in ("pc", "dpc_magnitude") if view.measured(metric)
    }


def _chart(view: View, metric: str) -> Any:
    methods = twin_methods(view)
    order = [_side(method, local) for method in methods for local in (False, True)]
    title = METRIC_NAMES[metric]
    lines_of_words = alt.Axis(labelAngle=0, labelExpr="split(datum.label, ' ')")
    base = (
        alt.Chart()
        .transform_filter(f"isValid(datum.{metric})")
        .encode(
            x=alt.X("side:N", sort=order, title=None, axis=lines_of_words),
            y=alt.Y(f"{metric}:Q", title=title, axis=alt.Axis(tickCount=5, format="~g")),
        )
    )
    lines = base.mark_line(opacity=0.35, color="currentColor", strokeWidth=1, aria=False)
    lines = lines.encode(detail=["name:N", "pair:N"])
    points = base.mark_circle(size=40, opacity=0.8, aria=False).encode(
        color=alt.Color(
            "kind:N",
            title=None,
            scale=alt.Scale(domain=list(KINDS[:2]), range=[KIND_COLOURS[kind] for kind in KINDS[:2]]),
            legend=alt.Legend(orient="top"),
        ),
        tooltip=[
            alt.Tooltip("configuration:N", title="configuration"),
            alt.Tooltip(f"{metric}:Q", title=title, format=".4g"),
            alt.Tooltip(f"{metric}_error:Q", title="standard error", format=".2g"),
        ],
    )
    chart = alt.layer(lines, points, data=alt.NamedData(name="twins"))
    faceted = by_model(chart.properties(height=HEIGHT), view.models, margin=50)
    description = f"{title} of {' and '.join(methods)} with and without multiplication by the input."
    return faceted.resolve_scale(y="independent").resolve_axis(x="independent").properties(description=description)


def figure(view: View, metric: str) -> Figure:
    """The paper's figure: box plots of both variants of each method, twins joined by lines, a panel per model."""
    rows = twin_rows(view).filter(pl.col(metric).is_not_null())
    models = [model for model in view.models if model in set(rows["model"])]
    drawn, axes = panels(len(models), width=3.6, height=2.6)
    for model, ax in zip(models, axes, strict=True):
        own = rows.filter(pl.col("model") == model)
        methods = [method for method in twin_methods(view) if method in set(own["name"])]
        for at, method in enumerate(methods):
            pairs = own.filter(pl.col("name") == method).sort("pair", "local")[metric].to_numpy().reshape(-1, 2)
            places = [2.5 * at, 2.5 * at + 1]
            ax.plot(places, pairs.T, color="0.6", linewidth=0.6, zorder=1)
            parts = ax.boxplot(pairs, positions=places, whis=(0, 100), widths=0.5, patch_artist=True, zorder=2)
            for patch, kind in zip(parts["boxes"], (ORIENTED, LOCAL), strict=True):
                patch.set(facecolor=KIND_COLOURS[kind], alpha=0.7, edgecolor=KIND_COLOURS[kind])
            for line in parts["medians"]:
                line.set(color="black")
        places = [2.5 * at + side for at in range(len(methods)) for side in (0, 1)]
        words = [_side(method, local).replace(" ", "\n") for method in methods for local in (False, True)]
        ax.set_xticks(places, [plain(word) for word in words])
        ax.set(title=plain(model), ylabel=METRIC_NAMES[metric])
    return drawn


def _side(name: str, local: bool) -> str:
    """A short name of a variant; its words stand below each other."""
    short = {"Integrated Gradients": "IG", "DeepLiftSHAP": "DeepLift SHAP"}.get(name, name)
    return f"{short} alone" if local else f"{short} {TIMES}\N{NO-BREAK SPACE}input"
