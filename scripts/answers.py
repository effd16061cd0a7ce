"""Tables and figures of a page of the docs: printed and written.

Part of ``scripts/open_questions.py``.
"""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from torch import Tensor

from verax.report.html import save

_BAR = r"\|"  # in a cell of a table


@dataclass(frozen=True)
class Answers:
    """What was found.

    Attributes:
        out: Folder of the figures.
        results: Folder of the tables, of which pages show parts; a test compares both.
    """

    out: Path
    results: Path

    def table(self, name: str, head: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
        """Print a table and write it as ``NAME.csv``.

        Rows of models that the file has already and that were not measured this time stay, below the others.
        """
        path, rows = self.results / f"{name}.csv", [list(line) for line in lines]
        measured = {_model(row) for row in rows}
        rows += [row for row in _rows(path, head) if _model(row) not in measured]
        self.results.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([head, *rows])
        shown = [head, ["---"] * len(head), *rows]
        text = "\n".join(f"| {' | '.join(cell.replace('|', _BAR) for cell in row)} |" for row in shown)
        print(f"\n{name}\n\n{text}", flush=True)

    def figure(self, name: str, figure: Figure) -> None:
        """Write a figure whose text stays text, and say how large it is."""
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{name}.svg"
        with mpl.rc_context({"svg.fonttype": "none"}):
            save(figure, path)
        print(f"\n{path.name}: {path.stat().st_size / 1024:.0f} KiB", flush=True)


def _rows(path: Path, head: Sequence[str]) -> list[list[str]]:
    """The rows of a table that was written before; none where it has other columns."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        first, *rows = csv.reader(file)
    return rows if first == list(head) else []


def _model(row: Sequence[str]) -> str:
    """The model of a row of a table: its first cell, without the number of inputs."""
    return row[0].partition(",")[0]


def mean_error(values: Tensor) -> str:
    """A mean with its standard error."""
    error = float(values.std() / len(values) ** 0.5)
    digits = max(0, 1 - math.floor(math.log10(error))) if error else 3
    return f"{values.mean():.{digits}f} ({error:.{digits}f})"
