"""Figures of results: curves, scores of inputs, means and rankings. Each function returns a figure, shown by nobody."""

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from verax.core.display import MOST_ROWS, counted, escape, significant
from verax.core.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION
from verax.evaluation.comparison import Comparison, Ranked
from verax.evaluation.ranking import best_first
from verax.metrics.infidelity_uncertainty import UncertaintyResult
from verax.metrics.monte_carlo import MonteCarloResult
from verax.metrics.result import GuidedResult, Result
from verax.metrics.sensitivity import SensitivityResult
from verax.statistics.intervals import Estimate, estimates

LINES = tuple(zip((BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY), "osD^vX", strict=True))  # colour and marker
CURVES = {"MoRF, most relevant first": VERMILION, "LeRF, least relevant first": BLUE}
Outside = Literal["outside lower center", "outside right center"]
COLUMNS = 3
_NARROWEST, _TITLE = 5.2, 0.7  # inches, for the title and what stands below
_LONGEST = 32  # letters of a name


class Chart(Figure):
    """A figure of its own: pyplot does not know it, so nothing stays open, and a notebook shows it all the same.

    Example:
        >>> chart, _ = panels(3)
        >>> chart._repr_png_()[1:4]
        b'PNG'
    """

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.savefig(picture, format="png")
        return picture.getvalue()


def panels(
    count: int,
    width: float = 3.3,
    height: float = 2.6,
    columns: int = COLUMNS,
    share: bool = False,
    narrowest: float = _NARROWEST,
) -> tuple[Chart, list[Axes]]:
    """A figure of so many panels of so many inches, and its axes row by row; with ``share`` all have one scale."""
    columns = min(columns, count)
    lines = math.ceil(count / columns)
    chart = Chart(figsize=(max(narrowest, width * columns), height * lines + _TITLE), layout="constrained")
    axes: list[Axes] = []
    for place in range(count):
        first = axes[0] if share and axes else None
        axes.append(chart.add_subplot(lines, columns, place + 1, sharex=first, sharey=first))
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return chart, axes


def legend(chart: Figure, axes: Sequence[Axes], where: Outside = "outside lower center", columns: int = 2) -> None:
    """One legend for all panels, each name once."""
    handles = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    chart.legend(handles.values(), handles.keys(), loc=where, ncols=columns, frameon=False)


def outer_labels(axes: Sequence[Axes], x: str, y: str) -> None:
    """Name the axes where the figure ends: below the last panel of every column and left of the first ones."""
    columns = min(COLUMNS, len(axes))
    for place, ax in enumerate(axes):
        if place + columns >= len(axes):
            ax.set_xlabel(x)
        if place % columns == 0:
            ax.set_ylabel(y)


def short(name: str) -> str:
    """A name that fits beside a panel, as ``plain`` text."""
    return plain(name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…")


def plain(text: str) -> str:
    """Text that matplotlib shows as it is: a dollar sign starts no formula, and SVG takes no control characters."""
    return escape(text).replace("$", r"\$")


def room_for(names: Iterable[str]) -> float:
    """Inches that the longest of some names takes beside a panel."""
    return 0.2 + 0.075 * max(len(short(name)) for name in names)


MOST_PANELS = 12
_WIDEST = 13.0  # inches of a figure
_PANEL = 3.5  # inches of a panel that stands alone


def curves(result: GuidedResult) -> Chart:
    """Mean MoRF and LeRF curves with their quartiles over inputs; the area between the means is shaded."""
    shown = _best(result, MOST_PANELS)
    chart, axes = panels(len(shown), share=True)
    for which, ax in zip(shown, axes, strict=True):
        removed = _draw_curves(ax, result, which)
    outer_labels(axes, removed, result.curve_name)
    return _finished(chart, axes, result, shown, f"{result.metric.label}: mean curves; bands hold half of the inputs")


def single_curves(result: GuidedResult) -> list[tuple[str, Chart]]:
    """The same panels as charts of their own, on one scale and without a legend, each with its name; best first."""
    drawn = []
    for which in best_first(result)[:MOST_PANELS]:
        chart, (ax,) = panels(1, narrowest=_PANEL)
        outer_labels([ax], _draw_curves(ax, result, which), result.curve_name)
        drawn.append((result.labels[which], chart, ax))
    limits = [ax.get_ylim() for _, _, ax in drawn]
    for _, _, ax in drawn:
        ax.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    return [(name, chart) for name, chart, _ in drawn]


def _draw_curves(ax: Axes, result: GuidedResult, which: int) -> str:
    points = result.guided.points
    ragged = bool((points != points[0]).any())
    steps = np.arange(result.steps + 1)
    x = steps if ragged else steps / result.steps
    (directed,) = result.curves(slice(which, which + 1)).double().cpu().numpy()
    means, (low, high) = directed.mean(0), np.quantile(directed, [0.25, 0.75], axis=0)
    upper = means[1] if len(means) > 1 else np.full_like(means[0], means[0, 0])
    ax.fill_between(x, means[0], upper, color=GREY, alpha=0.25, linewidth=0, label="area between the means")
    for curve, (label, colour) in enumerate(list(CURVES.items())[: len(means)]):
        ax.fill_between(x, low[curve], high[curve], color=colour, alpha=0.15, linewidth=0)
        ax.plot(x, means[curve], color=colour, label=label)
    ax.set_title(_title(result, which), fontsize="medium")
    if not ragged:
        ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    return "step (short curves keep their end)" if ragged else "features removed"


def values(result: MonteCarloResult) -> Chart:
    """Scores of all inputs in ascending order, each with its Monte-Carlo standard error, and their mean."""
    shown = _best(result, MOST_PANELS)
    chart, axes = panels(len(shown), share=True)
    for which, ax in zip(shown, axes, strict=True):
        order = result.scores[which].argsort()
        scores = result.scores[which, order].cpu().numpy()
        errors = result.errors[which, order].nan_to_num().cpu().numpy()  # one draw has no spread to show
        rank = np.arange(1, len(scores) + 1)
        ax.errorbar(rank, scores, errors, fmt=".", color=BLUE, ecolor="#9CC9E3", label="input, ± 1 standard error")
        ax.axhline(float(scores.mean()), color=VERMILION, linewidth=1, linestyle="--", label="mean")
        ax.set_title(_title(result, which), fontsize="medium")
    axes[0].set_xlim(0, result.scores.shape[1] + 1)
    axes[0].xaxis.set_major_locator(MaxNLocator(5, integer=True))
    outer_labels(axes, "inputs, ascending", result.metric.label)
    better = "higher" if result.metric.higher_is_better else "lower"
    return _finished(chart, axes, result, shown, f"{result.metric.label}, {better} is better")


def by_size(result: SensitivityResult) -> Chart:
    """Mean error over inputs by subset size, one line per attribution."""
    shown = _best(result, len(LINES))
    chart, (ax,) = panels(1, width=4.5 + room_for(result.labels), height=3.2)
    sizes = np.array(result.metric.sizes)
    for which, (colour, marker) in zip(shown, LINES, strict=False):
        means, reach = np.array(
            [(estimate.mean, estimate.high - estimate.mean) for estimate in estimates(result.per_size[which].T)]
        ).T
        ax.errorbar(sizes, means, reach, label=short(result.labels[which]), color=colour, fmt=f"{marker}-")
    ax.set(xlabel="features removed together, N", ylabel="Sensitivity-N error", xticks=sizes)
    ax.set_ylim(bottom=0)
    title = f"{result.metric.label}: means with 95 % intervals, lower is better"
    return _finished(chart, [ax], result, shown, title, "outside right center")


def spreads(result: UncertaintyResult) -> Chart:
    """Uncertainty of the mean over inputs by number of draws, in each way that it was found."""
    shown = _best(result, MOST_PANELS)
    chart, axes = panels(len(shown), share=True)
    for which, ax in zip(shown, axes, strict=True):
        for (way, spread), (colour, marker) in zip(result.mean_spreads().items(), LINES, strict=False):
            values = spread[which].cpu().numpy()
            values = np.where(values > 0, values, np.nan)  # the whole pool has none, and 0 has no logarithm
            ax.plot(result.sizes, values, color=colour, marker=marker, label=way)
        ax.set_title(short(result.labels[which]), fontsize="medium")
    axes[0].set(xscale="log", yscale="log")
    axes[0].set_xticks(result.sizes, map(str, result.sizes))
    axes[0].set_xticks([], minor=True)
    outer_labels(axes, "draws", "standard deviation")
    return _finished(chart, axes, result, shown, "Uncertainty of mean Infidelity over these inputs")


def means(results: Mapping[str, Result]) -> Chart:
    """Means over inputs with 95 % intervals: a panel per metric, the same attributions in each."""
    first = next(iter(results.values()))
    shown = _best(first, MOST_ROWS)
    names = [short(first.labels[which]) for which in shown]
    chart, axes = _rows_of_dots(len(results), len(shown), 2.5 + room_for(names) / len(results), len(results))
    for ax, (name, result) in zip(axes, results.items(), strict=True):
        estimates_of = result.listed_means()
        _dots(ax, [estimates_of[which] for which in shown], [BLUE] * len(shown))
        _say_direction(ax, result.metric.label_as(name), result)
        ax.tick_params(labelleft=ax is axes[0])
    axes[0].set_yticks(range(len(shown)), names)
    many, cut = counted(first.scores.shape[1], "input"), _cut(len(first.scores), len(shown), first)
    chart.suptitle(f"Means over {many} with 95 % intervals{cut}", fontsize="large")
    return chart


def rankings(comparison: Comparison, metrics: Sequence[str] | None = None) -> Chart:
    """The ranking under each metric, or under some, best on top; blue is not significantly different from the best."""
    metrics = comparison.metrics if metrics is None else metrics
    count = min(MOST_ROWS, len(comparison.names))
    width = 2.5 + room_for(comparison.names)
    chart, axes = _rows_of_dots(len(metrics), count, width, columns=max(1, int(_WIDEST / width)))
    for ax, metric in zip(axes, metrics, strict=True):
        ranking, best = comparison.ranking(metric)[:count], comparison.best(metric)
        _dots(ax, ranking, [BLUE if ranked.name in best else GREY for ranked in ranking])
        ax.set_yticks(range(count), [short(ranked.name) for ranked in ranking])
        _say_direction(ax, comparison.evaluation.label(metric), comparison.evaluation[metric])
    blue = "\nblue: not significantly different from the best" if len(comparison.names) > 1 else ""
    means = f"Means over {counted(comparison.inputs, 'input')} with {100 * comparison.level:.4g} % intervals"
    chart.suptitle(f"{means}{_cut(len(comparison.names), count)}{blue}", fontsize="large")
    return chart


def _rows_of_dots(metrics: int, attributions: int, width: float, columns: int) -> tuple[Chart, list[Axes]]:
    chart, axes = panels(metrics, width, height=0.7 + 0.28 * attributions, columns=columns)
    for ax in axes:
        ax.set_ylim(attributions - 0.4, -0.6)  # the first one on top
        ax.grid(axis="x", alpha=0.3)
        ax.xaxis.set_major_locator(MaxNLocator(4))
    return chart, axes


def _dots(ax: Axes, estimates: Sequence[Estimate | Ranked], colours: list[str]) -> None:
    for place, (estimate, colour) in enumerate(zip(estimates, colours, strict=True)):
        ax.plot([estimate.low, estimate.high], [place, place], color=colour, linewidth=2, solid_capstyle="butt")
        ax.plot([estimate.mean], [place], "o", color=colour, markersize=5)


def _say_direction(ax: Axes, label: str, result: Result) -> None:
    better = "higher is better →" if result.metric.higher_is_better else "← lower is better"
    ax.set_title(short(label), fontsize="medium")
    ax.set_xlabel(better)


def _best(result: Result, most: int) -> list[int]:
    """Places of the attributions to show: all as they were given, or the best where they are too many."""
    if len(result.scores) <= most:
        return list(range(len(result.scores)))
    order = result.scores.mean(1).argsort(descending=result.metric.higher_is_better, stable=True)
    return order[:most].tolist()


def _title(result: Result, which: int) -> str:
    mean = float(result.scores[which].double().mean())
    return f"{short(result.labels[which])}\nmean {result.metric.label} {significant(mean)}"


def _cut(total: int, shown: int, by: Result | None = None) -> str:
    """Say that not all are shown, and by which metric they were chosen where several are."""
    chosen = f" by {by.metric.label}" if by else ""
    return f", the best {shown} of {total}{chosen}" if shown < total else ""


def _finished(
    chart: Chart,
    axes: list[Axes],
    result: Result,
    shown: list[int],
    title: str,
    where: Outside = "outside lower center",
) -> Chart:
    legend(chart, axes, where, columns=2 if where == "outside lower center" else 1)
    chart.suptitle(f"{title}{_cut(len(result.scores), len(shown))}", fontsize="large")
    return chart
