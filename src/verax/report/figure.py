"""What the figures share: panels in a figure that a notebook shows without pyplot, colours, and names that fit."""

import io
import math
from collections.abc import Iterable, Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from verax.core.display import escape
from verax.core.palette import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION

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
    """A figure of so many panels, each so many inches wide and high, and its axes row by row.

    With ``share`` all panels have the scale of the first, to be compared by eye; the figure is at least ``narrowest``
    inches wide.
    """
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
