"""Batches: rows with their attributions as they come."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor

from verax.core.arguments import kind_in_words
from verax.core.arrays import as_tensor, joined_rows
from verax.evaluation.explained_class import with_known_class
from verax.problem.attributed import explanations_of, fitted_attributions, plain_attributions
from verax.problem.inputs import Inputs, PlainInputs, checked_values
from verax.problem.problem import Problem
from verax.scoring.class_scores import target_of_rows
from verax.scoring.frames import column_names
from verax.scoring.meter import Cost, Meter

_KEYS = ("inputs", "attributions", "target", "model_kwargs", "by")


@dataclass(frozen=True)
class Batch:
    """Some rows, ready to be evaluated."""

    inputs: Inputs  # the rows, with features and baselines
    attributions: Any  # of them: an array, a stack or a dict of arrays and methods
    target: Any = None  # the class to follow: one for all, or one per row
    segments: Any = None  # of each row, the segment of the data it belongs to; None where nobody asked
    number: int = 0  # which of the stream it is
    # spent: what reading it cost, where the class that explanations explain had to be known
    spent: Cost = field(default_factory=Cost)

    def __len__(self) -> int:
        return len(self.inputs)

    def rows(self, rows: slice) -> "Batch":
        """Some of the rows."""
        if rows.start == 0 and rows.stop == len(self):
            return self
        return Batch(
            replace(self.inputs, values=self.inputs.values[rows]),
            of_rows(self.attributions, rows, tuple(self.inputs.values.shape)),
            target_of_rows(self.target, rows, len(self)),
            None if self.segments is None else self.segments[rows],
            self.number,
            Cost() if rows.start else self.spent,
        )

    def copied(self) -> "Batch":
        """The same in memory of its own: an iterable may overwrite a batch when it makes the next one."""
        inputs = replace(self.inputs, values=_copied(self.inputs.values))
        attributions, target, segments = (_copied(part) for part in (self.attributions, self.target, self.segments))
        return replace(self, inputs=inputs, attributions=attributions, target=target, segments=segments)

    @property
    def joins(self) -> bool:
        """Whether it can be cut and joined with others: rows alone, whose features and baselines the call says."""
        return isinstance(self.inputs, PlainInputs) and not self.inputs.model_kwargs


@dataclass
class BatchReader:
    """Reads batches of any kind."""

    problem: Problem  # the question that is asked of their rows
    attributions: Any  # methods of the call, for batches that bring none
    by: Any  # of the call
    target: Any = None  # the class that is tracked in rows given at once, where explanations say it

    def read(self, entry: Any, number: int) -> Batch:
        """One batch: a pair of inputs and attributions, a dict of them, or inputs alone."""
        parts = self._parts(entry, number)
        values, segments = self._segments(parts["inputs"], parts.get("by"))
        inputs = self.problem.read(values, parts.get("model_kwargs"))
        attributions, target, spent = parts["attributions"], parts.get("target"), Cost()
        if explanations_of(attributions):
            meter = Meter(self.problem.scorer.counts)
            whose = with_known_class(attributions, self.problem.on(inputs, target=target), per_row=True)
            attributions, target, spent = whose.attributions, whose.problem.target, meter.total()
        plain = plain_attributions(fitted_attributions(attributions, inputs.fitted))
        arrays = _arrays(self.problem.order("attributions", plain))
        batch = Batch(_plain(inputs), arrays, target, segments, number, spent)
        _check_lengths(batch, number)
        return batch

    def _parts(self, batch: Any, number: int) -> dict[str, Any]:
        """What a batch brings, by name."""
        if isinstance(batch, Mapping):
            if "inputs" not in batch or set(batch) - set(_KEYS):
                raise ValueError(f"batches[{number}]: expected keys among {', '.join(_KEYS)}, got {', '.join(batch)}.")
            return {"attributions": self.attributions} | dict(batch)
        if self.attributions is not None:  # what follows the inputs, as from a DataLoader, are labels
            return {"inputs": batch[0] if isinstance(batch, tuple | list) else batch, "attributions": self.attributions}
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise TypeError(
                f"batches[{number}]: expected a pair (inputs, attributions), got {kind_in_words(batch)}; or pass "
                "attributions={name: method} to compute them."
            )
        return {"inputs": batch[0], "attributions": batch[1]}

    def _segments(self, values: Any, labels: Any) -> tuple[Any, Any]:
        """The rows, and the segment of each; a column that names it is no feature."""
        values = _frame_of_arrow(values)
        if labels is not None or self.by is None:
            return values, labels
        if callable(self.by):
            return values, self.by(values)
        if not isinstance(self.by, str):
            raise TypeError(
                "by: one label per row goes with inputs that are one array; for batches name a column, pass a function "
                'of the inputs, or give each batch as {"inputs": ..., "attributions": ..., "by": ...}.'
            )
        if self.by not in (column_names(values) or ()):
            raise ValueError(f"by: no column {self.by!r} in the inputs, {kind_in_words(values)}.")
        left = [name for name in values.columns if name != self.by]
        return values[left], np.asarray(values[self.by])


def of_rows(attributions: Any, rows: Any, shape: tuple[int, ...]) -> Any:
    """Attributions of some rows of inputs of a shape: of an array, a stack of them, or every array of a dict."""
    if isinstance(attributions, Mapping):
        return {name: of_rows(attribution, rows, shape) for name, attribution in attributions.items()}
    if not hasattr(attributions, "shape"):  # a method, which has no rows
        return attributions
    return attributions[:, rows] if is_stack(attributions, shape) else taken(attributions, rows)


def taken(values: Any, rows: Any) -> Any:
    """Some rows of an array or a data frame."""
    return values.iloc[rows] if hasattr(values, "iloc") else values[rows]


def _copied(value: Any) -> Any:
    """Arrays, in a dict too, in memory of their own; methods and single classes as they are."""
    if isinstance(value, Mapping):
        return {name: _copied(part) for name, part in value.items()}
    if isinstance(value, Tensor):
        return value.clone()
    return value.copy() if isinstance(value, np.ndarray | list) else value


def _frame_of_arrow(values: Any) -> Any:
    """A table or record batch of Arrow as a data frame of polars, which shares its memory."""
    if not type(values).__module__.startswith("pyarrow"):
        return values
    import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

    return pl.from_arrow(values)


def _plain(inputs: Inputs) -> Inputs:
    """Inputs whose data frame, if they are one, became an array."""
    if isinstance(inputs.values, np.ndarray | Tensor):
        return inputs
    if not len(inputs):  # it is left out; an empty frame says nothing about the kinds of its columns
        return replace(inputs, values=np.empty(tuple(inputs.values.shape)))
    return replace(inputs, values=checked_values(inputs.values, whole=True, missing=True).numpy())


def _arrays(attributions: Any) -> Any:
    """Attributions with data frames and lists of numbers as arrays; methods stay what they are."""
    if isinstance(attributions, Mapping):
        return {name: _arrays(attribution) for name, attribution in attributions.items()}
    if isinstance(attributions, list | tuple):
        return as_tensor("attributions", attributions).numpy()
    frame = hasattr(attributions, "to_numpy") and not isinstance(attributions, np.ndarray | Tensor)
    return attributions.to_numpy() if frame else attributions


def _check_lengths(batch: Batch, number: int) -> None:
    held = batch.attributions if isinstance(batch.attributions, Mapping) else {"": batch.attributions}
    for name, array in held.items():
        if hasattr(array, "shape") and len(batch) not in tuple(array.shape)[:2]:
            label = f"attributions[{name!r}]" if name else "attributions"
            raise ValueError(
                f"batches[{number}]: {label} of shape {tuple(array.shape)} do not fit {len(batch)} rows of inputs."
            )
    if batch.segments is not None and len(batch.segments) != len(batch):
        raise ValueError(f"batches[{number}]: expected by for each of {len(batch)} rows, got {len(batch.segments)}.")


def is_stack(array: Any, inputs: tuple[int, ...]) -> bool:
    """Whether the rows of an array of attributions are its second axis."""
    several = len(array.shape) > 1 and array.shape[1] == inputs[0]
    return several and (len(array.shape) > len(inputs) or array.shape[0] != inputs[0])


def is_list(target: Any) -> bool:
    """Whether there is a class for each row, not one for all."""
    return hasattr(target, "__len__") and not isinstance(target, str)


def joined_batches(batches: Sequence[Batch]) -> Batch:
    """The rows of several batches as one."""
    first = batches[0]
    if len(batches) == 1:
        return first
    for other in batches[1:]:
        _check_alike(first, other)
    inputs = replace(first.inputs, values=joined_rows([batch.inputs.values for batch in batches]))
    segments = None if first.segments is None else [label for batch in batches for label in batch.segments]
    spent = sum((batch.spent for batch in batches), Cost())
    return Batch(inputs, _joined_attributions(batches), _joined_targets(batches), segments, first.number, spent)


def _joined_attributions(batches: Sequence[Batch]) -> Any:
    first = batches[0].attributions
    if isinstance(first, Mapping):
        return {
            name: joined_rows([batch.attributions[name] for batch in batches]) if hasattr(held, "shape") else held
            for name, held in first.items()
        }
    stacked = is_stack(first, tuple(batches[0].inputs.values.shape))
    return joined_rows([batch.attributions for batch in batches], axis=int(stacked))


def _joined_targets(batches: Sequence[Batch]) -> Any:
    """One class for all where every batch says the same one, else one for each row."""
    targets = [target.target for target in batches]
    if not any(map(is_list, targets)) and all(target == targets[0] for target in targets):
        return targets[0]
    each = [target.target if is_list(target.target) else [target.target] * len(target) for target in batches]
    return [target for part in each for target in part]


def _check_alike(first: Batch, other: Batch) -> None:
    """Raise for what cannot be evaluated together with the rows before it."""

    def check_like(what: str, wanted: Any, other_part: Any) -> None:
        message = f"expected {what} as in batches[{first.number}], {_words(wanted)}, got {_words(other_part)}"
        raise ValueError(f"batches[{other.number}]: {message}.")

    mine, theirs = first.inputs.values, other.inputs.values
    if mine.shape[1:] != theirs.shape[1:]:
        check_like("inputs", mine, theirs)
    for what, part, another in (("target", first.target, other.target), ("by", first.segments, other.segments)):
        if (part is None) != (another is None):
            check_like(what, part, another)
    held, other_held = (
        part if isinstance(part, Mapping) else {"": part} for part in (first.attributions, other.attributions)
    )
    if list(held) != list(other_held):
        check_like("the same attributions", first.attributions, other.attributions)
    for name, part in held.items():
        if _form(part, first) != _form(other_held[name], other):
            check_like(f"attributions[{name!r}]" if name else "attributions", part, other_held[name])


def _form(attribution: Any, batch: Batch) -> Any:
    """What attributions of several batches must share to become one: all of the shape but the number of rows."""
    if not hasattr(attribution, "shape"):
        return attribution  # a method
    shape = tuple(attribution.shape)
    stacked = is_stack(attribution, tuple(batch.inputs.values.shape))
    return (shape[0], *shape[2:], "stack") if stacked else shape[1:]


def _words(value: Any) -> str:
    return "none" if value is None else kind_in_words(value)
