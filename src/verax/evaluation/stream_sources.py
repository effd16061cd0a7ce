"""Sources: where a stream's rows come from, and the stretches in which they are evaluated."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from verax.core.blocks import pieces
from verax.core.noise import random_order
from verax.core.shapes import Int
from verax.evaluation.stream_batches import Batch, BatchReader, joined_batches, of_rows, taken
from verax.problem.problem import Problem
from verax.scoring.class_scores import target_of_rows

FEWEST = 256  # rows before a stream may stop, which the range of scores without a bound is taken from
_GROWTH = 4  # a look is taken whenever there are a quarter more rows


@dataclass(frozen=True)
class Stretch:
    """Rows that are evaluated together."""

    batch: Batch  # the rows
    # cuts: the parts of given batches that it is made of: how many rows, and whether the batch ends with them
    cuts: tuple[tuple[int, bool], ...]


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
        cuts[-1] = (len(held[-1]), ends)
        yield Stretch(joined_batches(held), tuple(cuts))


@dataclass(frozen=True)
class RowSource:
    """Rows that can be asked for by their number: an array, a memory map, a data frame."""

    values: Any  # all rows
    reader: BatchReader  # what reads some of them

    def __post_init__(self) -> None:
        held = self.reader.attributions
        for name, array in (held if isinstance(held, Mapping) else {"": held}).items():
            if hasattr(array, "shape") and len(self) not in tuple(array.shape)[:2]:
                label = f"attributions[{name!r}]" if name else "attributions"
                raise ValueError(f"{label}: shape {tuple(array.shape)} does not fit {len(self)} rows of inputs.")

    def __len__(self) -> int:
        return int(getattr(self.values, "num_rows", 0)) or len(self.values)

    def batch(self, rows: Any) -> Batch:
        """Some rows, with all that is said of each."""
        problem, by = self.reader.problem, self.reader.by
        shape = tuple(problem.inputs.shape) if self.values is problem else tuple(self.values.shape)
        parts = {"inputs": self._values(rows), "attributions": of_rows(self.reader.attributions, rows, shape)}
        target = problem.target if self.reader.target is None else self.reader.target
        if target is not None:
            parts["target"] = target_of_rows(target, rows, len(self))
        if by is not None and not isinstance(by, str) and not callable(by):
            if len(by) != len(self):
                raise ValueError(f"by: expected one label for each of {len(self)} rows, got {len(by)}.")
            parts["by"] = np.asarray(by)[rows]
        return self.reader.read(parts, 0)

    def in_order(self, length: Length) -> Iterator[Stretch]:
        """All rows, stretch by stretch."""
        size = length(self.batch(slice(0, 1)))
        for rows in pieces(len(self), size):
            yield Stretch(self.batch(rows), ((rows.stop - rows.start, True),))

    def at_random(self, length: Length, strata: Any, seed: int = 0) -> Iterator[Stretch]:
        """Rows in a random order, first a few, then a quarter more each time."""
        most = length(self.batch(slice(0, 1)))
        order = None if strata is None else stratified(strata, len(self), seed)
        for look in looks(len(self), most):
            places = torch.arange(look.start, look.stop)
            rows = random_order(places, len(self), seed) if order is None else order[places]
            batch = self.batch(np.sort(rows.numpy()))  # within a look the order is free, and files want it rising
            yield Stretch(batch, ((len(places), True),))

    def _values(self, rows: Any) -> Any:
        if isinstance(self.values, Problem):
            return self.values.rows[rows]
        if hasattr(self.values, "num_rows"):  # a table of Arrow
            step = self.values.slice(rows.start, rows.stop - rows.start) if isinstance(rows, slice) else None
            return self.values.take(rows) if step is None else step
        return taken(self.values, rows)


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
    """Whether something is rows that can be asked for by their number, not batches one after the other."""
    if isinstance(batches, Problem | Tensor | np.ndarray) or hasattr(batches, "iloc"):
        return True
    table = hasattr(batches, "num_rows") and hasattr(batches, "take")
    return table or (hasattr(batches, "shape") and hasattr(batches, "__getitem__"))


def stratified(strata: Any, count: int, seed: int) -> Int[Tensor, " n"]:
    """A random order of which every beginning holds each stratum by its share.

    Example:
        >>> labels = ["rare"] * 2 + ["common"] * 6
        >>> order = stratified(labels, 8, seed=0)
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
