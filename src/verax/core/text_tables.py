"""Small tables, as text for a terminal and as HTML for a notebook."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from verax.core.printable import printable

MOST_ROWS = 40  # more are cut: a grid of hundreds of configurations is for a data frame, not for a screen
# no colours of its own: the table takes those of the page, light or dark
_TABLE = 'style="color: inherit; font-size: inherit; border-collapse: collapse; font-variant-numeric: tabular-nums"'
_CELL = 'style="text-align: left; padding: 2px 12px 2px 0; white-space: nowrap"'
_HEAD = 'style="text-align: left; padding: 2px 12px 2px 0; border-bottom: 1px solid"'
_CAPTION = 'style="color: inherit; text-align: left; padding: 4px 0"'


@dataclass(frozen=True)
class Table:
    """Names and numbers, with a line that says what they are.

    Attributes:
        head: Names of the columns.
        rows: Cells by row; the first one names it.
        caption: What the table shows.
        notes: Lines to put below it.
        best: Places, by row and column, of what is the best of its column: bold in HTML.
        about: Which model, class and baseline the numbers are about.
        lead: Lines to put above it.

    Example:
        >>> print(Table(("name", "mean"), (("a", "0.5"), ("longer", "-1")), "Two means").text())
        name    mean
        a       0.5
        longer  -1
        Two means.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str
    notes: tuple[str, ...] = ()
    best: frozenset[tuple[int, int]] = frozenset()
    about: str = ""
    lead: tuple[str, ...] = ()

    def text(self) -> str:
        """The lead, aligned columns, the caption, what it is about, then the notes, with empty lines between."""
        cells = [tuple(map(_one_line, row)) for row in (self.head, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        notes = [_one_line(note) for note in self.notes]
        said = [f"{_one_line(line)}." for line in (self.caption, self.about) if line]
        lead = [*map(_one_line, self.lead), *([""] if self.lead else [])]
        return "\n".join([*lead, *lines, *said, *([""] if notes else []), *notes])

    def html(self) -> str:
        """A table that needs neither script nor style sheet; whatever a name contains is shown, not run."""
        top = "".join(f'<th scope="col" {_HEAD}>{html.escape(cell)}</th>' for cell in self.head)
        body = "".join(f"<tr>{''.join(self._cells(place))}</tr>" for place in range(len(self.rows)))
        said = f"{self.caption}; bold: the best" if self.best else self.caption
        said = f"{said}. {self.about}" if self.about else said
        caption = f"<caption {_CAPTION}>{html.escape(said)}</caption>"
        notes = "".join(f"<li>{html.escape(line)}</li>" for line in self.notes)
        table = f"<table {_TABLE}>{caption}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
        lead = "".join(f"<p>{html.escape(line)}</p>" for line in self.lead)
        return f"{lead}{table}<ul>{notes}</ul>" if notes else f"{lead}{table}"

    def page(self) -> str:
        """The same as a whole page."""
        title = html.escape(self.caption)
        head = f'<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>'
        return f"{head}\n{self.html()}\n</html>\n"

    def _cells(self, place: int) -> Iterator[str]:
        """One row as elements."""
        name, *rest = map(html.escape, self.rows[place])
        yield f'<th scope="row" {_CELL}>{name}</th>'
        for column, cell in enumerate(rest, start=1):
            yield f"<td {_CELL}>{f'<b>{cell}</b>' if (place, column) in self.best else cell}</td>"


def metric_head(label: str, higher_is_better: bool) -> str:
    """A metric as the head of a column.

    Example:
        >>> metric_head("PC", True), metric_head("mine", False)
        ('PC (higher is better)', 'mine (lower is better)')
    """
    return f"{label} ({'higher' if higher_is_better else 'lower'} is better)"


def shortened(rows: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """The first rows, and a last one that says how many are missing.

    Example:
        >>> shortened([("a", "1")] * 100)[-2:]
        (('a', '1'), ('... and 60 more', ''))
    """
    if len(rows) <= MOST_ROWS:
        return tuple(rows)
    rest = (f"... and {len(rows) - MOST_ROWS} more", *[""] * (len(rows[0]) - 1))
    return (*rows[:MOST_ROWS], rest)


def cost(rows: int, seconds: float) -> str:
    """What a call cost.

    Example:
        >>> cost(12345, 0.04567)
        '12,345 model rows, 0.0457 s'
    """
    return f"{rows:,} model rows, {seconds:.3g} s"


def _one_line(cell: str) -> str:
    """A cell as text; a name that breaks the line would forge rows."""
    return printable(cell).replace("\n", "\\n").replace("\t", "\\t")


def counted(count: int, thing: str) -> str:
    """A number of things.

    Example:
        >>> counted(1, "input"), counted(1200, "input")
        ('1 input', '1,200 inputs')
    """
    return f"{count:,} {thing}{'s' if count != 1 else ''}"
