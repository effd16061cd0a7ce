"""Frozen values from plain tables and back: how a method or a metric is written in a file."""

import inspect
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from verax.core.registry import file_name


def made(kind: type[Any], settings: Mapping[str, Any]) -> Any:
    """Make a value from its settings; one that is itself a value is a table that says of which class.

    A class out of a few is said by ``method``. One of an open family, which is every class that derives from an
    abstract one, is said by ``name``, in small letters.

    Args:
        kind: A frozen dataclass.
        settings: Its fields, by name; lists stand for tuples.

    Example:
        >>> from verax.attribution import LimeImage
        >>> made(LimeImage, {"alpha": 0.1, "segmenter": {"method": "Slic", "n_segments": 48}}).segmenter
        Slic(n_segments=48, sigma=0.0)
        >>> from verax.metrics import PredictionChange
        >>> made(PredictionChange, {"replacement": {"name": "nudge", "epsilon": 0.1}}).replacement
        Nudge(epsilon=0.1)
    """
    allowed = [field.name for field in fields(kind)]
    if extra := [name for name in settings if name not in allowed]:
        listed = ", ".join(allowed) or "none"
        raise ValueError(f"{', '.join(extra)}: {kind.__name__} has no such setting; it has {listed}")
    return kind(**{name: _read(kind, name, value) for name, value in settings.items()})


def plain(value: Any) -> dict[str, Any]:
    """The settings of a value as JSON and TOML can hold them, without those that are None; ``made`` reads them.

    Example:
        >>> from verax.attribution import IntegratedGradients
        >>> plain(IntegratedGradients("max"))
        {'baseline': 'max', 'multiply_by_inputs': True, 'points': 64}
    """
    own = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: _written(setting) for name, setting in own.items() if setting is not None}


def _written(value: Any) -> Any:
    if is_dataclass(value):
        return _title(type(value)) | plain(value)
    if callable(value):
        raise ValueError(f"a file cannot hold the function {value!r}; define a class of your own that calls it")
    return list(value) if isinstance(value, tuple) else value


def _read(kind: type[Any], name: str, value: Any) -> Any:
    parts = _parts(typing.get_type_hints(kind)[name])
    kinds = [member for part in parts if is_dataclass(part) for member in _members(part)]
    if not kinds or (value is None and type(None) in parts):
        return tuple(value) if isinstance(value, list) else value
    key = next(iter(_title(kinds[0])))
    nested = {_title(member)[key]: member for member in kinds}
    if not isinstance(value, Mapping) or value.get(key) not in nested:
        raise ValueError(f"{name}: expected a table with {key} {' or '.join(nested)}, got {value!r}")
    rest = {setting: entry for setting, entry in value.items() if setting != key}
    try:
        return made(nested[value[key]], rest)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}") from None


def _title(kind: type[Any]) -> dict[str, str]:
    """How a table says of which class its value is."""
    if any(inspect.isabstract(base) for base in kind.__mro__):
        return {"name": file_name(kind)}
    return {"method": kind.__name__}


def _members(kind: Any) -> list[type[Any]]:
    """The class itself, or all that derive from an abstract one, in the order in which they were defined."""
    below = [member for derived in kind.__subclasses__() for member in _members(derived)]
    return below if inspect.isabstract(kind) else [kind, *below]


def _parts(hint: Any) -> tuple[Any, ...]:
    union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if union else (hint,)
