"""The columns of a table, from any data frame, as numbers and back; and labels, classes or values."""

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import numpy as np

from verax.core.packages import optional_package
from verax.core.shapes import Float, Shaped

MISSING = "(missing)"
_NOT_COUNTED = {"M": "dates", "m": "time spans", "c": "complex numbers", "V": "records"}


@dataclass(frozen=True)
class Column:
    """One column of a table: how its values become numbers, and numbers its values.

    Attributes:
        name: What it is called.
        categories: The values that codes stand for; None for a column of numbers.
        dtype: Its type in the data frame; None for what the frame makes of the values.
        label: What the data frame calls it, where that is not its name.
    """

    name: str
    categories: tuple[Any, ...] | None = None
    dtype: Any = None
    label: Any = None

    def encode(self, values: Any) -> Any:
        """Numbers in float64, gaps as NaN; or the code of each category."""
        if self.categories is None:
            return np.asarray(values.astype("float64") if hasattr(values, "astype") else values, dtype=np.float64)
        places = {_identity(value): place for place, value in enumerate(self.categories)}
        if self.gaps:  # however it is written, what is missing is missing
            places |= {_identity(value): self.gaps[0] for value in values if is_missing(value)} | places
        try:
            return np.array([places[_identity(value)] for value in values], dtype=np.float64)
        except KeyError as error:
            raise ValueError(f"{self.name}: {error.args[0][1]!r} is not among its categories.") from None

    def decode(self, numbers: Any) -> Any:
        """A column of pandas as the data frame had it: numbers of its type where that can hold them, or categories."""
        pandas = optional_package("pandas", "pandas", "frame: a table with categories")
        if self.categories is not None or self.dtype is None:
            return pandas.Series(self.cells(numbers), dtype=self.dtype)
        gaps = np.isnan(numbers)
        whole = bool((gaps | (numbers == np.round(numbers))).all())
        if self.dtype.kind in "iu" and isinstance(self.dtype, np.dtype):  # pandas' own types know gaps
            return pandas.Series(numbers.astype(self.dtype) if whole and not gaps.any() else numbers)
        if self.dtype.kind in "iu" and not whole:
            return pandas.Series(numbers).astype("Float64")
        return pandas.Series(numbers).astype(self.dtype)

    def cells(self, numbers: Any) -> Any:
        """Numbers as they are, or the category of each code, None for a gap that has no code."""
        if self.categories is None:
            return numbers
        categories = np.empty(len(self.categories) + 1, dtype=object)
        categories[:-1] = self.categories
        places = numbers.round().clip(0, len(self.categories) - 1)
        return categories[np.where(np.isnan(numbers), len(self.categories), places).astype(np.int64)]

    @property
    def gaps(self) -> list[int]:
        """Codes of what is missing."""
        return [place for place, value in enumerate(self.categories or ()) if is_missing(value)]


def frame_of(columns: Sequence[Column], values: Any) -> Any:
    """Rows of numbers as a data frame, of pandas where it is installed, else of polars."""
    named = [(column, column.label if column.label is not None else column.name) for column in columns]
    if importlib.util.find_spec("pandas") is not None:
        pandas = optional_package("pandas", "pandas", "a data frame")
        return pandas.DataFrame({name: column.decode(values[:, place]) for place, (column, name) in enumerate(named)})
    cells = {name: column.cells(values[:, place]) for place, (column, name) in enumerate(named)}
    plain = {name: list(column) if column.dtype == object else column for name, column in cells.items()}
    return optional_package("polars", "polars", "a data frame").DataFrame(plain)


def frame_columns(frame: Any, background: Any, categorical: Sequence[str]) -> tuple[Column, ...]:
    """The columns of a frame for models; categories, gaps among them, sorted as in the background, then as in it."""
    columns = []
    for name in frame.columns:
        dtype = frame[name].dtype
        kind = getattr(dtype, "kind", "O")
        if kind in _NOT_COUNTED:
            raise TypeError(f"frame: column {name} holds {_NOT_COUNTED[kind]}; turn it into numbers or text first.")
        if hasattr(dtype, "sparse") or "Sparse" in str(dtype):
            raise TypeError(f"frame: column {name} is sparse; turn it into a dense one: frame.sparse.to_dense().")
        if kind in "iuf" and str(name) not in categorical:
            columns.append(Column(str(name), None, dtype, name))
            continue
        known, seen = ({_identity(value): value for value in table[name].tolist()} for table in (background, frame))
        ordered = dict(sorted(known.items(), key=lambda item: (item[0][0], item[0][2])))
        categories = tuple((ordered | seen | ordered).values())
        columns.append(Column(str(name), categories, _holding(dtype, background[name].dtype, categories), name))
    return tuple(columns)


def _holding(dtype: Any, of_background: Any, categories: Sequence[Any]) -> Any:
    """A type that holds all categories as they are, also those that only the background has.

    A category dtype of pandas turns what it does not list into NaN, its text turns None into NaN, plain flags turn both
    into True or False, and whole numbers hold neither parts nor NaN.
    """
    pandas = optional_package("pandas", "pandas", "frame: a table with categories")
    if isinstance(dtype, pandas.CategoricalDtype):
        values = [value for value in categories if not is_missing(value)]
        if all(value in dtype.categories for value in values):
            return dtype
        first = of_background if isinstance(of_background, pandas.CategoricalDtype) else dtype  # as it was fitted
        listed = [*first.categories, *(value for value in values if value not in first.categories)]
        return pandas.CategoricalDtype(listed, ordered=dtype.ordered)
    if isinstance(dtype, pandas.StringDtype):
        holds = not any(value is None for value in categories)
    elif not isinstance(dtype, np.dtype):
        holds = True
    elif dtype.kind == "b":
        holds = not any(is_missing(value) for value in categories)
    else:
        kinds = int if dtype.kind in "iu" else int | float
        holds = dtype.kind in "iuf" and all(isinstance(value, kinds) for value in categories)
    return dtype if holds else np.dtype(object)


def _identity(value: Any) -> tuple[str, Any, str]:
    """What tells values apart: 1 and True are two, and so are the ways in which something can be missing."""
    if is_missing(value):
        return ("", None, type(value).__name__)
    value = value.item() if isinstance(value, np.generic) else value
    return (type(value).__name__, value, str(value))


@dataclass(frozen=True)
class Columns:
    """A table's columns as they were given.

    Attributes:
        columns: What they are; categories are the different texts of a column, without gaps.
        values: ``(N, columns)``: numbers as they are, categories as their places, NaN where a value is missing.
    """

    columns: tuple[Column, ...]
    values: Float[np.ndarray, "n columns"]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def names(self) -> tuple[str, ...]:
        """What the columns are called."""
        return tuple(column.name for column in self.columns)

    @property
    def categories(self) -> tuple[tuple[str, ...] | None, ...]:
        """For each column its categories in order, or None where it holds numbers."""
        return tuple(column.categories and tuple(map(str, column.categories)) for column in self.columns)

    @property
    def plain(self) -> bool:
        """Whether there is nothing but numbers, in every row."""
        return not any(self.categories) and not bool(np.isnan(self.values).any())


def columns_of(frame: Any, source: str) -> Columns:
    """Read the columns of a data frame of pandas or polars; truth values count as 0 and 1."""
    names = tuple(str(name) for name in frame.columns)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{source}: expected each column once, got several called {twice[0]!r}.")
    columns, values = [], []
    for name in frame.columns:
        numbers, words = _column(frame[name], f"{source}: column {str(name)!r}")
        dtype = frame[name].dtype if words and frame[name].dtype == "category" else None
        typed = {} if dtype is None else {str(category): category for category in dtype.categories}
        columns.append(Column(str(name), words and tuple(typed.get(word, word) for word in words), dtype))
        values.append(numbers)
    return Columns(tuple(columns), np.stack(values, 1))


def numbers_of(values: np.ndarray, names: Sequence[str]) -> Columns:
    """Columns of an array of numbers."""
    return Columns(tuple(Column(name) for name in names), values.astype(np.float64))


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
    return empty or (isinstance(value, float | np.floating | Decimal) and math.isnan(value))


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
