"""A chart of Altair as the page needs it."""

from typing import Any

import altair as alt

from verax.report.style import chart_config

WIDTH = 1040  # of all panels of a chart together


def spec(chart: Any, **choices: Any) -> dict[str, Any]:
    """The Vega-Lite specification of a chart, and the names of the page's tables that it draws from.

    Args:
        chart: An Altair chart of named data.
        choices: Parameters of the chart that the page sets, by name, with what they are at first.
    """
    form = chart.to_dict()
    form.pop("$schema", None)  # an address, which nothing needs
    form["config"] = chart_config()
    form["params"] = [*form.get("params", []), *({"name": name, "value": value} for name, value in choices.items())]
    return {"spec": form, "tables": sorted(_named(form))}


def by_model(chart: Any, models: list[str], *, margin: int, columns: int = 4) -> Any:
    """One panel per model, side by side, in as many rows as needed.

    Args:
        chart: What one panel shows; its width is set here.
        models: In the order of the panels.
        margin: Pixels that a panel needs beside its plot, for an axis of its own.
        columns: How many panels stand side by side at most.
    """
    columns = min(columns, len(models))
    sized = chart.properties(width=WIDTH // max(columns, 2) - margin)
    if len(models) > columns:
        return sized.facet(facet=alt.Facet("model:N", sort=models, title=None), columns=columns, spacing=16)
    return sized.facet(column=alt.Column("model:N", sort=models, title=None), spacing=16)


def _named(form: Any) -> set[str]:
    if isinstance(form, list):
        return {name for part in form for name in _named(part)}
    if not isinstance(form, dict):
        return set()
    data = form.get("data")
    own = {data["name"]} if isinstance(data, dict) and "name" in data else set()
    return own.union(*(_named(part) for part in form.values()))
