"""What the matplotlib figures share: panels, plain text, and SVG files that are the same every time."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure


@contextmanager
def paper_style() -> Iterator[None]:
    """Matplotlib's settings for the figures as long as the block runs, whatever the user has set."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rc("font", family="DejaVu Sans", size=8)  # comes with matplotlib, so that figures are the same everywhere
        mpl.rc("axes", titlesize=9)
        mpl.rc("axes.spines", top=False, right=False)
        mpl.rc("svg", hashsalt="verax")
        yield


def panels(count: int, width: float, height: float, columns: int = 2) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels, in inches each, and its axes row by row."""
    columns = min(columns, max(count, 1))
    lines = math.ceil(max(count, 1) / columns)
    figure = Figure(figsize=(width * columns, height * lines), layout="constrained")
    return figure, [figure.add_subplot(lines, columns, at + 1) for at in range(count)]


def legend_below(figure: Figure, axes: list[Axes], columns: int = 5) -> None:
    """One legend for all panels, below them, each name once."""
    found = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    if found:
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=columns, frameon=False)


def plain(text: str) -> str:
    r"""Text that matplotlib shows as it is: a dollar sign starts no formula.

    Example:
        >>> print(plain("US$ and CA$"))
        US\$ and CA\$
    """
    return text.replace("$", r"\$")


def save(figure: Figure, path: Path) -> Path:
    """Write a figure as SVG without a date, with ids that depend on its content only."""
    figure.savefig(path, format="svg", metadata={"Date": None})
    return path
