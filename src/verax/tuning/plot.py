"""The chart of a search: its trials with their intervals, or what each objective costs in the others."""

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from verax.report.names import method_name
from verax.report.style import FONT, VERMILION, method_colours

if TYPE_CHECKING:
    from verax.tuning.result import Tuned

_SHAPES = {"complete": "circle", "leading": "diamond", "pruned": "triangle-down"}


def chart(found: "Tuned") -> Any:
    """Trials one after the other for one objective; the first objective against the last one for several."""
    table = found.table.filter(pl.col("state") != "failed")
    table = table.with_columns(
        pl.Series("name", [method_name(one) for one in table["method"]]),
        pl.col("trial").is_in(found.pareto["trial"].to_list()).alias("front"),
    )
    several = len(found.objectives) > 1
    drawn = _front(found, table) if several else _trials(found, table)
    best = found.best.canonical
    title = alt.Title(text=f"{len(found.candidates)} trials", subtitle=f"best: {best}", anchor="start", limit=640)
    return drawn.properties(title=title, width=640, height=360).configure(font=FONT)


def _trials(found: "Tuned", table: pl.DataFrame) -> Any:
    """Means with intervals, in the order of the trials, and a line at the best one."""
    metric = found.metrics[0]
    base = alt.Chart(table).encode(x=alt.X("trial:Q", title="trial", scale=alt.Scale(nice=False)))
    ends = base.mark_rule(opacity=0.35).encode(
        y=alt.Y(f"{metric}_low:Q", title=found.label(metric), scale=alt.Scale(zero=False)), y2=f"{metric}_high:Q"
    )
    means = _points(base, table).encode(y=alt.Y(f"{metric}:Q"), tooltip=_tips(found))
    best = alt.Chart(pl.DataFrame({"best": [found.score.mean]})).mark_rule(color=VERMILION, strokeDash=[4, 3])
    return alt.layer(ends.encode(color=_colour(table)), means, best.encode(y="best:Q"))


def _front(found: "Tuned", table: pl.DataFrame) -> Any:
    """Two objectives against each other; a line through those that no other beats."""
    up, across = found.objectives[0], found.objectives[-1]
    scale = alt.Scale(type="log") if across == "cost" else alt.Scale(zero=False)
    base = alt.Chart(table).encode(
        x=alt.X(f"{across}:Q", title=found.label(across), scale=scale),
        y=alt.Y(f"{up}:Q", title=found.label(up), scale=alt.Scale(zero=False)),
    )
    line = base.transform_filter("datum.front").mark_line(color=VERMILION, opacity=0.6)
    points = _points(base, table).encode(
        tooltip=_tips(found), opacity=alt.condition("datum.front", alt.value(1), alt.value(0.35))
    )
    return alt.layer(line.encode(order=f"{across}:Q"), points)


def _points(base: Any, table: pl.DataFrame) -> Any:
    shapes = alt.Scale(domain=list(_SHAPES), range=list(_SHAPES.values()))
    return base.mark_point(filled=True, size=60).encode(
        color=_colour(table), shape=alt.Shape("state:N", title=None, scale=shapes)
    )


def _colour(table: pl.DataFrame) -> alt.Color:
    names = table["name"].unique(maintain_order=True).to_list()
    return alt.Color("name:N", title=None, scale=alt.Scale(domain=names, range=method_colours(names)))


def _tips(found: "Tuned") -> list[alt.Tooltip]:
    numbers = [alt.Tooltip(f"{name}:Q", title=found.label(name), format=".4g") for name in found.objectives]
    return [alt.Tooltip("configuration:N"), *numbers, alt.Tooltip("inputs:Q"), alt.Tooltip("state:N")]
