"""Checks of single arguments: errors name the argument, before any work."""

import itertools
import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any


def checked_count(name: str, value: Any, least: int = 1) -> int:
    """Read a whole number with a lower bound."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name}: expected a whole number of at least {least}, got {value!r}.")
    return int(value)


def checked_positive(name: str, value: Any) -> float:
    """Read a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise ValueError(f"{name}: expected a positive, finite number, got {value!r}.")
    return float(value)


def checked_not_negative(name: str, value: Any) -> float:
    """Read a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
        raise ValueError(f"{name}: expected a finite number of at least 0, got {value!r}.")
    return float(value) + 0.0  # -0.0 becomes 0.0


def checked_level(level: Any) -> float:
    """Read the coverage of intervals: the share of them that are to hold what they are about."""
    if isinstance(level, bool) or not isinstance(level, float) or not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level!r}.")
    return level


def checked_flag(name: str, value: Any) -> None:
    """Raise for what is neither True nor False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}: expected True or False, got {value!r}.")


def checked_seed(value: Any) -> int:
    """Read a seed: any whole number."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"seed: expected a whole number, got {value!r}.")
    return int(value)


def kind_in_words(value: Any) -> str:
    """What was found where something else was wanted, in a few words whatever its size: its type, length or shape."""
    words = type(value).__name__
    if isinstance(value, Mapping):
        names = ", ".join(map(repr, itertools.islice(value, 8)))
        return f"a {words} of {names}{', ...' if len(value) > 8 else ''}" if value else f"an empty {words}"
    if isinstance(value, tuple | list):
        return f"a {words} of {len(value)}"
    shape = getattr(value, "shape", None)
    return words if shape is None else f"{words} of shape {tuple(shape)}"


def settle(settings: object, **checked: Any) -> None:
    """Store checked settings in a frozen dataclass, so that NumPy's numbers do not show in its form."""
    for name, value in checked.items():
        object.__setattr__(settings, name, value)


def checked_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raise for a word that is not among the allowed ones."""
    if value not in allowed:
        raise ValueError(f"{name}: expected one of {', '.join(map(repr, allowed))}, got {value!r}.")
