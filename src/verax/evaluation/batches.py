"""Batches: where a stream's rows come from, and the stretches in which they are evaluated."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from verax.core.arguments import kind_in_words
from verax.core.arrays import as_tensor, joined_rows
from verax.core.blocks import pieces
from verax.core.noise import random_order
from verax.core.shapes import Int
from verax.evaluation.explained_class import with_known_class
from verax.problem.attributed import explanations_of, fitted_attributions, plain_attributions
from verax.problem.inputs import Inputs, PlainInputs, checked_values
from verax.problem.problem import Problem
from verax.scoring.class_scores import target_of_rows
from verax.scoring.frames import column_names
from verax.scoring.meter import Cost

FEWEST = 256  # rows before a stream may stop, which the range of scores without a bound is taken from
_GROWTH = 4  # a look is taken whenever there are a quarter more rows
_KEYS = ("inputs", "attributions", "target", "model_kwargs", "by")


@dataclass(frozen=True)
class Batch:
    """Some rows, ready to be evaluated."""

    inputs: Inputs  # the rows, with features and baselines
    attributions: Any  # of them: an array, a stack or a dict of arrays and methods
    target: Any = None  # the class to follow: one for all, or one per row
    segments: Any = None  # of each row, the segment of the data it belongs to; None without segments
    number: int = 0  # which of the stream it is
    # what reading it cost, where the class that explanations explain had to be known
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
        inputs = replace(self.inputs, values=_copy(self.inputs.values))
        attributions = fitted_attributions(self.attributions, _copy)
        return replace(
            self, inputs=inputs, attributions=attributions, target=_copy(self.target), segments=_copy(self.segments)
        )

    @property
    def joins(self) -> bool:
        """Whether it can be cut and joined with others: rows alone, whose features and baselines the call says."""
        return isinstance(self.inputs, PlainInputs) and not self.inputs.model_kwargs


@dataclass(frozen=True)
class Stretch:
    """Rows that are evaluated together."""

    batch: Batch  # the rows
    cuts: tuple[tuple[int, bool], ...]  # parts of batches in it: how many rows, and whether the batch ends with them


@dataclass
class BatchReader:
    """Reads batches of any kind."""

    problem: Problem  # the question about their rows
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
            known = with_known_class(attributions, self.problem.on(inputs, target=target), per_row=True)
            attributions, target, spent = known.attributions, known.problem.target, known.spent
        plain = plain_attributions(fitted_attributions(attributions, inputs.fitted))
        arrays = fitted_attributions(self.problem.order("attributions", plain), _array)
        batch = Batch(_with_array(inputs), arrays, target, segments, number, spent)
        check_lengths(arrays, len(batch), f"batches[{number}]: ")
        if segments is not None and len(segments) != len(batch):
            raise ValueError(f"batches[{number}]: expected by for each of {len(batch)} rows, got {len(segments)}.")
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
        if type(values).__module__.startswith("pyarrow"):
            import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

            values = pl.from_arrow(values)  # which shares its memory
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
        return values[[name for name in values.columns if name != self.by]], np.asarray(values[self.by])


def of_rows(attributions: Any, rows: Any, shape: tuple[int, ...]) -> Any:
    """Attributions of some rows of inputs of a shape: of an array, a stack of them, or every array of a dict."""

    def taken(array: Any) -> Any:
        if not hasattr(array, "shape"):  # a method, which has no rows
            return array
        return array[:, rows] if _is_stack(array, shape) else _take(array, rows)

    return fitted_attributions(attributions, taken)


def check_lengths(attributions: Any, count: int, where: str = "") -> None:
    """Raise for attributions that are not of so many rows."""
    for label, array in _labelled(attributions).items():
        if hasattr(array, "shape") and count not in tuple(array.shape)[:2]:
            raise ValueError(f"{where}{label}: shape {tuple(array.shape)} does not fit {count} rows of inputs.")


def _labelled(attributions: Any) -> dict[str, Any]:
    """Each attribution under what messages call it."""
    if not isinstance(attributions, Mapping):
        return {"attributions": attributions}
    return {f"attributions[{name!r}]": array for name, array in attributions.items()}


def _take(values: Any, rows: Any) -> Any:
    return values.iloc[rows] if hasattr(values, "iloc") else values[rows]


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return value.copy() if isinstance(value, np.ndarray | list) else value


def _with_array(inputs: Inputs) -> Inputs:
    """Inputs whose data frame, if they are one, became an array."""
    if isinstance(inputs.values, np.ndarray | Tensor):
        return inputs
    if not len(inputs):  # it is left out; an empty frame says nothing about the kinds of its columns
        return replace(inputs, values=np.empty(tuple(inputs.values.shape)))
    return replace(inputs, values=checked_values(inputs.values, whole=True, missing=True).numpy())


def _array(attribution: Any) -> Any:
    """A data frame or a list of numbers as an array; whatever else as it is."""
    if isinstance(attribution, list | tuple):
        return as_tensor("attributions", attribution).numpy()
    frame = hasattr(attribution, "to_numpy") and not isinstance(attribution, np.ndarray | Tensor)
    return attribution.to_numpy() if frame else attribution


def _is_stack(array: Any, inputs: tuple[int, ...]) -> bool:
    """Whether the rows of an array of attributions are its second axis."""
    several = len(array.shape) > 1 and array.shape[1] == inputs[0]
    return several and (len(array.shape) > len(inputs) or array.shape[0] != inputs[0])


def joined_batches(batches: Sequence[Batch]) -> Batch:
    """The rows of several batches as one."""
    first, *others = batches
    if not others:
        return first
    for other in others:
        _check_alike(first, other)
    inputs = replace(first.inputs, values=joined_rows([batch.inputs.values for batch in batches]))
    segments = None if first.segments is None else [label for batch in batches for label in batch.segments]
    shape = tuple(first.inputs.values.shape)

    def join(arrays: list[Any]) -> Any:
        if not hasattr(arrays[0], "shape"):  # a method
            return arrays[0]
        return joined_rows(arrays, axis=int(_is_stack(arrays[0], shape)))

    if isinstance(first.attributions, Mapping):
        names = first.attributions
        attributions: Any = {name: join([batch.attributions[name] for batch in batches]) for name in names}
    else:
        attributions = join([batch.attributions for batch in batches])
    spent = sum((batch.spent for batch in batches), Cost())
    return Batch(inputs, attributions, _joined_targets(batches), segments, first.number, spent)


def _joined_targets(batches: Sequence[Batch]) -> Any:
    """One class for all where every batch says the same one, else one for each row."""
    listed = [hasattr(batch.target, "__len__") and not isinstance(batch.target, str) for batch in batches]
    first = batches[0].target
    if not any(listed) and all(batch.target == first for batch in batches):
        return first
    each = zip(batches, listed, strict=True)
    return [target for batch, per_row in each for target in (batch.target if per_row else [batch.target] * len(batch))]


def _check_alike(first: Batch, other: Batch) -> None:
    """Raise for what cannot be evaluated together with the rows before it."""
    for (what, form, expected), (_, other_form, actual) in zip(_forms(first), _forms(other), strict=False):
        if form != other_form:
            words = ["none" if value is None else kind_in_words(value) for value in (expected, actual)]
            message = f"expected {what} as in batches[{first.number}], {words[0]}, got {words[1]}"
            raise ValueError(f"batches[{other.number}]: {message}.")


def _forms(batch: Batch) -> Iterator[tuple[str, Any, Any]]:
    """What batches must share to become one: each part with its form, which leaves out the number of rows."""
    inputs = tuple(batch.inputs.values.shape)
    yield "inputs", inputs[1:], batch.inputs.values
    yield "target", batch.target is None, batch.target
    yield "by", batch.segments is None, batch.segments
    labelled = _labelled(batch.attributions)
    yield "the same attributions", list(labelled), batch.attributions
    for label, array in labelled.items():
        shape = tuple(array.shape) if hasattr(array, "shape") else ()
        stacked = (shape[0], *shape[2:], "stack") if shape and _is_stack(array, inputs) else shape[1:]
        yield label, stacked if shape else array, array


Length = Callable[[Batch], int]


def as_they_come(batches: Iterable[Any], reader: BatchReader) -> Iterator[Stretch]:
    """Each batch a stretch of its own."""
    for number, entry in enumerate(batches):
        batch = reader.read(entry, number)
        if len(batch):
            yield Stretch(batch, ((len(batch), True),))


def regrouped(batches: Iterable[Any], reader: BatchReader, length: Length) -> Iterator[Stretch]:
    """Stretches of one length, whatever the batches; those whose rows cannot be joined stay as they are."""
    held: list[Batch] = []
    room = 0
    for stretch in as_they_come(batches, reader):
        batch = stretch.batch
        if not batch.joins:
            yield from _together(held)
            held, room = [], 0
            yield stretch
            continue
        start = 0
        while start < len(batch):
            room = room or length(batch)
            stop = min(len(batch), start + room)
            held.append(batch.rows(slice(start, stop)))
            room -= stop - start
            if not room:
                yield from _together(held, ends=stop == len(batch))
                held = []
            start = stop
        if held:
            held[-1] = held[-1].copied()
    yield from _together(held)


def _together(held: list[Batch], ends: bool = True) -> Iterator[Stretch]:
    if held:
        cuts = [(len(batch), True) for batch in held]
        yield Stretch(joined_batches(held), (*cuts[:-1], (len(held[-1]), ends)))


def rows_at_once(values: Any, reader: BatchReader, length: Length, drawn: bool, strata: Any) -> Iterator[Stretch]:
    """Rows with numbers, in their order or ``drawn``: first a few, then a quarter more each time."""
    count = row_count(values)
    size = length(reader.read(_entry(values, reader, slice(0, 1)), 0))
    places: Iterable[Any] = pieces(count, size)
    if drawn:
        order = None if strata is None else stratified(strata, count)
        shuffled = (torch.arange(look.start, look.stop) for look in looks(count, size))
        chosen = (random_order(some, count, 0) if order is None else order[some] for some in shuffled)
        places = (np.sort(rows.numpy()) for rows in chosen)  # within a look the order is free; files want it rising
    yield from as_they_come((_entry(values, reader, rows) for rows in places), reader)


def row_count(values: Any) -> int:
    """How many rows there are in an array, a memory map, a data frame or an Arrow table."""
    return int(getattr(values, "num_rows", 0)) or len(values)


def _entry(values: Any, reader: BatchReader, rows: Any) -> dict[str, Any]:
    """Some of all rows, with target and segment, as a batch to read."""
    problem, by, count = reader.problem, reader.by, row_count(values)
    shape = tuple(problem.inputs.shape if isinstance(values, Problem) else values.shape)
    if isinstance(values, Problem):
        inputs = values.rows[rows]
    elif hasattr(values, "num_rows"):  # a table of Arrow
        sliced = isinstance(rows, slice)
        inputs = values.slice(rows.start, rows.stop - rows.start) if sliced else values.take(rows)
    else:
        inputs = _take(values, rows)
    entry = {"inputs": inputs, "attributions": of_rows(reader.attributions, rows, shape)}
    target = problem.target if reader.target is None else reader.target
    if target is not None:
        entry["target"] = target_of_rows(target, rows, count)
    if by is not None and not isinstance(by, str) and not callable(by):
        if len(by) != count:
            raise ValueError(f"by: expected one label for each of {count} rows, got {len(by)}.")
        entry["by"] = np.asarray(by)[rows]
    return entry


def looks(count: int, most: int) -> Iterator[slice]:
    """After which rows to look whether enough is known: few looks, since each is a call of the model.

    Example:
        >>> [look.stop for look in looks(3000, most=512)]
        [256, 512, 768, 1024, 1280, 1600, 2000, 2500, 3000]
    """
    done = 0
    while done < count:
        stop = min(count, done + min(most, max(FEWEST, done // _GROWTH)))
        yield slice(done, stop)
        done = stop


def is_rows(batches: Any) -> bool:
    """Whether something is rows with numbers, not batches one after the other."""
    if isinstance(batches, Problem | Tensor | np.ndarray) or hasattr(batches, "iloc"):
        return True
    table = hasattr(batches, "num_rows") and hasattr(batches, "take")
    return table or (hasattr(batches, "shape") and hasattr(batches, "__getitem__"))


def stratified(strata: Any, count: int, seed: int = 0) -> Int[Tensor, " n"]:
    """A random order of which every beginning holds each stratum by its share.

    Example:
        >>> labels = ["rare"] * 2 + ["common"] * 6
        >>> order = stratified(labels, 8)
        >>> [sum(labels[row] == "rare" for row in order[:many].tolist()) for many in (4, 8)]
        [1, 2]
    """
    if len(strata) != count:
        raise ValueError(f"stratify: expected one label for each of {count} rows, got {len(strata)}.")
    order = random_order(torch.arange(count), count, seed)
    _, place, sizes = np.unique(np.asarray(strata)[order.numpy()], return_inverse=True, return_counts=True)
    grouped = np.argsort(place, kind="stable")
    rank = np.empty(count)
    rank[grouped] = np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order[torch.from_numpy(np.argsort((rank + 0.5) / sizes[place], kind="stable"))]
