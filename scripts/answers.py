"""Tables and figures of a page of the docs: printed, written, and put where the page has marked a place for them.

Part of ``scripts/open_questions.py``.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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
        tables: In Markdown, by name.
    """

    out: Path
    tables: dict[str, str] = field(default_factory=dict)

    def table(self, name: str, head: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
        """Print a table and keep it for the page."""
        rows = [head, ["---"] * len(head), *lines]
        text = "\n".join(f"| {' | '.join(cell.replace('|', _BAR) for cell in row)} |" for row in rows)
        self.tables[name] = text
        print(f"\n{name}\n\n{text}", flush=True)

    def figure(self, name: str, figure: Figure) -> None:
        """Write a figure whose text stays text, and say how large it is."""
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{name}.svg"
        with mpl.rc_context({"svg.fonttype": "none"}):
            save(figure, path)
        print(f"\n{path.name}: {path.stat().st_size / 1024:.0f} KiB", flush=True)

    def fill(self, page: Path) -> None:
        """Put each table between the lines ``<!-- NAME -->`` and ``<!-- end -->`` of a page.

        Rows of models that are in the page already and were not measured this time stay, below the others.
        """
        text = page.read_text(encoding="utf-8")
        for name, table in self.tables.items():
            place = re.search(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end -->)", text, flags=re.DOTALL)
            if place is None:
                raise SystemExit(f"{page}: has no place for the table {name!r}.")
            measured = {_model(line) for line in table.splitlines()}
            kept = [line for line in place[0].split("\n") if line.startswith("|") and _model(line) not in measured]
            text = "\n".join((text[: place.start()], table, *kept, "", text[place.end() :]))
        page.write_text(text, encoding="utf-8")


def _model(line: str) -> str:
    """The model of a row of a table: its first cell, without the number of inputs."""
    return re.split(r"[|,]", line)[1].strip()


def mean_error(values: Tensor) -> str:
    """A mean with its standard error."""
    error = float(values.std() / len(values) ** 0.5)
    digits = max(0, 1 - math.floor(math.log10(error))) if error else 3
    return f"{values.mean():.{digits}f} ({error:.{digits}f})"
