"""What the figures share: panels in a figure that a notebook shows without pyplot, colours, and names that fit."""

import io
import math
from collections.abc import Iterable, Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

# the palette of Okabe and Ito, which the colour-blind can tell apart, without its black and its yellow
BLUE, SKY, GREEN, ORANGE, VERMILION, PURPLE = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7"
GREY = "#808080"
LINES = tuple(zip((BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY), "osD^vX", strict=True))  # colour and marker
Outside = Literal["outside lower center", "outside right center"]
COLUMNS = 3
_NARROWEST, _TITLE = 5.2, 0.7  # inches, for the title and what stands below
_LONGEST = 32  # letters of a name


class Chart(Figure):
    """A figure of its own: pyplot does not know it, so that nothing is left open, and a notebook shows it all the same.

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
    count: int, width: float = 3.3, height: float = 2.6, columns: int = COLUMNS, share: bool = False
) -> tuple[Chart, list[Axes]]:
    """A figure of so many panels, in inches each, and its axes row by row.

    Args:
        count: How many.
        width: Of one panel.
        height: Of one panel.
        columns: Most panels in a row.
        share: Give all panels the scale of the first, to be compared by eye.
    """
    columns = min(columns, count)
    lines = math.ceil(count / columns)
    chart = Chart(figsize=(max(_NARROWEST, width * columns), height * lines + _TITLE), layout="constrained")
    axes: list[Axes] = []
    for place in range(count):
        first = axes[0] if share and axes else None
        axes.append(chart.add_subplot(lines, columns, place + 1, sharex=first, sharey=first))
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return chart, axes


def legend(chart: Chart, ax: Axes, where: Outside = "outside lower center") -> None:
    """The legend of one panel, for all of them."""
    columns = 2 if where == "outside lower center" else 1
    chart.legend(*ax.get_legend_handles_labels(), loc=where, ncols=columns, frameon=False)


def outer_labels(axes: Sequence[Axes], x: str, y: str) -> None:
    """Name the axes where the figure ends: below the last panel of every column and left of the first ones."""
    columns = min(COLUMNS, len(axes))
    for place, ax in enumerate(axes):
        if place + columns >= len(axes):
            ax.set_xlabel(x)
        if place % columns == 0:
            ax.set_ylabel(y)


def short(name: str) -> str:
    r"""A name that fits beside a panel and in which a dollar sign starts no formula.

    Example:
        >>> print(short("US$"), short("a" * 40))
        US\$ aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…
    """
    cut = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    return cut.replace("$", r"\$")


def room_for(names: Iterable[str]) -> float:
    """Inches that the longest of some names takes beside a panel."""
    return 0.2 + 0.075 * max(len(short(name)) for name in names)
