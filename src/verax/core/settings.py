"""Settings of methods, metrics and replacements: to and from files, the command line and Python code."""

import inspect
import re
import sys
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from verax.core.registry import file_name

_FORM = re.compile(r"\s*([\w.\-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_BARE = re.compile(r"[A-Za-z_][\w.\-]*")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def from_dict(kind: type[Any], settings: Mapping[str, Any]) -> Any:
    """Make a value from its settings; one that is itself a value is a table that says of which class.

    A class out of a few is said by ``method``. One of an open family, which is every class that derives from an
    abstract one, is said by ``name``, in small letters.

    Args:
        kind: A frozen dataclass.
        settings: Its fields, by name; lists stand for tuples.

    Example:
        >>> from verax.attribution import LimeImage
        >>> from_dict(LimeImage, {"alpha": 0.1, "segmenter": {"method": "Slic", "n_segments": 48}}).segmenter
        Slic(n_segments=48, sigma=0.0)
        >>> from verax.metrics import PredictionChange
        >>> from_dict(PredictionChange, {"replacement": {"name": "nudge", "epsilon": 0.1}}).replacement
        Nudge(epsilon=0.1)
    """
    allowed = [field.name for field in fields(kind)]
    if extra := [name for name in settings if name not in allowed]:
        listed = ", ".join(allowed) or "none"
        raise ValueError(f"{', '.join(extra)}: {kind.__name__} has no such setting; it has {listed}")
    return kind(**{name: _field_from_dict(kind, name, value) for name, value in settings.items()})


def to_dict(value: Any) -> dict[str, Any]:
    """The settings of a value as JSON and TOML can hold them, without those that are None; ``from_dict`` reads them.

    Example:
        >>> from verax.attribution import IntegratedGradients
        >>> to_dict(IntegratedGradients("max"))
        {'baseline': 'max', 'multiply_by_inputs': True, 'points': 64}
    """
    own = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: _field_to_dict(setting) for name, setting in own.items() if setting is not None}


def _field_to_dict(value: Any) -> Any:
    if is_dataclass(value):
        return _class_entry(type(value)) | to_dict(value)
    if callable(value):
        raise ValueError(f"a file cannot hold the function {value!r}; define a class of your own that calls it")
    return list(value) if isinstance(value, tuple) else value


def _field_from_dict(kind: type[Any], name: str, value: Any) -> Any:
    parts = _union_members(typing.get_type_hints(kind)[name])
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


def _union_members(hint: Any) -> tuple[Any, ...]:
    union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if union else (hint,)


def code_of(value: Any) -> str:
    """The import lines and the constructor call of a dataclass, also where settings are dataclasses.

    Example:
        >>> from verax.attribution import SmoothGrad
        >>> print(code_of(SmoothGrad(sigma=0.5)))
        from verax.attribution import SmoothGrad
        SmoothGrad(sigma=0.5, samples=64, seed=0)
    """
    imports = sorted({_import_line(kind) for kind in _dataclasses_of(value)})
    settings = ", ".join(f"{field.name}={getattr(value, field.name)!r}" for field in fields(value))
    return "\n".join([*imports, f"{type(value).__name__}({settings})"])


def _dataclasses_of(value: Any) -> list[type]:
    if not is_dataclass(value):
        return []
    return [type(value), *(kind for field in fields(value) for kind in _dataclasses_of(getattr(value, field.name)))]


def _import_line(kind: type) -> str:
    module, name = kind.__module__, kind.__name__
    if module == "__main__":
        return f"# {name} is the class of your script"
    return f"from {_public_module(module, name)} import {name}"


def _public_module(module: str, name: str) -> str:
    """The shortest module of the library that has a class, such as ``verax.replacement``; others as they are."""
    if not module.startswith("verax."):
        return module
    homes = (f"verax.{part}" for part in module.split(".")[1:])
    return next((home for home in homes if hasattr(sys.modules.get(home), name)), module)


def parse_short_form(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the settings of a short form; values are those of TOML, and plain words may go without quotes.

    Args:
        text: ``name`` or ``name(setting=value, ...)``.

    Example:
        >>> parse_short_form("dpc(order=signed, steps=10)")
        ('dpc', {'order': 'signed', 'steps': 10})
        >>> parse_short_form('lime_tabular(sigma="std", scale_kernel=true)')
        ('lime_tabular', {'sigma': 'std', 'scale_kernel': True})
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"expected NAME or NAME(SETTING=VALUE, ...), got {text}")
    settings = {}
    for part in _split_settings(match[2] or ""):
        name, sign, value = part.partition("=")
        if not sign or not name.strip().isidentifier():
            raise ValueError(f"{match[1]}: expected SETTING=VALUE, got {part.strip()}")
        settings[name.strip()] = _parse_value(value.strip())
    return match[1], settings


def _split_settings(text: str) -> list[str]:
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
