"""A chart of Altair as the page needs it."""

from collections.abc import Mapping
from typing import Any

import altair as alt

from verax.attribution.names import LOCAL, ORIENTED, REFERENCE
from verax.core.palette import BLUE, FONT, GREY, VERMILION
from verax.study.tables import MetricInfo

KIND_COLOURS = {LOCAL: BLUE, ORIENTED: VERMILION, REFERENCE: GREY}
NEGATIVE, POSITIVE = VERMILION, BLUE  # in bars and heat maps
WIDTH = 1040  # of all panels of a chart together


def vega_lite(chart: Any, **choices: Any) -> dict[str, Any]:
    """A chart in Vega-Lite with the names of the page's tables it draws from; the page sets the choices by name."""
    form = chart.to_dict()
    form.pop("$schema", None)  # an address, which nothing needs
    form["config"] = _config()
    form["params"] = [*form.get("params", []), *({"name": name, "value": value} for name, value in choices.items())]
    return {"vega_lite": form, "tables": sorted(_named(form))}


def by_model(chart: Any, models: list[str], *, margin: int, columns: int = 4) -> Any:
    """One panel per model, at most so many in a row; the margin is what each needs beside its plot, in pixels."""
    columns = min(columns, len(models))
    sized = chart.properties(width=WIDTH // max(columns, 2) - margin)
    if len(models) > columns:
        return sized.facet(facet=alt.Facet("model:N", sort=models, title=None), columns=columns, spacing=16)
    return sized.facet(column=alt.Column("model:N", sort=models, title=None), spacing=16)


def tooltips(*fields: str | tuple[str, str, str]) -> list[alt.Tooltip]:
    """What a mark says when it is pointed at: texts by field, and by field, title and format numbers, or texts."""
    named = [(field, field, "") if isinstance(field, str) else field for field in fields]
    return [
        alt.Tooltip(f"{name}:Q", title=title, format=form) if form else alt.Tooltip(f"{name}:N", title=title)
        for name, title, form in named
    ]


def metric_chart() -> Any:
    """A chart of the metric that the parameter ``metric`` names: no expression could hold some names of columns."""
    chart = alt.Chart().transform_calculate(mean="datum[metric]", error="datum[metric + '_error']")
    return chart.transform_filter("isValid(datum.mean)")


def scale_of(range_by_value: Mapping[str, Any]) -> alt.Scale:
    return alt.Scale(domain=list(range_by_value), range=list(range_by_value.values()))


def axis_title(metric: MetricInfo) -> str:
    return f"{metric.label} → better" if metric.higher_is_better else f"better ← {metric.label}"


def _config() -> dict[str, Any]:
    """Vega-Lite's config for all charts: text and lines take the colour of the page, light, dark or printed."""
    ink = "currentColor"
    coloured = {"labelColor": ink, "titleColor": ink}
    sized = {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "labelLimit": 260}
    lines = {"tickColor": ink, "domainColor": ink, "gridColor": ink}
    faint = {"gridOpacity": 0.1, "domainOpacity": 0.3, "tickOpacity": 0.3}
    below = {"layout": {"bottom": {"anchor": "start", "direction": "vertical"}}}
    title = {"color": ink, "subtitleColor": ink, "fontSize": 13, "subtitleFontSize": 11, "anchor": "start", "offset": 8}
    return {
        "background": None,
        "font": FONT,
        "view": {"stroke": ink, "strokeOpacity": 0.15},
        "axis": coloured | lines | faint | sized,
        "header": coloured | {"labelFontSize": 12, "labelFontWeight": "bold"},
        "legend": coloured | sized | {"symbolOpacity": 1} | below,
        "title": title,
        "text": {"color": ink, "fontSize": 11},
        "rule": {"color": ink},
    }


def _named(form: Any) -> set[str]:
    if isinstance(form, list):
        return {name for part in form for name in _named(part)}
    if not isinstance(form, dict):
        return set()
    data = form.get("data")
    names = {data["name"]} if isinstance(data, dict) and "name" in data else set()
    return names.union(*(_named(part) for part in form.values()))
