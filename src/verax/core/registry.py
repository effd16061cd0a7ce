"""Classes by name, their settings to and from files and code, and plugins that define more of them."""

import difflib
import importlib
import inspect
import os
import re
import sys
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar

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
    """Classes that were defined, by name."""

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
    """The name of a class as files and commands write it."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()


def unknown(name: object, known: Iterable[str]) -> str:
    """Say what was expected instead of a name, and which one may have been meant."""
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
    """Import modules by their dotted names, from the working directory or the path."""
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


_FORM = re.compile(r"\s*([\w.\-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_BARE = re.compile(r"[A-Za-z_][\w.\-]*")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def from_dict(kind: type[Any], settings: Mapping[str, Any]) -> Any:
    """Make a value from its settings; one that is itself a value is a table that says of which class.

    A class out of a few is said by ``method``. One of an open family, which is every class that derives from an
    abstract one, is said by ``name``, in small letters.
    """
    allowed = [field.name for field in fields(kind)]
    if extra := [name for name in settings if name not in allowed]:
        listed = ", ".join(allowed) or "none"
        raise ValueError(f"{', '.join(extra)}: {kind.__name__} has no such setting; it has {listed}")
    return kind(**{name: _field_from_dict(kind, name, value) for name, value in settings.items()})


def to_dict(value: Any) -> dict[str, Any]:
    """The settings of a value as JSON and TOML can hold them, without those that are None; ``from_dict`` reads them."""
    settings = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: _field_to_dict(setting) for name, setting in settings.items() if setting is not None}


def _field_to_dict(value: Any) -> Any:
    if is_dataclass(value):
        return _class_entry(type(value)) | to_dict(value)
    if callable(value):
        raise ValueError(f"a file cannot hold the function {value!r}; define a class of your own that calls it")
    return list(value) if isinstance(value, tuple) else value


def _field_from_dict(kind: type[Any], name: str, value: Any) -> Any:
    hint = typing.get_type_hints(kind)[name]
    parts = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    kinds = [member for part in parts if is_dataclass(part) for member in _concrete_classes(part)]
    if not kinds or (value is None and type(None) in parts):
        return tuple(value) if isinstance(value, list) else value
    key = next(iter(_class_entry(kinds[0])))
    nested = {_class_entry(member)[key]: member for member in kinds}
    if not isinstance(value, Mapping) or value.get(key) not in nested:
        raise ValueError(f"{name}: expected a table with {key} {' or '.join(nested)}, got {value!r}")
    rest = {setting: entry for setting, entry in value.items() if setting != key}
    try:
        return from_dict(nested[value[key]], rest)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}") from None


def _class_entry(kind: type[Any]) -> dict[str, str]:
    """How a table says of which class its value is."""
    if any(inspect.isabstract(base) for base in kind.__mro__):
        return {"name": file_name(kind)}
    return {"method": kind.__name__}


def _concrete_classes(kind: Any) -> list[type[Any]]:
    """The class itself, or all that derive from an abstract one, in the order in which they were defined."""
    below = [member for derived in kind.__subclasses__() for member in _concrete_classes(derived)]
    return below if inspect.isabstract(kind) else [kind, *below]


def code_of(value: Any) -> str:
    """The import lines and the constructor call of a dataclass, also where settings are dataclasses."""
    kinds = [(kind.__module__, kind.__name__) for kind in _dataclasses_of(value)]
    imports = sorted(
        {
            f"# {name} is the class of your script"
            if module == "__main__"
            else f"from {_public_module(module, name)} import {name}"
            for module, name in kinds
        }
    )
    settings = ", ".join(f"{field.name}={getattr(value, field.name)!r}" for field in fields(value))
    return "\n".join([*imports, f"{type(value).__name__}({settings})"])


def _dataclasses_of(value: Any) -> list[type]:
    if not is_dataclass(value):
        return []
    return [type(value), *(kind for field in fields(value) for kind in _dataclasses_of(getattr(value, field.name)))]


def _public_module(module: str, name: str) -> str:
    """The shortest module of the library that has a class, such as ``verax.replacement``; others as they are."""
    if not module.startswith("verax."):
        return module
    homes = (f"verax.{part}" for part in module.split(".")[1:])
    return next((home for home in homes if hasattr(sys.modules.get(home), name)), module)


def parse_short_form(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the settings of a short form; values are those of TOML, and plain words may go without quotes."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"expected NAME or NAME(SETTING=VALUE, ...), got {text}")
    settings = {}
    for part in split_settings(match[2] or ""):
        name, sign, value = part.partition("=")
        if not sign or not name.strip().isidentifier():
            raise ValueError(f"{match[1]}: expected SETTING=VALUE, got {part.strip()}")
        settings[name.strip()] = _parse_value(value.strip())
    return match[1], settings


def split_settings(text: str) -> list[str]:
    """The parts between commas that are in no bracket and in no quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in _PAIRS:
            depth += 1
        elif sign in _PAIRS.values():
            depth -= 1
        elif sign == "," and not depth:
            parts.append(text[start:place])
            start = place + 1
    return [part for part in (*parts, text[start:]) if part.strip()]


def _parse_value(text: str) -> Any:
    spelt = {"True": "true", "False": "false"}.get(text, text)
    try:
        return tomllib.loads(f"value = {spelt}")["value"]
    except tomllib.TOMLDecodeError:
        if _BARE.fullmatch(text):
            return text
        raise ValueError(f"{text}: expected a number, true, false, a text in quotes or a list") from None
