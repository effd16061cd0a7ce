"""Results as text and HTML: small tables, numbers with the digits that mean something, safe names."""

import html
import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control characters, also invisible ones that turn the reading order
_MOST = 6  # significant digits, however narrow an interval is
_SMALLEST, _LARGEST = 1e-4, 1e9  # what is written without a power of ten
MOST_ROWS = 40  # more are cut: a grid of hundreds of configurations is for a data frame, not for a screen
# no colours of its own: the table takes those of the page, light or dark
_TABLE_STYLE = (
    'style="color: inherit; font-size: inherit; border-collapse: collapse; font-variant-numeric: tabular-nums"'
)
_CELL_STYLE = 'style="text-align: left; padding: 2px 12px 2px 0; white-space: nowrap"'
_HEAD_STYLE = 'style="text-align: left; padding: 2px 12px 2px 0; border-bottom: 1px solid"'
_CAPTION_STYLE = 'style="color: inherit; text-align: left; padding: 4px 0"'


def escape(text: str) -> str:
    """Text with control characters written out, so that no name moves the cursor, colours or hides text.

    Line breaks and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(_shown(sign) for sign in text)


def _shown(sign: str) -> str:
    harmful = sign not in "\n\t" and unicodedata.category(sign) in _HARMFUL
    return sign.encode("unicode_escape").decode("ascii") if harmful else sign


def digits_of_interval(values: Sequence[float], reach: float) -> list[str]:
    """Numbers that share an uncertainty, with the decimals that show two digits of it."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if not (math.isfinite(reach) and reach > 0 and largest > 0):
        return [significant(value, 4) for value in values]
    decimals = min(1 - _exponent(reach), _MOST - 1 - _exponent(largest))
    plain = _SMALLEST <= largest < _LARGEST
    return [_fixed(value, decimals) if plain else _scientific(value, decimals) for value in values]


def significant(value: float, digits: int = 3) -> str:
    """A number of so many significant digits; a large one is written out."""
    if 10**digits <= abs(value) < _LARGEST:
        return f"{float(f'{value:.{digits}g}'):.0f}"
    return f"{value:.{digits}g}"


def _fixed(value: float, decimals: int) -> str:
    if not math.isfinite(value):
        return f"{value:g}"
    return f"{round(value, decimals) + 0.0:.{max(decimals, 0)}f}"  # the sum takes the sign off a zero


def _scientific(value: float, decimals: int) -> str:
    rounded = round(value, decimals) if math.isfinite(value) else value
    if not math.isfinite(rounded) or rounded == 0:
        return f"{rounded + 0.0:g}"
    return f"{rounded:.{max(_exponent(rounded) + decimals, 0)}e}"


def _exponent(value: float) -> int:
    """The power of ten that a number begins with; 0.042 begins with a hundredth."""
    return math.floor(math.log10(abs(value)))


@dataclass(frozen=True)
class TextTable:
    """Names and numbers, with a line about what they are.

    Attributes:
        head: Names of the columns.
        rows: Cells by row; the first one names it.
        caption: What the table shows.
        notes: Lines to put below it.
        best: Places, by row and column, of what is the best of its column: bold in HTML.
        about: Which model, class and baseline the numbers are about.
        lead: Lines to put above it.

    Example:
        >>> print(TextTable(("name", "mean"), (("a", "0.5"), ("longer", "-1")), "Two means").text())
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
        sentences = [f"{_one_line(line)}." for line in (self.caption, self.about) if line]
        lead = [*map(_one_line, self.lead), *([""] if self.lead else [])]
        return "\n".join([*lead, *lines, *sentences, *([""] if notes else []), *notes])

    def html(self) -> str:
        """A table that needs neither script nor style sheet; whatever a name contains is shown, not run."""
        top = "".join(f'<th scope="col" {_HEAD_STYLE}>{html.escape(cell)}</th>' for cell in self.head)
        body = "".join(f"<tr>{''.join(self._cells(place))}</tr>" for place in range(len(self.rows)))
        words = f"{self.caption}; bold: the best" if self.best else self.caption
        words = f"{words}. {self.about}" if self.about else words
        caption = f"<caption {_CAPTION_STYLE}>{html.escape(words)}</caption>"
        notes = "".join(f"<li>{html.escape(line)}</li>" for line in self.notes)
        table = f"<table {_TABLE_STYLE}>{caption}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
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
        yield f'<th scope="row" {_CELL_STYLE}>{name}</th>'
        for column, cell in enumerate(rest, start=1):
            yield f"<td {_CELL_STYLE}>{f'<b>{cell}</b>' if (place, column) in self.best else cell}</td>"


def metric_head(label: str, higher_is_better: bool) -> str:
    """A metric as the head of a column."""
    return f"{label} ({'higher' if higher_is_better else 'lower'} is better)"


def first_rows(rows: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """The first rows, and a last one with the number of those left out."""
    if len(rows) <= MOST_ROWS:
        return tuple(rows)
    rest = (f"... and {len(rows) - MOST_ROWS} more", *[""] * (len(rows[0]) - 1))
    return (*rows[:MOST_ROWS], rest)


def cost(rows: int, seconds: float) -> str:
    """What a call cost."""
    return f"{rows:,} model rows, {seconds:.3g} s"


def _one_line(cell: str) -> str:
    """A cell as text; a name that breaks the line would forge rows."""
    return escape(cell).replace("\n", "\\n").replace("\t", "\\t")


def counted(count: int, thing: str) -> str:
    """A number of things."""
    return f"{count:,} {thing}{'s' if count != 1 else ''}"


class Shown:
    """What is shown as its table, in a terminal and in a notebook."""

    def _table(self) -> TextTable:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()
