"""Columns of mixed tables: numbers as they are, categories as codes, and back again without a change."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from verax.core.packages import optional_package

_REFUSED = {"M": "dates", "m": "time spans", "c": "complex numbers", "V": "records"}


def as_frame(label: str, table: Any) -> Any:
    """A data frame of pandas; one of polars is copied, with None for text that is missing, as scikit-learn reads it."""
    pandas = optional_package("pandas", "pandas", f"{label}: a table with categories")
    if isinstance(table, pandas.DataFrame):
        return table
    if not hasattr(table, "to_dicts"):
        raise TypeError(f"{label}: expected a data frame of pandas or polars, got {type(table).__name__}.")
    columns = {}
    for name in table.columns:
        values = table[name]
        plain = values.dtype.is_numeric() and values.null_count() == 0
        text = str(values.dtype).split("(")[0] in ("String", "Categorical", "Enum")  # pandas' own str has NaN for None
        kept = pandas.Series(values.to_list(), dtype=object if text else None)
        columns[name] = values.to_numpy() if plain else kept if text else kept.to_numpy()
    return pandas.DataFrame(columns)


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: Its name.
        dtype: Its type in the data frame.
        categories: The values that codes stand for, gaps among them; None for a column of numbers.
        label: What the data frame calls it: its name, or a number.
    """

    name: str
    dtype: Any
    categories: tuple[Any, ...] | None
    label: Any

    def encode(self, values: Any) -> Any:
        """Numbers in float64, gaps as NaN; or the code of each category."""
        if self.categories is None:
            return np.asarray(values.astype("float64") if hasattr(values, "astype") else values, dtype=np.float64)
        places = {_identity(value): place for place, value in enumerate(self.categories)}
        if self.gaps:  # however it is written, what is missing is missing
            places |= {_identity(value): self.gaps[0] for value in values if _is_gap(value)} | places
        try:
            return np.array([places[_identity(value)] for value in values], dtype=np.float64)
        except KeyError as error:
            raise ValueError(f"{self.name}: {error.args[0][1]!r} is not among its categories.") from None

    def decode(self, numbers: Any) -> Any:
        """What the data frame had: numbers of the column's type where it can hold them, or categories."""
        pandas = optional_package("pandas", "pandas", "frame: a table with categories")
        if self.categories is not None:
            looked_up = np.empty(len(self.categories), dtype=object)
            looked_up[:] = self.categories
            found = looked_up[numbers.astype(np.int64)]
            return pandas.Series(
                found, dtype=self.dtype if self.dtype.kind in "biuf" or _is_own(self.dtype) else object
            )
        gaps = np.isnan(numbers)
        whole = bool((gaps | (numbers == np.round(numbers))).all())
        if self.dtype.kind in "iu" and not _is_own(self.dtype):
            return pandas.Series(numbers.astype(self.dtype) if whole and not gaps.any() else numbers)
        if self.dtype.kind in "iu" and not whole:
            return pandas.Series(numbers).astype("Float64")
        return pandas.Series(numbers).astype(self.dtype)

    @property
    def gaps(self) -> list[int]:
        """Codes of what is missing."""
        return [place for place, value in enumerate(self.categories or ()) if _is_gap(value)]

    @property
    def gap(self) -> float:
        """The number that stands for a missing value."""
        if self.categories is None:
            return float("nan")
        if not self.gaps:
            raise ValueError(f"baselines: nothing is missing in column {self.name}, so it cannot become so.")
        return float(self.gaps[0])


def read_columns(frame: Any, background: Any, categorical: Sequence[str]) -> tuple[Column, ...]:
    """The columns of a table; categories are numbered as they come in the background, sorted, then in the frame."""
    found = []
    for name in frame.columns:
        dtype = frame[name].dtype
        kind = getattr(dtype, "kind", "O")
        if kind in _REFUSED:
            raise TypeError(f"frame: column {name} holds {_REFUSED[kind]}; turn it into numbers or text first.")
        if hasattr(dtype, "sparse") or "Sparse" in str(dtype):
            raise TypeError(f"frame: column {name} is sparse; turn it into a dense one: frame.sparse.to_dense().")
        counted = kind in "iuf" and str(name) not in categorical
        categories = None if counted else _categories(background[name], frame[name])
        found.append(Column(str(name), _holding(dtype, background[name], categories or ()), categories, name))
    return tuple(found)


def _holding(dtype: Any, background: Any, categories: Sequence[Any]) -> Any:
    """A type that holds all categories as they are, also those that only the background has.

    A category dtype of pandas turns what it does not list into NaN, its text turns None into NaN, plain flags turn both
    into True or False, and whole numbers hold neither parts nor NaN.
    """
    pandas = optional_package("pandas", "pandas", "frame: a table with categories")
    if not isinstance(dtype, pandas.CategoricalDtype):
        return dtype if _holds(dtype, categories, pandas) else np.dtype(object)
    values = [value for value in categories if not _is_gap(value)]
    if all(value in dtype.categories for value in values):
        return dtype
    first = background.dtype if isinstance(background.dtype, pandas.CategoricalDtype) else dtype  # as it was fitted
    listed = [*first.categories, *(value for value in values if value not in first.categories)]
    return pandas.CategoricalDtype(listed, ordered=dtype.ordered)


def _holds(dtype: Any, categories: Sequence[Any], pandas: Any) -> bool:
    if dtype == np.dtype(bool):
        return not any(_is_gap(value) for value in categories)
    if isinstance(dtype, pandas.StringDtype):
        return not any(value is None for value in categories)
    kinds = int if getattr(dtype, "kind", "O") in "iu" else int | float
    return not isinstance(dtype, np.dtype) or dtype.kind == "O" or all(isinstance(value, kinds) for value in categories)


def _categories(first: Any, second: Any) -> tuple[Any, ...]:
    known = {_identity(value): value for value in first.tolist()}
    ordered = {one: known[one] for one in sorted(known, key=lambda one: (one[0], one[2]))}
    ordered |= {_identity(value): value for value in second.tolist() if _identity(value) not in known}
    return tuple(ordered.values())


def _identity(value: Any) -> tuple[str, Any, str]:
    """What tells values apart: 1 and True are two, and so are the ways in which something can be missing."""
    if _is_gap(value):
        return ("", None, type(value).__name__)
    value = value.item() if isinstance(value, np.generic) else value
    return (type(value).__name__, value, str(value))


def _is_gap(value: Any) -> bool:
    pandas = optional_package("pandas", "pandas", "frame: a table with categories")
    return bool(pandas.isna(value)) if np.ndim(value) == 0 else False


def _is_own(dtype: Any) -> bool:
    """Whether a type is one of pandas', which knows gaps."""
    return not isinstance(dtype, np.dtype)
