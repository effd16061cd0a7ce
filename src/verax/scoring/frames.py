"""Data frames: columns are found by name, before they become plain numbers that are known by their place alone."""

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from verax.data.array_files import listed

_listed = functools.partial(listed, most=8)


@dataclass(frozen=True)
class ColumnOrder:
    """The order in which columns are used, and where a plain array given beside a data frame has them."""

    names: tuple[str, ...] | None  # the columns in the order that is used; None where there are no names
    owner: str  # who has these names, for messages
    # for each of them, its place in the inputs' data frame; None where they are in order already
    places: tuple[int, ...] | None

    def __call__(self, label: str, value: Any) -> Any:
        """Put columns in order: of frames by name, of arrays as those of the inputs; also in dicts and lists."""
        if isinstance(value, Mapping):
            return {key: self(f"{label}[{key!r}]", item) for key, item in value.items()}
        if isinstance(value, list | tuple) and any(column_names(item) is not None for item in value):
            return [self(f"{label}[{place}]", item) for place, item in enumerate(value)]
        names = column_names(value)
        if names is None or self.names is None:
            return value if self.places is None else _permuted(value, self.places)
        places = _places(label, names, self.names, self.owner)
        if places is None:
            return value
        chosen = [names[place] for place in places]
        return value[chosen] if hasattr(value, "columns") else value.loc[chosen]

    def back(self, values: Any) -> Any:
        """Give an array in the order that is used the order of the inputs' data frame."""
        if self.places is None:
            return values
        return _permuted(values, tuple(int(place) for place in np.argsort(self.places)))


def column_order(names: Sequence[str] | None, inputs: Any) -> ColumnOrder:
    """Find the order of columns: the model's, where it knows their names, otherwise that of the inputs' data frame."""
    columns = column_names(inputs)
    if names is None:
        labels = None if columns is None else tuple(str(name) for name in columns)
        return ColumnOrder(labels, "the inputs have", None)
    known, owner = tuple(names), "the model knows"
    return ColumnOrder(known, owner, None if columns is None else _places("inputs", columns, known, owner))


def fitted_places(label: str, columns: Iterable[Any], expected: Sequence[str]) -> list[int]:
    """Where a table has the columns that a model was fitted on; others do not matter, missing ones raise by name."""
    known = set(expected)
    place = {_as_known(str(name), known): index for index, name in enumerate(columns)}
    if missing := [name for name in expected if name not in place]:
        raise ValueError(f"{label}: expected the columns that the model was fitted on; missing: {_listed(missing)}.")
    return [place[name] for name in expected]


def column_names(value: Any) -> list[Any] | None:
    """Names of the columns of a data frame, or of the entries of a series; None for numbered ones and plain arrays."""
    if isinstance(value, np.ndarray | Tensor) or not hasattr(value, "to_numpy"):
        return None
    axis = getattr(value, "columns", None)
    if axis is None:
        axis = getattr(value, "index", None)  # of a series of pandas; one of polars has none
        if axis is None or not all(isinstance(name, str) for name in axis):
            return None
    names = list(axis)
    return None if names == list(range(len(names))) else names


def _places(label: str, columns: list[Any], expected: tuple[str, ...], owner: str) -> tuple[int, ...] | None:
    """Where each expected column is, None if in order; missing, unknown and repeated ones raise by name."""
    known = set(expected)
    place = {_as_known(str(name), known): index for index, name in enumerate(columns)}
    if len(place) < len(columns):
        twice = [name for name, count in Counter(_as_known(str(name), known) for name in columns).items() if count > 1]
        raise ValueError(f"{label}: expected every column once, got more of {_listed(twice)}.")
    missing, unknown = [name for name in expected if name not in place], [name for name in place if name not in known]
    if parts := [f"{word}: {_listed(names)}" for word, names in (("missing", missing), ("unknown", unknown)) if names]:
        raise ValueError(f"{label}: expected the columns that {owner}, in any order; {'; '.join(parts)}.")
    places = tuple(place[name] for name in expected)
    return None if places == tuple(range(len(places))) else places


def _as_known(name: str, known: set[str]) -> str:
    """A name as the model has it: LightGBM keeps no blanks."""
    joined = name.replace(" ", "_")
    return joined if name not in known and joined in known else name


def _permuted(value: Any, places: tuple[int, ...]) -> Any:
    """Columns of a plain array, its last axis, in another order; what has no such axis is given back."""
    if isinstance(value, Tensor):
        fits = value.ndim > 0 and value.shape[-1] == len(places)
        return value[..., torch.tensor(places, device=value.device)] if fits else value
    if not isinstance(value, np.ndarray | list | tuple) and not hasattr(value, "to_numpy"):
        return value
    array = np.asarray(value)
    return array[..., list(places)] if array.ndim > 0 and array.shape[-1] == len(places) else value
