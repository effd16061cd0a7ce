"""Warnings: each points to the line of the user's code that called Verax, and is given once per call."""

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_PACKAGE = str(Path(__file__).parent.parent) + os.sep
_given: ContextVar[set[str] | None] = ContextVar("verax_warnings_given", default=None)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside Verax that made the call; inside ``once_per_call`` a kind of warning is given once."""
    already, kind = _given.get(), kind_of(message)
    if already is not None:
        if kind in already:
            return
        already.add(kind)
    warnings.warn(message, category, stacklevel=_level())


@contextmanager
def once_per_call() -> Iterator[None]:
    """Give each kind of warning once in this block, also where it calls others that do the same."""
    if _given.get() is not None:
        yield
        return
    token = _given.set(set())
    try:
        yield
    finally:
        _given.reset(token)


def kind_of(message: str) -> str:
    """A warning without the numbers and names that differ between parts of the same data."""
    return re.sub(r"[\d.,]+", "", message.split(":", maxsplit=1)[0])


def _level() -> int:
    """The stack level, seen from ``warn``, of the caller of the outermost frame of this package."""
    frame, level, outside = sys._getframe(1), 1, 2
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            outside = level + 1
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return outside
