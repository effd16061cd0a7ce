"""The rows to explain, checked: what one feature is, what it becomes, and what goes with them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from verax.core.arrays import ArrayKind, as_tensor, kind_of
from verax.core.shapes import Bool, Int, Shaped
from verax.problem.baselines import baseline_tensor, baseline_words
from verax.problem.features import FeatureMap, Groups, feature_map
from verax.scoring.adapters.base import Collate, RowArguments
from verax.scoring.frames import ColumnOrder

_READ = 5  # texts of a report


@dataclass(frozen=True, eq=False)
class Inputs:
    """Rows to explain, and all that belongs to them; what is not listed here is as in ``Problem``.

    Args:
        values: The rows, ``(N, ...)``, NumPy or torch. NaN is allowed where the model takes it; whole numbers are codes
            such as ids of tokens, for which baselines have no default.
        key: Name of the values, for models that are called by keywords.
        codes: Which values are categories; by default whole numbers are.
        collate: Called with the rows of a batch and ``model_kwargs`` just before the model; gives both back.
        removed: What removed features become in words, where the baselines are no words themselves.
    """

    values: Any
    features: Any = "auto"
    baselines: Any = None
    names: Sequence[str] | None = None
    model_kwargs: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    codes: Any = None
    collate: Collate | None = None
    removed: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.values, Inputs):
            raise TypeError("values: already rows of a problem; pass them on as they are.")
        if not isinstance(self.model_kwargs, Mapping):
            raise TypeError(
                f"model_kwargs: expected a dict of names to arrays, got {type(self.model_kwargs).__name__}."
            )
        for name, value in self.model_kwargs.items():
            if len(value) != len(self):
                raise ValueError(
                    f"model_kwargs[{name!r}]: expected one entry for each of {len(self)} rows, got {len(value)}."
                )

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> "Inputs":
        if isinstance(rows, Integral):
            place = range(len(self))[int(rows)]  # out of range, it raises, which ends a loop over the rows
            rows = slice(place, place + 1)
        x, features, baselines = as_tensor("inputs", self.values), self.features, self.baselines
        if isinstance(groups := feature_map(features, x), Groups):
            features = groups.numbers()
            features = features[_index(rows)] if len(features) > 1 else features
        if not isinstance(baselines, str | int | float | None):
            full = baseline_tensor(baselines, x, missing=True)
            baselines = full[_index(rows)] if full.stride(0) else baselines
        beside = {name: _rows(value, rows) for name, value in self.model_kwargs.items()}
        values = _rows(self.values, rows)
        return replace(self, values=values, features=features, baselines=baselines, model_kwargs=beside)

    def fitted(self, attribution: Any) -> Any:
        """An attribution as an array; inputs that know of other forms, such as ragged lists, override it."""
        return attribution

    def words(self, rows: int) -> tuple[tuple[str, ...], ...]:
        """What people read at each place of the first rows, for reports; nothing where rows are no texts."""
        return ()

    def ordered(self, order: ColumnOrder) -> "Inputs":
        """The same with the columns of a data frame in the order of the model, as plain arrays."""
        names, shape = self.names, tuple(getattr(self.values, "shape", ()))
        if names is None and isinstance(self.features, str) and order.names and shape[1:] == (len(order.names),):
            names = order.names  # of columns, where each is a feature
        return replace(
            self,
            names=names,
            values=order("inputs", self.values),
            features=order("features", self.features),
            baselines=order("baselines", self.baselines),
            codes=order("codes", self.codes),
        )


class PlainInputs(Inputs):
    """Rows that were given as an array."""


def plain_rows(
    inputs: Any, features: Any, baselines: Any, names: Any, categorical: Any, model_kwargs: Mapping[str, Any] | None
) -> Inputs:
    """Rows of what ``verax.Problem`` takes; those that a door made stay as they are."""
    if isinstance(inputs, Inputs):
        return inputs
    if baselines is None:
        raise TypeError("baselines: expected a number or an array, got None.")
    # a float: a whole number 0 is a category that somebody chose
    default = not (categorical is None or categorical is False) and isinstance(baselines, float) and baselines == 0
    beside = {} if model_kwargs is None else model_kwargs
    return PlainInputs(inputs, features, None if default else baselines, names, beside, codes=categorical)


def _rows(values: Any, rows: Any) -> Any:
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    return values[_index(rows)] if isinstance(values, Tensor) else np.asarray(values)[rows]


def _index(rows: Any) -> Any:
    return rows if isinstance(rows, slice | Tensor) else torch.as_tensor(np.asarray(rows))


@dataclass(frozen=True)
class CheckedInputs:
    """The rows of a call, ready for use."""

    values: Shaped[Tensor, "n *shape"]  # one row per input
    features: FeatureMap  # what one feature is
    # what removed features become, seen in the values' shape; the value itself where it is never removed
    baselines: Shaped[Tensor, "n *shape"]
    missing: bool  # whether some value or baseline is NaN
    codes: Bool[Tensor, "*shape"] | None  # which elements of a row are codes; None where none is
    names: tuple[str, ...] | None  # of the features, if they have any
    row_arguments: RowArguments | None  # what travels along with the rows
    kind: ArrayKind  # the array library that the user works with
    # what people read at each place of the first rows, where rows are texts
    words: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    baseline_words: str = ""  # what removed features become, as people read it

    def __len__(self) -> int:
        return len(self.values)

    def still(self, rows: slice) -> Bool[Tensor, "b *shape"] | None:
        """Which elements noise must not move: codes, and what is never removed. None where there are none."""
        fixed, codes = self.fixed(rows), None if self.codes is None else self.codes[None]
        return fixed | codes if fixed is not None and codes is not None else codes if fixed is None else fixed

    def fixed(self, rows: slice) -> Bool[Tensor, "b *shape"] | None:
        if not isinstance(self.features, Groups) or self.features.fixed is None:
            return None
        held = self.features.fixed
        return (held[rows] if len(held) > 1 else held).reshape(-1, *self.values.shape[1:])

    def at(self, order: Int[Tensor, " m"], rows: Inputs) -> "CheckedInputs":
        """The same inputs in another order, or some of them; ``rows`` holds them as they came."""
        places = order.to(self.values.device)
        return replace(
            self,
            values=self.values[places],
            features=self.features.at(order),
            baselines=self.baselines[places] if self.baselines.stride(0) else self.baselines[: len(order)],
            row_arguments=None if self.row_arguments is None else self.row_arguments.at(order),
            words=rows.words(_READ),
        )


def undirected(rows: CheckedInputs, values: Tensor, baselines: Tensor) -> Bool[Tensor, "..."] | None:
    """Where ``x - baseline`` of some rows means nothing: codes, and what is missing. None where there is neither."""
    codes = None if rows.codes is None else rows.codes.to(values.device)
    if not rows.missing:
        return codes
    gaps = values.isnan() | baselines.isnan()
    return gaps if codes is None else gaps | codes


def checked_inputs(rows: Inputs, background: Any = None, takes_missing: bool = False) -> CheckedInputs:
    """Read the rows of a call, or say what is wrong with them."""
    gaps = takes_missing or not isinstance(rows, PlainInputs)
    whole = not isinstance(rows, PlainInputs) or rows.codes is not None
    x = checked_values(rows.values, whole=whole, missing=gaps)
    features, codes = feature_map(rows.features, x), _checked_codes(rows.codes, x)
    background = background.values if isinstance(background, Inputs) else background
    baselines = baseline_tensor(rows.baselines, x, missing=gaps, background=background, codes=codes)
    if isinstance(features, Groups) and features.fixed is not None:
        baselines = torch.where(features.fixed.reshape(-1, *x.shape[1:]).to(x.device), x, baselines)
    held = {name: as_tensor(f"model_kwargs[{name!r}]", value) for name, value in rows.model_kwargs.items()}
    return CheckedInputs(
        values=x,
        features=features,
        baselines=baselines,
        missing=gaps and x.is_floating_point() and bool(x.isnan().any() | baselines.isnan().any()),
        codes=codes,
        names=_checked_names(rows.names, features),
        row_arguments=RowArguments(held, rows.key, rows.collate) if held or rows.key or rows.collate else None,
        kind=kind_of(rows.values),
        words=rows.words(_READ),
        baseline_words=rows.removed or baseline_words(rows.baselines),
    )


def checked_values(inputs: Any, *, whole: bool = False, missing: bool = False) -> Shaped[Tensor, "n *shape"]:
    """Read rows: finite floating-point numbers, at least one row."""
    x = as_tensor("inputs", inputs)
    if x.is_complex() or x.dtype == torch.bool or not (whole or x.is_floating_point()):
        hint = "; convert them first, or say that they are categories: categorical=True, baselines=..."
        raise TypeError(f"inputs: expected floating-point numbers, got {x.dtype}{hint}.")
    if x.ndim < 2:
        raise ValueError(f"inputs: expected rows of features, shape (N, ...), got shape {tuple(x.shape)}.")
    if x.numel() == 0:
        raise ValueError(f"inputs: expected at least one row and one feature, got shape {tuple(x.shape)}.")
    if not x.is_floating_point():
        return x.to(torch.int64)
    if not missing:
        check_finite({"inputs": x})
        return x
    gaps = x.isnan()
    check_finite({"inputs": x.masked_fill(gaps, 0)})
    return x.masked_fill(gaps, torch.nan) if bool(gaps.any()) else x  # one bit pattern, so that keys are the same


def check_finite(named: Mapping[str, Tensor]) -> None:
    """Raise for values of which some is not finite, naming its row."""
    # looked at once for all of them: a GPU answers each question only when its queue has run empty
    place = next(iter(named.values())).device
    # NaN if any is; one pass over the values, where isfinite takes five
    ends = [torch.stack(values.aminmax()).to(place, torch.float64) for values in named.values()]
    if not torch.isfinite(torch.stack(ends)).all():
        bad = (
            (label, *place)
            for label, values in named.items()
            for place in (~torch.isfinite(values.flatten(1))).nonzero()
        )
        label, row, element = next(bad)
        value = named[label].flatten(1)[row, element].item()
        takes = label == "inputs" and math.isnan(value)
        hint = " For a model that takes missing values say verax.Scorer(model, takes_missing=True)." if takes else ""
        raise ValueError(
            f"{label}: expected finite numbers, got {value} in row {int(row)} (element {int(element)}).{hint}"
        )


def _checked_codes(codes: Any, inputs: Tensor) -> Bool[Tensor, "*shape"] | None:
    shape = tuple(inputs.shape[1:])
    declared = (not inputs.is_floating_point()) if codes is None else codes
    marks = as_tensor("categorical", declared)
    if marks.dtype != torch.bool:
        raise TypeError(f"categorical: expected True or False, or one of them per element, got {marks.dtype}.")
    try:
        full = marks.expand(shape).to(inputs.device)
    except RuntimeError:
        raise ValueError(f"categorical: shape {tuple(marks.shape)} does not fit rows of shape {shape}.") from None
    return full if bool(full.any()) else None


def _checked_names(names: Any, features: FeatureMap) -> tuple[str, ...] | None:
    if names is None:
        return None
    checked = tuple(str(name) for name in names)
    if len(checked) != features.most:
        raise ValueError(f"names: expected one for each of {features.most} features, got {len(checked)}.")
    return checked
