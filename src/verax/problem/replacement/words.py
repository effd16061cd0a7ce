"""Replacements in words, as commands take them: a name and settings, ``marginal:draws=16,seed=1``."""

import re
import typing
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

from verax.core.registry import unknown
from verax.problem.replacement.base import REPLACEMENTS, Replacement

_FORM = re.compile(r"\s*(\w+)\s*(?::(.*)|\((.*)\)\s*)?", re.DOTALL)
_Reader = tuple[str, Callable[[str], Any]]
_READERS: dict[Any, _Reader] = {
    float: ("NUMBER", float),
    int: ("COUNT", int),
    bool: ("true|false", {"true": True, "false": False}.__getitem__),
    str: ("WORD", str),
}


def replacement_from(words: str, argument: str = "replacement") -> Replacement:
    """Read a replacement: its name, and after a colon its settings with commas between them, or in brackets."""
    form = _FORM.fullmatch(words)
    name, rest = (words, "") if form is None else (form[1], form[2] or form[3] or "")
    known = {kind_name: REPLACEMENTS.get(kind_name) for kind_name in sayable()}
    name = next((spelt for spelt, kind in known.items() if kind.__name__ == name), name)  # as in tables
    if name not in known:
        raise ValueError(f"{argument}: {unknown(name, known)}")
    settings = _settings(known[name], name, rest, argument)
    if missing := [setting for setting in _required(known[name]) if setting not in settings]:
        raise ValueError(f"{argument}: {name} needs {', '.join(missing)}; say {_form(name, known[name])}.")
    try:
        return known[name](**settings)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{argument}: {name}: {error}") from None


def sayable() -> dict[str, str]:
    """Names of all replacements that words can say, each with the settings that it cannot do without."""
    kinds = {name: REPLACEMENTS.get(name) for name in REPLACEMENTS}
    return {name: _form(name, kind) for name, kind in kinds.items() if set(_required(kind)) <= set(_readers(kind))}


def needs_background(replacement: Replacement) -> bool:
    """Whether it takes rows of training data and has none of its own."""
    return getattr(replacement, "background", ...) is None


def _settings(kind: type[Replacement], name: str, text: str, argument: str) -> dict[str, Any]:
    readers = _readers(kind)
    settings: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in readers or not equals:
            what = f"it has {', '.join(readers)}" if readers else "it has none"
            raise ValueError(f"{argument}: {name}: expected setting=value, got {part!r}; {what}.")
        expected, read = readers[key]
        try:
            settings[key] = read(value)
        except (ValueError, KeyError):
            raise ValueError(f"{argument}: {name}: {key}: expected {expected}, got {value!r}.") from None
    return settings


def _readers(kind: type[Replacement]) -> dict[str, _Reader]:
    """Settings that a word can be read for, each with what is expected and how it is read."""
    hints = typing.get_type_hints(kind)
    readers = {field.name: _reader(hints[field.name]) for field in fields(kind)}
    return {name: reader for name, reader in readers.items() if reader is not None}


def _reader(hint: Any) -> _Reader | None:
    """How a type is read from a word; ``int | Literal["every"]`` is a number or the word itself."""
    members = typing.get_args(hint)
    plain = next((member for member in members or (hint,) if member in _READERS), None)
    choices = [choice for member in members for choice in typing.get_args(member)]
    if plain is None or (members and not choices):
        return None
    expected, read = _READERS[plain]
    return "|".join((expected, *choices)), lambda word: word if word in choices else read(word)


def _required(kind: type[Replacement]) -> list[str]:
    return [field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING]


def _form(name: str, kind: type[Replacement]) -> str:
    readers = _readers(kind)
    needed = [f"{setting}={readers[setting][0]}" for setting in _required(kind)]
    return f"{name}:{','.join(needed)}" if needed else name
