"""The short report of a comparison: a table, rankings in words and one chart per metric, in one HTML file."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from verax.display.plots import rankings
from verax.display.svg import fixed_style, inline
from verax.evaluation.compare import Comparison
from verax.report.html import rendered
from verax.report.style import number

_SIZE = 10  # points


def comparison_page(comparison: Comparison, facts: Mapping[str, str]) -> str:
    """The report as text; it needs no network and runs no script. The same comparison gives the same text."""
    head, *rows = comparison.cells()
    return rendered(
        "comparison.html",
        caption=comparison.caption(),
        head=head,
        rows=rows,
        facts=facts,
        sections=[_section(comparison, metric) for metric in comparison.metrics],
    )


def _section(comparison: Comparison, metric: str) -> dict[str, Any]:
    ranking, label = comparison.ranking(metric), comparison.evaluation.label(metric)
    rated = comparison.evaluation[metric].metric
    with fixed_style(_SIZE):
        chart = inline(rankings(comparison, [metric]), f"{label}: mean and interval of each attribution")
    return {
        "name": label,
        "way": "Higher is better" if rated.higher_is_better else "Lower is better",
        "settings": str(rated),
        "best": comparison.best(metric),
        "ranking": [(rank, number(rank.mean), f"{number(rank.low)} to {number(rank.high)}") for rank in ranking],
        "chart": Markup(chart),  # noqa: S704 - names in it are escaped
    }
