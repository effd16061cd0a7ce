"""Progress of a study: a bar on a terminal, a plain line a minute elsewhere."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from verax.core.display import escape

PLAIN_SECONDS = 60.0


class Speed:
    """Units and rows so far, and the time that is left at this pace."""

    def __init__(self, units: int) -> None:
        self.units, self.finished, self.rows = units, 0, 0
        self.began = time.monotonic()

    def add(self, rows: int) -> None:
        self.finished += 1
        self.rows += rows

    def words(self) -> str:
        passed = max(1e-9, time.monotonic() - self.began)
        if not self.finished:
            return "measuring the pace"
        left = passed / self.finished * (self.units - self.finished)
        return f"{self.rows / passed:,.0f} rows/s, {duration(left)} left"


class Watcher:
    """Told what happens; prints a line a minute and at the end, and whatever is worth a line."""

    def __init__(self, units: int, to: Any) -> None:  # a text stream
        self.speed, self.to, self.now = Speed(units), to, ""
        self.last = time.monotonic()

    def __call__(self, event: str | int) -> None:
        """What engines tell: what is computed now, or that a unit is stored, and its model rows."""
        if isinstance(event, str):
            self.family(event)
        else:
            self.done(event)

    def log(self, line: str) -> None:
        print(escape(line), file=self.to, flush=True)  # this is what it is for

    def family(self, name: str) -> None:
        """What is computed now."""
        self.now = escape(name)
        self._show()

    def done(self, rows: int) -> None:
        """A unit is stored; it took so many model rows."""
        self.speed.add(rows)
        self._show(last=self.speed.finished == self.speed.units)

    def _show(self, last: bool = False) -> None:
        if last or time.monotonic() - self.last >= PLAIN_SECONDS:
            self.last = time.monotonic()
            self.log(f"{self.speed.finished} of {self.speed.units} units, {self.speed.words()}, {self.now}")


class Bar(Watcher):
    """A bar on a terminal, with lines above it."""

    def __init__(self, units: int, to: Any) -> None:  # a text stream
        super().__init__(units, to)
        self.bar = Progress(
            TextColumn("[bold]units"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(file=to),
        )
        self.task = self.bar.add_task("", total=units)

    def log(self, line: str) -> None:
        self.bar.console.print(escape(line), highlight=False, markup=False)

    def _show(self, last: bool = False) -> None:
        shown = f"{self.speed.words()}  {self.now}"
        self.bar.update(self.task, description=shown, completed=self.speed.finished)


@contextlib.contextmanager
def watching(units: int, to: TextIO | None = None) -> Iterator[Watcher]:
    """A watcher that fits where the output goes."""
    stream = to or sys.stderr
    if not stream.isatty():
        yield Watcher(units, stream)
        return
    watcher = Bar(units, stream)
    with watcher.bar:
        yield watcher


def duration(seconds: float) -> str:
    """Seconds in words.

    Example:
        >>> duration(5.0), duration(200.0), duration(9000.0)
        ('5 s', '3 min', '2 h 30 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
