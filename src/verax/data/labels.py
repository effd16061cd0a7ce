"""Labels of a data set: classes by any name, or values to predict."""

from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np

from verax.core.shapes import Shaped
from verax.data.columns import cells, is_missing

Task = Literal["classification", "regression"]
Asked = Literal["auto", "classification", "regression"]
_MOST_WHOLE = 20  # more different whole numbers than these are taken for amounts


@dataclass(frozen=True)
class Labels:
    """What is to be predicted, for each row.

    Attributes:
        task: ``"classification"`` or ``"regression"``.
        values: Numbers of classes, int64, or values, float64.
        class_names: Names of the classes, in the order of their numbers; empty for values.
    """

    task: Task
    values: Shaped[np.ndarray, " n"]
    class_names: tuple[str, ...]


def read_labels(given: Any, rows: int, where: str, task: Asked = "auto") -> Labels:
    """Read labels of any kind: text, truth values, whole numbers, or amounts.

    With ``"auto"``, text, truth values and at most 20 different whole numbers are classes; other numbers are values.

    Args:
        given: One label for each row.
        rows: How many rows there are.
        where: What the labels are, for messages.
        task: What they are for.

    Example:
        >>> read_labels(["no", "yes", "no"], 3, "labels").values.tolist()
        [0, 1, 0]
        >>> read_labels([1.5, 2.25, 0.5], 3, "labels").task
        'regression'
    """
    array = cells(given)
    if array.shape != (rows,):
        raise ValueError(f"{where}: expected one label for each of {rows} rows, got shape {array.shape}.")
    missing = np.array([is_missing(one) for one in array.tolist()])
    if missing.any():
        raise ValueError(f"{where}: expected a label in every row, missing in {missing.sum()}; leave these rows out.")
    words = array.dtype == object and not all(isinstance(one, Real) for one in array.tolist())
    if array.dtype == object and not words:
        array = array.astype(np.float64)
    if (task if task != "auto" else _task_of(array)) == "regression":
        return Labels("regression", _values(array, where), ())
    return _classes(array, where)


def _task_of(array: np.ndarray) -> Task:
    """What labels are taken for when nobody says."""
    if array.dtype.kind in "Ob":
        return "classification"
    whole = bool(np.isfinite(array).all()) and bool((array == np.round(array)).all())
    return "classification" if whole and len(np.unique(array)) <= _MOST_WHOLE else "regression"


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
        array = np.array([str(one) for one in array.tolist()])
    found, numbers = np.unique(array, return_inverse=True)
    if len(found) < 2:
        raise ValueError(
            f"{where}: is {found[0]} in every row, so there is nothing to tell apart; choose another label."
        )
    if len(found) > max(2, len(array) // 2):
        raise ValueError(
            f"{where}: has {len(found)} different labels in {len(array)} rows, which are no classes; choose another "
            'label, or say task = "regression" where they are amounts.'
        )
    return Labels("classification", numbers.astype(np.int64).reshape(-1), _names(found))


def _names(found: np.ndarray) -> tuple[str, ...]:
    """Labels as names; bare numbers from 0 on say little alone."""
    if found.dtype.kind in "fiu" and found.tolist() == list(range(len(found))):
        return tuple(f"class {number}" for number in range(len(found)))
    return tuple(f"{one:g}" if isinstance(one, float) else str(one) for one in found.tolist())
