"""Scores of one part: read some rows, gather their attributions by key, evaluate, and at the end write one file."""

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch

from verax.core.files import Sealed
from verax.core.version import __version__
from verax.datasets.array_files import first_line, listed
from verax.lakes.gather import gathered, keys_of, numbers
from verax.lakes.job import Job, Measurement
from verax.lakes.parts import Part
from verax.statistics.totals import ScoreSums
from verax.study.said_names import words

Totals = dict[str, dict[str, ScoreSums]]
"""Sums of scores by attribution and metric."""


@dataclass(frozen=True)
class Task:
    """A part to score.

    Attributes:
        inputs: The part.
        holders: By attribution, the parts that hold its keys.
        key: A hash of all on which its scores depend.
    """

    inputs: Part
    holders: Mapping[str, tuple[Part, ...]]
    key: str


@dataclass(frozen=True)
class Scored:
    """A part that is stored.

    Attributes:
        stem: Its name.
        rows: Its rows.
        totals: Sums of its scores.
        warnings: What the measurement warned of.
    """

    stem: str
    rows: int
    totals: Totals
    warnings: tuple[str, ...] = ()


class PartScorer:
    """Scores parts of a job, one after the other; the model is opened once."""

    def __init__(self, job: Job) -> None:
        self.measurement = Measurement(job)
        self.out = job.out

    def score(self, task: Task) -> Scored:
        """Score a part and store the scores."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            table = scores_of(self.measurement, task)
        # one line for each kind: a number in it differs from block to block
        said = {re.sub(r"\d", "", text): text for text in (str(one.message) for one in caught)}
        totals = totals_of(table, tuple(self.measurement.job.settings.chosen))
        content = part_file(table, task, totals)
        self.out.write(Sealed.name(task.inputs.stem, content, ".parquet"), content)
        return Scored(task.inputs.stem, task.inputs.rows, totals, tuple(said.values()))


def scores_of(measurement: Measurement, task: Task) -> pl.DataFrame:
    """The table of a part: attribution by attribution, rows in the part's order."""
    job, part = measurement.job, task.inputs
    keys = keys_of(part, job.key)
    given = {name: gathered(name, keys, holders, job.features) for name, holders in task.holders.items()}
    frames = []
    for values, rows in _blocks(part, measurement):
        check_gaps(part, job, keys[rows], values)
        try:
            found = measurement.evaluate(values, {name: array[rows] for name, array in given.items()})
        except ValueError as error:
            first, last = keys[rows][0], keys[rows][-1]
            told = f"{part.address}: rows with {job.key} {first!r} to {last!r}: {first_line(error)}."
            raise ValueError(told) from error
        frame = found.to_frame()
        frames.append(frame.with_columns(keys[rows].gather(frame["input"]).alias(job.key)))
    whole = pl.concat(frames)
    columns = [name for name in whole.columns if name not in ("input", job.key, "attribution")]
    ordered = [whole.filter(pl.col("attribution") == name) for name in (*given, *job.methods)]
    return pl.concat(ordered).select(job.key, "attribution", *columns)


def _blocks(part: Part, measurement: Measurement) -> Iterator[tuple[Any, slice]]:
    """Rows of numbers, few at a time, and where they stand in the part; cut where one call would cut its work."""
    features, start = measurement.job.features, 0
    for piece in part.pieces(features, measurement.stretch):
        yield numbers(piece), slice(start, start + len(piece))
        start += len(piece)


def check_gaps(part: Part, job: Job, keys: pl.Series, values: Any) -> None:
    """Refuse missing values, for a model of which nobody said that it takes them."""
    gaps = np.isnan(values)
    if not job.missing and gaps.any():
        names = [name for name, gap in zip(job.features, gaps.any(0), strict=True) if gap]
        row = keys[int(gaps.any(1).argmax())]
        raise ValueError(
            f"{part.address}: expected a number in every row, missing values in {listed(names)}, for instance at "
            f"{job.key} {row!r}; if {job.model.path.name} takes missing values, say so (missing=True, --missing allow)."
        )


def totals_of(table: pl.DataFrame, metrics: Sequence[str]) -> Totals:
    """Exact sums of the scores of each attribution and metric."""
    return {
        str(name): {metric: ScoreSums.of(torch.from_numpy(own[metric].to_numpy().copy())) for metric in metrics}
        for (name,), own in table.group_by("attribution", maintain_order=True)
    }


def part_file(table: pl.DataFrame, task: Task, totals: Totals) -> bytes:
    """The content of a scored part: the same bytes whoever computes it."""
    sums = {name: {metric: one.to_json() for metric, one in own.items()} for name, own in totals.items()}
    versions = {"verax": __version__, "torch": torch.__version__}
    facts = {"unit": task.inputs.stem, "key": task.key, "totals": sums, "versions": versions}
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd", metadata=words(facts))
    return buffer.getvalue()


def merged(parts: Sequence[Totals]) -> Totals:
    """The sums over several parts."""
    whole: Totals = {}
    for totals in parts:
        for name, own in totals.items():
            there = whole.setdefault(name, {})
            for metric, sums in own.items():
                there[metric] = there.get(metric, ScoreSums()) + sums
    return whole
