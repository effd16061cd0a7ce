"""The chart of a search: its trials with their intervals, or what each objective costs in the others."""

from typing import TYPE_CHECKING, Any

import polars as pl

from verax.attribution.names import method_colours
from verax.core.packages import optional_package
from verax.core.palette import FONT, VERMILION

if TYPE_CHECKING:
    from verax.tuning.result import Tuned

alt = optional_package("altair", "verax[tune]", "Tuned.plot()")


class OfflineChart(alt.LayerChart):  # type: ignore[misc,name-defined]  # Altair may be missing: its classes are Any
    """A layered chart that is shown and saved without a network: a notebook shows an SVG, a page holds its scripts."""

    def _repr_mimebundle_(self, *args: Any, **settings: Any) -> dict[str, str]:
        vl_convert = optional_package("vl_convert", "verax[tune]", "Tuned.plot()")
        return {"image/svg+xml": vl_convert.vegalite_to_svg(self.to_json())}

    def to_html(self, *args: Any, inline: bool = True, **settings: Any) -> str:
        return str(super().to_html(*args, inline=inline, **settings))

    def save(self, *args: Any, inline: bool = True, **settings: Any) -> None:
        super().save(*args, inline=inline, **settings)


_SHAPES = {"complete": "circle", "leading": "diamond", "pruned": "triangle-down"}


def chart(tuned: "Tuned") -> Any:
    """Trials one after the other for one objective; the first objective against the last one for several."""
    base = alt.Chart(_table(tuned))
    drawn = _front(tuned, base) if len(tuned.objectives) > 1 else _trials(tuned, base)
    trials, best = f"{len(tuned.candidates)} trials", f"best: {tuned.best.canonical}"
    title = alt.Title(text=trials, subtitle=best, anchor="start", limit=640)
    return drawn.properties(title=title, width=640, height=360).configure(font=FONT)


def _table(tuned: "Tuned") -> pl.DataFrame:
    """The trials that did not fail; objectives by number, as Vega reads a short form's dots and brackets as code."""
    table = tuned.table.filter(pl.col("state") != "failed")
    numbers = {name: f"objective{at}" for at, name in enumerate(tuned.objectives)}
    columns = {f"{name}{end}": f"{number}{end}" for name, number in numbers.items() for end in ("", "_low", "_high")}
    return table.rename(columns, strict=False).with_columns(
        pl.col("method").replace(_labels(tuned)),
        pl.col("trial").is_in(tuned.pareto["trial"].to_list()).alias("front"),
    )


def _trials(tuned: "Tuned", base: Any) -> Any:
    """Means with intervals, in the order of the trials, and a line at the best one."""
    whole = alt.Axis(tickMinStep=1, format="d")
    base = base.encode(x=alt.X("trial:Q", title="trial", scale=alt.Scale(nice=False), axis=whole))
    scale = alt.Y("objective0_low:Q", title=tuned.label(tuned.objectives[0]), scale=alt.Scale(zero=False))
    ends = base.mark_rule(opacity=0.35).encode(y=scale, y2="objective0_high:Q", color=_colour(tuned))
    means = _points(tuned, base).encode(y=alt.Y("objective0:Q"))
    best = alt.Chart(pl.DataFrame({"best": [tuned.score.mean]})).mark_rule(color=VERMILION, strokeDash=[4, 3])
    return OfflineChart(layer=[ends, means, best.encode(y="best:Q")])


def _front(tuned: "Tuned", base: Any) -> Any:
    """Two objectives against each other; a line through those that no other beats."""
    last = len(tuned.objectives) - 1
    up, across = (tuned.label(tuned.objectives[at]) for at in (0, last))
    scale = alt.Scale(type="log") if tuned.rule.cost else alt.Scale(zero=False)
    base = base.encode(
        x=alt.X(f"objective{last}:Q", title=across, scale=scale),
        y=alt.Y("objective0:Q", title=up, scale=alt.Scale(zero=False)),
    )
    line = base.transform_filter("datum.front").mark_line(color=VERMILION, opacity=0.6)
    points = _points(tuned, base).encode(opacity=alt.condition("datum.front", alt.value(1), alt.value(0.35)))
    return OfflineChart(layer=[line.encode(order=f"objective{last}:Q"), points])


def _points(tuned: "Tuned", base: Any) -> Any:
    shapes = alt.Scale(domain=list(_SHAPES), range=list(_SHAPES.values()))
    numbers = [
        alt.Tooltip(f"objective{at}:Q", title=tuned.label(name), format=".4g")
        for at, name in enumerate(tuned.objectives)
    ]
    return base.mark_point(filled=True, size=60).encode(
        color=_colour(tuned),
        shape=alt.Shape("state:N", title=None, scale=shapes),
        tooltip=[alt.Tooltip("configuration:N"), *numbers, alt.Tooltip("inputs:Q"), alt.Tooltip("state:N")],
    )


def _colour(tuned: "Tuned") -> Any:
    labels = list(_labels(tuned).values())
    return alt.Color("method:N", title=None, scale=alt.Scale(domain=labels, range=method_colours(labels)))


def _labels(tuned: "Tuned") -> dict[str, str]:
    kinds = dict.fromkeys(type(candidate.configuration) for candidate in tuned.candidates if not candidate.reason)
    return {kind.__name__: kind.label for kind in kinds}
