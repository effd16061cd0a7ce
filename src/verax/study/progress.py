"""Progress of a study: a bar on a terminal, a plain line a minute elsewhere."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Protocol, TextIO, runtime_checkable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from verax.core.display import escape

PLAIN_SECONDS = 60.0


@runtime_checkable
class Watcher(Protocol):
    """Told what happens."""

    def log(self, line: str) -> None:
        """Something worth a line."""

    def family(self, name: str) -> None:
        """What is computed now."""

    def done(self, rows: int) -> None:
        """A unit is stored; it took so many model rows."""


class Speed:
    """Units and rows so far, and the time that is left at this pace."""

    def __init__(self, units: int) -> None:
        self.units, self.finished, self.rows = units, 0, 0
        self.began = time.monotonic()

    def add(self, rows: int) -> None:
        """Count a unit."""
        self.finished += 1
        self.rows += rows

    def words(self) -> str:
        """Rows per second and time left."""
        passed = max(1e-9, time.monotonic() - self.began)
        if not self.finished:
            return "measuring the pace"
        left = passed / self.finished * (self.units - self.finished)
        return f"{self.rows / passed:,.0f} rows/s, {duration(left)} left"


class Bar:
    """A bar on a terminal."""

    def __init__(self, units: int, console: Console) -> None:
        self.speed, self.now = Speed(units), ""
        self.bar = Progress(
            TextColumn("[bold]units"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=console,
        )
        self.task = self.bar.add_task("", total=units)

    def log(self, line: str) -> None:
        """Print above the bar."""
        self.bar.console.print(escape(line), highlight=False, markup=False)

    def family(self, name: str) -> None:
        """Show beside the bar."""
        self.now = escape(name)
        self._show()

    def done(self, rows: int) -> None:
        """Move the bar."""
        self.speed.add(rows)
        self.bar.advance(self.task)
        self._show()

    def _show(self) -> None:
        self.bar.update(self.task, description=f"{self.speed.words()}  {self.now}")


class Lines:
    """A line a minute."""

    def __init__(self, units: int, to: TextIO) -> None:
        self.speed, self.to, self.now = Speed(units), to, ""
        self.last = time.monotonic()

    def log(self, line: str) -> None:
        """Print."""
        print(escape(line), file=self.to, flush=True)  # this is what it is for

    def family(self, name: str) -> None:
        """Say so, at most once a minute."""
        self.now = escape(name)
        if time.monotonic() - self.last >= PLAIN_SECONDS:
            self._say()

    def done(self, rows: int) -> None:
        """Say so, at most once a minute, and at the end."""
        self.speed.add(rows)
        if time.monotonic() - self.last >= PLAIN_SECONDS or self.speed.finished == self.speed.units:
            self._say()

    def _say(self) -> None:
        self.last = time.monotonic()
        self.log(f"{self.speed.finished} of {self.speed.units} units, {self.speed.words()}, {self.now}")


@contextlib.contextmanager
def watching(units: int, to: TextIO | None = None) -> Iterator[Watcher]:
    """A watcher that fits where the output goes."""
    stream = to or sys.stderr
    if not stream.isatty():
        yield Lines(units, stream)
        return
    bar = Bar(units, Console(file=stream))
    with bar.bar:
        yield bar


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
