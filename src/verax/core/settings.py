"""Frozen values from plain tables and back: how a method or a metric is written in a file."""

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def made(kind: type[Any], settings: Mapping[str, Any]) -> Any:
    """Make a value from its settings; one that is itself a value is a table with ``method``, its class.

    Args:
        kind: A frozen dataclass.
        settings: Its fields, by name; lists stand for tuples.

    Example:
        >>> from verax.attribution import LimeImage
        >>> made(LimeImage, {"alpha": 0.1, "segmenter": {"method": "Slic", "n_segments": 48}}).segmenter
        Slic(n_segments=48, sigma=0.0)
    """
    allowed = [field.name for field in fields(kind)]
    for name in settings:
        if name not in allowed:
            raise ValueError(f"{name}: {kind.__name__} has no such setting; it has {', '.join(allowed) or 'none'}")
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
        return {"method": type(value).__name__} | plain(value)
    return list(value) if isinstance(value, tuple) else value


def _read(kind: type[Any], name: str, value: Any) -> Any:
    parts = _parts(typing.get_type_hints(kind)[name])
    kinds: list[Any] = [part for part in parts if is_dataclass(part)]
    nested = {kind.__name__: kind for kind in kinds}
    if not nested:
        return tuple(value) if isinstance(value, list) else value
    if not isinstance(value, Mapping) or value.get("method") not in nested:
        raise ValueError(f"{name}: expected a table with method {' or '.join(nested)}, found {value!r}")
    rest = {key: entry for key, entry in value.items() if key != "method"}
    return made(nested[value["method"]], rest)


def _parts(hint: Any) -> tuple[Any, ...]:
    union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if union else (hint,)
