"""The short report of a comparison: a table, rankings in words and one chart per metric, in one HTML file."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from verax.comparing import LABELS, Comparison, Ranked
from verax.report.style import BLUE, GREY, MINUS, number

_LEFT, _RIGHT, _TOP, _ROW, _BOTTOM = 190.0, 700.0, 8.0, 24.0, 30.0  # of a chart, in its own units
_LONGEST = 26  # letters of a name that fit beside a chart


def comparison_page(comparison: Comparison, facts: Mapping[str, str]) -> str:
    """The report as text; it needs no network and runs no script. The same comparison gives the same text.

    Args:
        comparison: What was found.
        facts: What was compared and how, in the order to show it.

    Example:
        >>> import torch, verax
        >>> x = torch.randn(9, 4)
        >>> found = verax.compare(torch.nn.Linear(4, 2), x, {"itself": x, "<b>": -x}, samples=10)
        >>> page = comparison_page(found, {"model": "linear"})
        >>> page.count("<svg"), "&lt;b&gt;" in page, "<b>" in page
        (3, True, False)
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_own), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    head, *rows = comparison.cells()
    return environment.get_template("comparison.html").render(
        css=Markup(_own("page.css")),  # noqa: S704 - a file of this package
        caption=comparison.caption(),
        head=head,
        rows=rows,
        facts=facts,
        sections=[_section(comparison, metric) for metric in comparison.metrics],
    )


def _own(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def _section(comparison: Comparison, metric: str) -> dict[str, Any]:
    ranking, best = comparison.ranking(metric), comparison.best(metric)
    higher = comparison.evaluation[metric].metric.higher_is_better
    return {
        "name": LABELS.get(metric, metric),
        "way": "Higher is better" if higher else "Lower is better",
        "settings": str(comparison.evaluation[metric].metric),
        "best": best,
        "ranking": [(one, number(one.mean), f"{number(one.low)} to {number(one.high)}") for one in ranking],
        "chart": _chart(ranking, best),
    }


def _chart(ranking: list[Ranked], best: list[str]) -> dict[str, Any]:
    """Where things are in a chart of dots and intervals, best on top."""
    ends = [end for one in ranking for end in (one.mean, one.low, one.high) if math.isfinite(end)]
    ticks = _ticks(min(ends), max(ends))
    low, high = min(*ticks, *ends), max(*ticks, *ends)

    def across(value: float) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * (value - low) / (high - low), 2)

    bottom = _TOP + _ROW * len(ranking)
    return {
        "width": _RIGHT + 30,
        "height": bottom + _BOTTOM,
        "left": _LEFT,
        "top": _TOP,
        "bottom": bottom,
        "ticks": [(across(tick), f"{tick:g}".replace("-", MINUS)) for tick in ticks],
        "dots": [
            {
                "name": one.name,
                "short": one.name if len(one.name) <= _LONGEST else f"{one.name[: _LONGEST - 1]}…",
                "y": _TOP + _ROW * (place + 0.5),
                "mean": across(one.mean),
                "ends": (across(one.low), across(one.high)) if math.isfinite(one.low + one.high) else None,
                "colour": BLUE if one.name in best else GREY,
                "tip": f"{one.name}: {number(one.mean)}, {number(one.low)} to {number(one.high)}",
            }
            for place, one in enumerate(ranking)
        ],
    }


def _ticks(low: float, high: float) -> list[float]:
    """Three to eight round numbers that reach from low to high.

    Example:
        >>> _ticks(0.013, 0.061)
        [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07]
        >>> _ticks(2.0, 2.0)
        [1.5, 2.0, 2.5]
    """
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        half = abs(low) / 4 or 1.0
        return [low - half, low, low + half]
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * size for size in (1, 2, 5, 10) if power * size >= rough)
    places = range(math.floor(low / step), math.ceil(high / step) + 1)
    return [float(f"{place * step:.10g}") for place in places]
