"""The page of a search: what was found, a chart of the trials, and all of them in a table."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from verax.core.display import metric_head
from verax.core.packages import optional_package
from verax.report.html import rendered
from verax.report.style import number
from verax.statistics.intervals import Estimate

if TYPE_CHECKING:
    from verax.tuning.result import Tuned

_HEAD = ("state", "inputs", "model rows per input", "configuration", "reason of a failure")


def tuning_page(tuned: "Tuned", summary: str) -> str:
    """The page as text; it needs no network and runs no script.

    Args:
        tuned: The search.
        summary: What the page begins with.
    """
    vl_convert = optional_package("vl_convert", "verax[tune]", "The page of a search")
    drawn = vl_convert.vegalite_to_svg(tuned.plot().configure(background="white").to_json())
    best, *lines = summary.splitlines()
    heads = [metric_head(tuned.label(name), metric.higher_is_better) for name, metric in tuned.metrics.items()]
    return rendered(
        "tuning.html",
        best=best,
        date=tuned.facts.get("date", ""),
        lines=lines,
        metrics=[(tuned.label(name), metric.asks) for name, metric in tuned.metrics.items() if metric.asks],
        chart=Markup(drawn),  # noqa: S704 - Vega escapes the names in it
        head=["trial", *heads, *_HEAD],
        rows=[_cells(tuned, row) for row in tuned.table.iter_rows(named=True)],
    )


def _cells(tuned: "Tuned", row: Mapping[str, Any]) -> list[str]:
    scores = [str(_estimate(row, name)) if row[name] is not None else "" for name in tuned.metrics]
    cost = number(row["cost"] and float(row["cost"]))
    return [
        str(row["trial"]),
        *scores,
        row["state"],
        f"{row['inputs']:,}",
        cost,
        row["configuration"],
        row["reason"] or "",
    ]


def _estimate(row: Mapping[str, Any], name: str) -> Estimate:
    return Estimate(row[name], math.nan, row[f"{name}_low"], row[f"{name}_high"])
