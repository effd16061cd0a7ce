"""Inputs: the rows to explain, with what one feature is, what it becomes, and what travels along."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from verax.core.arrays import as_tensor
from verax.problem.baselines import baseline_tensor
from verax.problem.features import Grid, feature_map
from verax.scoring.adapters.base import Collate
from verax.scoring.frames import ColumnOrder

_AUTO = "auto"


@dataclass(frozen=True, eq=False)
class Inputs:
    """Rows to explain, and all that belongs to them: what a problem holds of the arguments about its rows.

    Args:
        values: The rows, ``(N, ...)``, NumPy or torch. NaN is allowed where the model takes it; whole numbers are codes
            such as ids of tokens.
        features: What one feature is: ``"element"``, ``"pixel"`` (all channels of a position), an array of group
            numbers (for all inputs or one each; ``(N, L)`` serves all that follows an axis), or ``"auto"``. Elements
            with a negative number are never removed, and their attributions do not count.
        baselines: What removed features become: a number, anything that broadcasts to the values, or ``"mean"``,
            ``"median"``, ``"mode"``, ``"zero"`` of the call's background. By default 0; codes have no default.
        names: Name of each feature.
        alongside: Arrays that follow their rows, ``(N, ...)`` each: the model gets them by name, unperturbed.
        key: Name of the values, for models that are called by keywords.
        codes: Which values are codes and not amounts: True, False, or one truth value per element of a row. Codes have
            no direction: DPC counts them 0, and no noise is added to them. By default whole numbers are codes.
        collate: Called as ``collate(values, alongside)`` with the rows of a batch just before the model; gives both
            back, for instance without padding.
        removed: What removed features become in words, where the baselines are no words themselves.
    """

    values: Any
    features: Any = _AUTO
    baselines: Any = None
    names: Sequence[str] | None = None
    alongside: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    codes: Any = None
    collate: Collate | None = None
    removed: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.values, Inputs):
            raise TypeError("values: already rows of a problem; pass them on as they are.")
        if not isinstance(self.alongside, Mapping):
            raise TypeError(f"model_kwargs: expected a dict of names to arrays, got {type(self.alongside).__name__}.")
        for name, value in self.alongside.items():
            if len(value) != len(self):
                raise ValueError(
                    f"model_kwargs[{name!r}]: expected one entry for each of {len(self)} rows, got {len(value)}."
                )

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> "Inputs":
        """Some rows, with all that is held for each of them."""
        chosen = _one(rows, len(self)) if isinstance(rows, Integral) else rows
        x = as_tensor("inputs", self.values)
        return replace(
            self,
            values=_rows(self.values, chosen),
            features=self._features_of(chosen, x),
            baselines=self._baselines_of(chosen, x),
            alongside={name: _rows(value, chosen) for name, value in self.alongside.items()},
        )

    def fitted(self, attribution: Any) -> Any:
        """An attribution as an array; inputs that know of other forms, such as ragged lists, override it."""
        return attribution

    def words(self, rows: int) -> tuple[tuple[str, ...], ...]:
        """What people read at each place of the first rows, for reports; nothing where rows are no texts."""
        return ()

    def ordered(self, order: ColumnOrder) -> "Inputs":
        """The same with the columns of a data frame in the order of the model, as plain arrays."""
        return replace(
            self,
            names=self._names_of(order),
            values=order("inputs", self.values),
            features=order("features", self.features),
            baselines=order("baselines", self.baselines),
            codes=order("codes", self.codes),
        )

    def _names_of(self, order: ColumnOrder) -> Sequence[str] | None:
        """Names that were given, or those of columns where each is a feature."""
        shape = getattr(self.values, "shape", ())
        own = isinstance(self.features, str) and order.names is not None and tuple(shape[1:]) == (len(order.names),)
        return order.names if self.names is None and own else self.names

    def _features_of(self, rows: Any, inputs: Tensor) -> Any:
        found = feature_map(self.features, inputs)
        if isinstance(found, Grid):
            return self.features
        numbers = found.numbers()
        return numbers[_index(rows)] if len(numbers) > 1 else numbers

    def _baselines_of(self, rows: Any, inputs: Tensor) -> Any:
        if self.baselines is None or isinstance(self.baselines, str | int | float):
            return self.baselines
        found = baseline_tensor(self.baselines, inputs, missing=True)
        return found[_index(rows)] if found.stride(0) else self.baselines


class PlainInputs(Inputs):
    """Rows that were given as an array, and what was said beside them."""


def _one(row: Integral, count: int) -> slice:
    """One row as a slice; one that is not there ends a loop over the rows."""
    place = range(count)[int(row)]  # refuses what is out of range, and counts negative ones from the end
    return slice(place, place + 1)


def _rows(values: Any, rows: Any) -> Any:
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    return values[_index(rows)] if isinstance(values, Tensor) else np.asarray(values)[rows]


def _index(rows: Any) -> Any:
    return rows if isinstance(rows, slice | Tensor) else torch.as_tensor(np.asarray(rows))
