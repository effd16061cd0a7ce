"""Progress: a bar on a terminal, plain lines elsewhere."""

import io
import re
from types import SimpleNamespace

import pytest

from verax.study import run
from verax.study.plan import duration
from verax.study.run import Bar, Watcher, watching


class Stream(io.StringIO):
    """A stream to look at, with the attributes of those that files have."""

    mode, name, buffer = "w", "stream", io.BytesIO()  # type: ignore[assignment]


class Terminal(Stream):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Time that passes when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm-256color")
    return Terminal()


def text(stream: io.StringIO) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())


def test_the_pace_tells_what_is_left(clock: Clock) -> None:
    watcher = Watcher(4, Stream())
    assert watcher.pace() == "measuring the pace"
    clock.now += 30
    watcher(3_000)
    assert watcher.pace() == "100 rows/s, 2 min left"
    clock.now += 30
    watcher(9_000)
    assert watcher.pace() == "200 rows/s, 60 s left"
    watcher(0)
    watcher(0)
    assert watcher.pace().endswith("0 s left")


def test_durations_in_words() -> None:
    assert [duration(seconds) for seconds in (0.0, 89.0, 90.0, 3599.0, 3600.0, 86_400.0)] == [
        "0 s",
        "89 s",
        "2 min",
        "1 h 0 min",
        "1 h 0 min",
        "24 h 0 min",
    ]


def test_plain_lines_come_once_a_minute_and_at_the_end(clock: Clock) -> None:
    stream = Stream()
    with watching(3, stream) as watcher:
        assert not isinstance(watcher, Bar)
        watcher("Gradient")
        watcher(100)
        assert stream.getvalue() == ""
        clock.now += 61
        watcher("LimeTabular")
        assert stream.getvalue() == "1 of 3 units, 2 rows/s, 2 min left, LimeTabular\n"
        watcher("metrics")
        clock.now += 30
        watcher(100)
        assert stream.getvalue().count("\n") == 1
        watcher.log("a file was moved")
        watcher(100)
    assert stream.getvalue().splitlines()[1:] == ["a file was moved", "3 of 3 units, 3 rows/s, 0 s left, metrics"]
    assert "\x1b" not in stream.getvalue()


def test_a_terminal_has_a_bar(terminal: Terminal, clock: Clock) -> None:
    with watching(2, terminal) as watcher:
        assert isinstance(watcher, Bar)
        watcher("Gradient")
        assert watcher.bar.tasks[0].description == "measuring the pace  Gradient"
        clock.now += 10
        watcher(1_000)
        assert watcher.bar.tasks[0].completed == 1
        assert watcher.bar.tasks[0].description == "100 rows/s, 10 s left  Gradient"
        watcher.log("[red]x[/red] scores/a.parquet: damaged")
        watcher(1_000)
        assert watcher.bar.finished
    shown = text(terminal)
    assert "2/2" in shown
    assert "[red]x[/red] scores/a.parquet: damaged" in shown  # brackets are not taken for colours
    assert "\x1b[?25h" in terminal.getvalue()  # the cursor is back


def test_the_cursor_comes_back_after_an_error(terminal: Terminal) -> None:
    with pytest.raises(KeyboardInterrupt), watching(2, terminal):
        raise KeyboardInterrupt
    assert "\x1b[?25h" in terminal.getvalue()


def test_nothing_to_do_is_no_trouble(terminal: Terminal) -> None:
    with watching(0, terminal) as watcher:
        watcher("examples")
    stream = Stream()
    with watching(0, stream) as watcher:
        watcher("examples")
    assert stream.getvalue() == ""
