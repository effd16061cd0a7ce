"""Replacements in words, as commands take them: a name and settings, ``marginal:draws=16,seed=1``."""

import re
import typing
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any, Literal

from verax.core.registry import unknown
from verax.problem.replacement.base import REPLACEMENTS, Replacement

_FORM = re.compile(r"\s*(\w+)\s*(?::(.*)|\((.*)\)\s*)?", re.DOTALL)
_TRUTH = {"true": True, "false": False}
_Reader = tuple[str, Callable[[str], Any]]
_READERS: dict[Any, _Reader] = {
    float: ("NUMBER", float),
    int: ("COUNT", int),
    bool: ("true|false", lambda word: _TRUTH[word]),
    str: ("WORD", str),
    int | Literal["every"]: ("COUNT|every", lambda word: word if word == "every" else int(word)),
}


def replacement_from(words: str, argument: str = "replacement") -> Replacement:
    """Read a replacement: its name, and after a colon its settings with commas between them, or in brackets.

    Example:
        >>> replacement_from("nudge:epsilon=0.1"), replacement_from("conditional")
        (Nudge(epsilon=0.1), Conditional(ridge=1e-06, draws=0, seed=0))
        >>> replacement_from("nudge(epsilon=0.1)"), replacement_from("Nudge(epsilon=0.1)")  # as metrics, as in tables
        (Nudge(epsilon=0.1), Nudge(epsilon=0.1))
        >>> replacement_from("nudge")
        Traceback (most recent call last):
        ValueError: replacement: nudge needs epsilon; say nudge:epsilon=NUMBER.
    """
    form = _FORM.fullmatch(words)
    name, rest = (words, "") if form is None else (form[1], form[2] or form[3] or "")
    known = {kind_name: REPLACEMENTS.get(kind_name) for kind_name in sayable()}
    name = next((said for said, kind in known.items() if kind.__name__ == name), name)
    if name not in known:
        raise ValueError(f"{argument}: {unknown(name, known)}")
    settings = _settings(known[name], name, rest, argument)
    if missing := [field.name for field in fields(known[name]) if _required(field) and field.name not in settings]:
        raise ValueError(f"{argument}: {name} needs {', '.join(missing)}; say {_form(name, known[name])}.")
    try:
        return known[name](**settings)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{argument}: {name}: {error}") from None


def sayable() -> dict[str, str]:
    """Names of all replacements that words can say, each with the settings that it cannot do without.

    Example:
        >>> sayable()["blur"], sayable()["noisy_linear"], "own" in sayable()  # which is a function
        ('blur:sigma=NUMBER', 'noisy_linear', False)
    """
    kinds = {name: REPLACEMENTS.get(name) for name in REPLACEMENTS}
    return {name: _form(name, kind) for name, kind in kinds.items() if _can_be_said(kind)}


def needs_background(replacement: Replacement) -> bool:
    """Whether it takes rows of training data and has none of its own."""
    return getattr(replacement, "background", ...) is None


def _settings(kind: type[Replacement], name: str, text: str, argument: str) -> dict[str, Any]:
    formats = _settings_of(kind)
    settings: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in formats or not equals:
            what = f"it has {', '.join(formats)}" if formats else "it has none"
            raise ValueError(f"{argument}: {name}: expected setting=value, got {part!r}; {what}.")
        expected, read = formats[key]
        try:
            settings[key] = read(value)
        except (ValueError, KeyError):
            raise ValueError(f"{argument}: {name}: {key}: expected {expected}, got {value!r}.") from None
    return settings


def _settings_of(kind: type[Replacement]) -> dict[str, _Reader]:
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


def _can_be_said(kind: type[Replacement]) -> bool:
    return all(field.name in _settings_of(kind) for field in fields(kind) if _required(field))


def _required(field: "Field[Any]") -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _form(name: str, kind: type[Replacement]) -> str:
    formats = _settings_of(kind)
    needed = [f"{field.name}={formats[field.name][0]}" for field in fields(kind) if _required(field)]
    return f"{name}:{','.join(needed)}" if needed else name
