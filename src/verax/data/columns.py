"""The columns of a table, from any data frame: numbers, categories with gaps, and labels, classes or values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal

import numpy as np

from verax.core.shapes import Float, Shaped

MISSING = "(missing)"


@dataclass(frozen=True)
class Columns:
    """A table's columns as they were given.

    Attributes:
        names: What they are called.
        values: ``(N, columns)``: numbers as they are, categories as their places in ``categories``, and NaN where a
            value is missing.
        categories: For each column its categories in order, or None where it holds numbers.
        dtypes: Of columns with pandas' own type of categories, which some models ask for, by name.
    """

    names: tuple[str, ...]
    values: Float[np.ndarray, "n columns"]
    categories: tuple[tuple[str, ...] | None, ...]
    dtypes: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def plain(self) -> bool:
        """Whether there is nothing but numbers, in every row."""
        return not any(self.categories) and not bool(np.isnan(self.values).any())


def columns_of(frame: Any, source: str) -> Columns:
    """Read the columns of a data frame of pandas or polars; truth values count as 0 and 1."""
    names = tuple(str(name) for name in frame.columns)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{source}: expected each column once, got several called {twice[0]!r}.")
    read = [_column(frame[name], f"{source}: column {str(name)!r}") for name in frame.columns]
    categories = tuple(words for _, words in read)
    kinds = [(str(name), frame[name].dtype, words) for name, words in zip(frame.columns, categories, strict=True)]
    dtypes = {name: dtype for name, dtype, words in kinds if words and dtype == "category"}
    return Columns(names, np.stack([values for values, _ in read], 1), categories, dtypes)


def numbers_of(values: np.ndarray, names: Sequence[str]) -> Columns:
    """Columns of an array of numbers."""
    return Columns(tuple(names), values.astype(np.float64), (None,) * values.shape[1])


def cells(series: Any) -> np.ndarray:
    """A column as numbers, or as objects with None where a value is missing."""
    array = np.asarray(series)
    if array.dtype.kind in "fiub":
        return array
    if array.dtype.kind in "MmcV":
        return array.astype(object)
    return np.array([None if is_missing(cell) else _plain(cell) for cell in array.tolist()], dtype=object)


def _column(series: Any, where: str) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Numbers, or places among categories; and the categories. Numbers that pandas has as categories are such."""
    values = cells(series)
    if values.dtype.kind in "fiub" and series.dtype == "category":
        values = np.array([None if is_missing(cell) else str(cell) for cell in series.astype(object)], dtype=object)
    if values.dtype.kind in "fiub":
        return _finite(values.astype(np.float64), where), None
    present = [cell for cell in values.tolist() if cell is not None]
    if not present:
        raise ValueError(f"{where} has no value in any row; leave it out.")
    if all(isinstance(cell, Real) for cell in present):
        return _finite(np.array([math.nan if cell is None else float(cell) for cell in values]), where), None
    if not all(isinstance(cell, str) for cell in present):
        odd = next(cell for cell in present if not isinstance(cell, str))
        raise ValueError(
            f"{where}: expected numbers or text throughout, got {type(odd).__name__} such as {odd}; turn it into one "
            "of them, or leave the column out."
        )
    words = tuple(sorted(set(present)))
    if len(words) > max(2, len(values) // 2):
        raise ValueError(
            f"{where} holds {len(words)} different texts in {len(values)} rows, which are no categories; leave the "
            "column out, or turn it into numbers."
        )
    place = {word: float(number) for number, word in enumerate(words)}
    return np.array([math.nan if cell is None else place[cell] for cell in values.tolist()]), words


def _finite(values: np.ndarray, where: str) -> np.ndarray:
    if np.isinf(values).any():
        raise ValueError(f"{where}: expected finite numbers, got infinity; leave the value empty if it is unknown.")
    if np.isnan(values).all():
        raise ValueError(f"{where} has no value in any row; leave it out.")
    return values


def is_missing(value: Any) -> bool:
    """Whether a cell is empty, by any library's word for it."""
    empty = value is None or type(value).__name__ in ("NAType", "NaTType")
    return empty or (isinstance(value, float) and math.isnan(value))


def _plain(value: Any) -> Any:
    """Text as Python's own; anything else as it is."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(value) if isinstance(value, str) else value


Task = Literal["classification", "regression"]
LabelTask = Literal["auto", "classification", "regression"]
_MOST_WHOLE = 20  # more different whole numbers than these are taken for amounts


@dataclass(frozen=True)
class Labels:
    """What is to be predicted, for each row."""

    task: Task  # ``"classification"`` or ``"regression"``
    values: Shaped[np.ndarray, " n"]  # numbers of classes, int64, or values, float64
    class_names: tuple[str, ...]  # names of the classes, in the order of their numbers; empty for values


def read_labels(labels: Any, rows: int, where: str, task: LabelTask = "auto") -> Labels:
    """Read labels of any kind: text, truth values, whole numbers, or amounts.

    With ``"auto"``, text, truth values and at most 20 different whole numbers are classes; other numbers are values.
    """
    array = cells(labels)
    if array.shape != (rows,):
        raise ValueError(f"{where}: expected one label for each of {rows} rows, got shape {array.shape}.")
    missing = np.array([is_missing(label) for label in array.tolist()])
    if missing.any():
        raise ValueError(f"{where}: expected a label in every row, missing in {missing.sum()}; leave these rows out.")
    words = array.dtype == object and not all(isinstance(label, Real) for label in array.tolist())
    if array.dtype == object and not words:
        array = array.astype(np.float64)
    if task == "auto":
        numbers = array.dtype.kind not in "Ob"
        whole = numbers and bool(np.isfinite(array).all()) and bool((array == np.round(array)).all())
        amounts = numbers and not (whole and len(np.unique(array)) <= _MOST_WHOLE)
    else:
        amounts = task == "regression"
    return Labels("regression", _values(array, where), ()) if amounts else _classes(array, where)


def _values(array: np.ndarray, where: str) -> np.ndarray:
    if array.dtype.kind not in "fiu":
        raise ValueError(
            f'{where}: expected numbers for a regression, got {array[0]!r}; say task = "classification", or choose '
            "another label."
        )
    values = array.astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"{where}: expected finite numbers, got infinity; leave these rows out.")
    if values.min() == values.max():
        raise ValueError(
            f"{where}: is {values[0]:g} in every row, so there is nothing to predict; choose another label."
        )
    return values


def _classes(array: np.ndarray, where: str) -> Labels:
    if array.dtype == object:
        array = np.array([str(label) for label in array.tolist()])
    classes, numbers = np.unique(array, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"{where}: is {classes[0]} in every row, so there is nothing to predict; choose another label."
        )
    if len(classes) > max(2, len(array) // 2):
        raise ValueError(
            f"{where}: has {len(classes)} different labels in {len(array)} rows, which are no classes; choose another "
            'label, or say task = "regression" where they are amounts.'
        )
    return Labels("classification", numbers.astype(np.int64).reshape(-1), _names(classes))


def _names(labels: np.ndarray) -> tuple[str, ...]:
    """Labels as names; bare numbers from 0 on say little alone."""
    if labels.dtype.kind in "fiu" and labels.tolist() == list(range(len(labels))):
        return tuple(f"class {number}" for number in range(len(labels)))
    return tuple(f"{label:g}" if isinstance(label, float) else str(label) for label in labels.tolist())
