"""Classes by name, and the modules of one's own that define more of them."""

import difflib
import importlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

Kind = TypeVar("Kind")
_STABILITY = (
    "it rates how far attributions move when inputs do, not whether they are faithful, and needs the method itself: "
    "captum.metrics.sensitivity_max or quantus.MaxSensitivity compute it"
)
_ELSEWHERE = dict.fromkeys(  # names that resemble some here and mean another thing, without case and signs
    ("sensitivitymax", "maxsensitivity", "avgsensitivity", "sensitivity"), _STABILITY
)
_plugins: list[str] = []


class Registry(Generic[Kind]):
    """Classes that were defined, by name.

    Args:
        noun: What they are, for messages.

    Example:
        >>> shapes: Registry[object] = Registry("shape")
        >>> shapes.add("circle", type("Circle", (), {}))
        >>> "circle" in shapes, list(shapes)
        (True, ['circle'])
        >>> shapes.get("cirle")
        Traceback (most recent call last):
        ValueError: shape: expected circle, got 'cirle'; did you mean 'circle'?
    """

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self._known: dict[str, type[Kind]] = {}

    def add(self, name: str, kind: type[Kind]) -> None:
        """Make a class known; one that is defined again, as when a cell of a notebook is run twice, takes its place."""
        before = self._known.get(name)
        if before is not None and _place(before) != _place(kind):
            raise ValueError(
                f"{self.noun}: {name!r} is the name of {_place(before)} already, so {_place(kind)} needs another one."
            )
        self._known[name] = kind

    def get(self, name: object, argument: str | None = None) -> type[Kind]:
        """The class of that name, or what there is instead."""
        if isinstance(name, str) and name in self._known:
            return self._known[name]
        raise ValueError(f"{argument or self.noun}: {unknown(name, self._known)}")

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def values(self) -> Iterable[type[Kind]]:
        """All classes, in the order in which they were defined."""
        return self._known.values()


def file_name(kind: type) -> str:
    """The name of a class as files and commands write it.

    Example:
        >>> file_name(type("NoisyLinear", (), {}))
        'noisy_linear'
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()


def unknown(name: object, known: Iterable[str]) -> str:
    """Say what was expected instead of a name, and which one may have been meant.

    Example:
        >>> unknown("helco", ["heloc", "isic"])
        "expected heloc or isic, got 'helco'; did you mean 'heloc'?"
    """
    *most, last = known
    listed = f"{', '.join(most)} or {last}" if most else last
    letters = re.sub(r"[^a-z]", "", str(name).lower())
    if letters in _ELSEWHERE and "sensitivity_n" in (*most, last):
        return f"expected {listed}, got {name!r}; {_ELSEWHERE[letters]}."
    close = difflib.get_close_matches(str(name), [*most, last], n=1)
    return f"expected {listed}, got {name!r}" + (f"; did you mean {close[0]!r}?" if close else ".")


def _place(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def load_plugins(modules: Sequence[str]) -> None:
    """Import modules by their dotted names, from the working directory or the path.

    Args:
        modules: What the user named. What worker processes are to import as well is remembered.
    """
    if modules and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    for name in modules:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # the module is there, and lacks one of its own
            raise ImportError(
                f"--import: there is no module {name!r} in {os.getcwd()} or on Python's path; "
                "give its dotted name, without .py."
            ) from None
        if name not in _plugins:
            _plugins.append(name)


def loaded_plugins() -> tuple[str, ...]:
    """The modules that were imported so far, for workers to import."""
    return tuple(_plugins)
