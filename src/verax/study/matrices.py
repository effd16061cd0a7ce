"""Scores of one model as a matrix, configurations by inputs, and figures made from their means.

An interval says how far a figure would move with other inputs of the same kind: inputs are drawn with replacement, the
same ones for every configuration, so that differences between configurations are paired.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor

from verax.statistics.intervals import Estimate, means_of, resampled_columns, resampled_estimate, times_drawn
from verax.statistics.ranks import ranks, tied

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Matrix:
    """Scores of one model under one metric, ``(C, N)``: canonical forms, as they first appear, by ascending inputs."""

    configurations: tuple[str, ...]
    inputs: npt.NDArray[np.int64]
    values: Floats
    _drawn: dict[int, Floats] = field(default_factory=dict, init=False, repr=False, compare=False)
    _ranked: dict[int, Floats] = field(default_factory=dict, init=False, repr=False, compare=False)
    _parts: dict[bytes, "Matrix"] = field(default_factory=dict, init=False, repr=False, compare=False)

    def places(self, configurations: Sequence[str]) -> Places:
        """Which rows of the matrix hold these configurations."""
        row = {name: place for place, name in enumerate(self.configurations)}
        return np.array([row[name] for name in configurations], dtype=np.intp)

    def resampled(self, resamples: int, seed: int) -> Floats:
        """Means over resampled inputs, ``(resamples, C)``; drawn once, for whoever asks for as many or fewer."""
        if len(self._drawn.get(seed, ())) < resamples:
            self._drawn[seed] = resampled_means(self.values, resamples, seed)
        return self._drawn[seed][:resamples]

    def resampled_ranks(self, resamples: int, seed: int) -> Floats:
        """The ``ranks`` of configurations by those means, equal ones ``tied``; ranked once for all comparisons."""
        if len(self._ranked.get(seed, ())) < resamples:
            self._ranked[seed] = ranks(tied(self.resampled(resamples, seed)))
        return self._ranked[seed][:resamples]

    def part(self, places: Places) -> "Matrix":
        """Some of the configurations, the same object at each call, which keeps what was drawn of it."""
        key = places.tobytes()
        if key not in self._parts:
            names = tuple(self.configurations[place] for place in places)
            self._parts[key] = Matrix(names, self.inputs, self.values[places])
        return self._parts[key]

    def negated(self) -> "Matrix":
        """The same with every score, and what was drawn of them, negated."""
        negated = Matrix(self.configurations, self.inputs, -self.values)
        negated._drawn.update((seed, -drawn) for seed, drawn in self._drawn.items())
        return negated


def matrix(scores: pl.DataFrame, model: str, metric: str) -> Matrix:
    """The scores of one model under one metric, without configurations and inputs that the metric was left out for."""
    columns = scores.select("model", "configuration", "input", pl.col(metric).alias("score"))
    rows = columns.filter(pl.col("model") == model, pl.col("score").is_not_null())
    names = rows["configuration"].cast(pl.Categorical)
    configurations = names.unique(maintain_order=True)
    numbers = rows["input"].to_numpy()
    present = np.bincount(numbers) > 0
    inputs = np.flatnonzero(present)
    shape = (len(configurations), len(inputs))
    # each score is put in its place, which takes a fraction of the time that it would to sort them
    codes, ordered = (each.to_physical().to_numpy() for each in (names, configurations))
    place = np.zeros(ordered.max(initial=0) + 1, dtype=np.intp)
    place[ordered] = np.arange(len(ordered))
    at = place[codes] * len(inputs) + (np.cumsum(present) - 1)[numbers]
    if rows.height != shape[0] * shape[1] or (np.bincount(at, minlength=rows.height) != 1).any():
        raise ValueError(f"scores: the configurations of model {model!r} do not all have the same inputs once.")
    values = np.empty(rows.height)
    values[at] = rows["score"].to_numpy()
    return Matrix(tuple(configurations.cast(pl.String)), inputs, values.reshape(shape))


def common(first: Matrix, second: Matrix) -> tuple[Matrix, Matrix]:
    """Both matrices reduced to the configurations and inputs that they share; as they are, where those are all."""
    if first.configurations == second.configurations and np.array_equal(first.inputs, second.inputs):
        return first, second
    shared = set(second.configurations)
    names = tuple(name for name in first.configurations if name in shared)
    inputs, columns, other = np.intersect1d(first.inputs, second.inputs, assume_unique=True, return_indices=True)
    return (
        Matrix(names, inputs, first.values[np.ix_(first.places(names), columns)]),
        Matrix(names, inputs, second.values[np.ix_(second.places(names), other)]),
    )


def resampled_means(values: Floats, resamples: int, seed: int) -> Floats:
    """Means over resampled inputs, ``(resamples, C)``."""
    means: Floats = means_of(torch.tensor(values), _drawn(values.shape[1], resamples, seed)).numpy()
    return means


@lru_cache(maxsize=1)
def _drawn(inputs: int, resamples: int, seed: int) -> tuple[Tensor, ...]:
    """The draws of all matrices of a study, in less room than one of them takes."""
    return tuple(times_drawn(inputs, resamples, seed))


def redrawn(means: Floats, places: Places, seed: int) -> Floats:
    """The means, with those of some configurations, which are draws themselves, drawn anew in each resample."""
    drawn = means.copy()
    drawn[:, places] = resampled_columns(torch.tensor(means[:, places]), seed).numpy()
    return drawn


def estimate(statistic: Callable[..., Any], *means: tuple[Floats, Floats]) -> Estimate:
    """A figure ``(...)`` made from means over inputs ``(..., C)``, with its interval.

    For each argument of the statistic the means are given as measured ``(C,)`` and as resampled ``(R, C)``.
    """
    return interval(statistic(*(measured for measured, _ in means)), statistic(*(drawn for _, drawn in means)))


def interval(figure: Any, resampled: Any) -> Estimate:
    """A figure with its interval, from its values over resampled inputs."""
    return resampled_estimate(float(figure), torch.tensor(np.asarray(resampled, dtype=np.float64)))
