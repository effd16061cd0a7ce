"""Scores of one model as a matrix, configurations by inputs, and figures made from their means.

An interval says how far a figure would move with other inputs of the same kind: inputs are drawn with replacement, the
same ones for every configuration, so that differences between configurations are paired.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from verax.statistics import bootstrap
from verax.statistics.intervals import Estimate, resampled_estimate

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Matrix:
    """Scores of one model under one metric, ``(C, N)``: canonical forms, as they first appear, by ascending inputs."""

    configurations: tuple[str, ...]
    inputs: npt.NDArray[np.int64]
    values: Floats

    def places(self, configurations: Sequence[str]) -> Places:
        """Which rows of the matrix hold these configurations."""
        row = {name: place for place, name in enumerate(self.configurations)}
        return np.array([row[name] for name in configurations], dtype=np.intp)


def matrix(scores: pl.DataFrame, model: str, metric: str) -> Matrix:
    """The scores of one model under one metric.

    Configurations and inputs without values (the study left the metric out for them) are left out; a configuration
    that misses only some of the inputs that others have is an error.
    """
    rows = scores.filter(pl.col("model") == model, pl.col(metric).is_not_null())
    rows = rows.select("configuration", "input", pl.col(metric).cast(pl.Float64))
    names = rows.select("configuration").unique(maintain_order=True).with_row_index("place")
    rows = rows.join(names, on="configuration").sort("place", "input")
    inputs = rows["input"].unique().sort().to_numpy()
    shape = (names.height, len(inputs))
    if rows.height != names.height * len(inputs) or (rows["input"].to_numpy().reshape(shape) != inputs).any():
        raise ValueError(f"scores: the configurations of model {model!r} do not all have the same inputs once.")
    return Matrix(tuple(names["configuration"].cast(pl.String)), inputs, rows[metric].to_numpy().reshape(shape))


def common(first: Matrix, second: Matrix) -> tuple[Matrix, Matrix]:
    """Both matrices reduced to the configurations and inputs that they share."""
    shared = set(second.configurations)
    names = tuple(name for name in first.configurations if name in shared)
    inputs, columns, other = np.intersect1d(first.inputs, second.inputs, assume_unique=True, return_indices=True)
    return (
        Matrix(names, inputs, first.values[np.ix_(first.places(names), columns)]),
        Matrix(names, inputs, second.values[np.ix_(second.places(names), other)]),
    )


def resampled_means(values: Floats, resamples: int, seed: int) -> Floats:
    """Means over resampled inputs, ``(resamples, C)``."""
    means: Floats = bootstrap.resampled_means(torch.tensor(values), resamples, seed).numpy()
    return means


def redrawn(means: Floats, places: Places, seed: int) -> Floats:
    """The means, with those of some configurations, which are draws themselves, drawn anew in each resample."""
    found = means.copy()
    found[:, places] = bootstrap.redrawn(torch.tensor(means[:, places]), seed).numpy()
    return found


def estimate(statistic: Callable[..., Any], *means: tuple[Floats, Floats]) -> Estimate:
    """A figure ``(...)`` made from means over inputs ``(..., C)``, with its interval.

    For each argument of the statistic the means are given as measured ``(C,)`` and as resampled ``(R, C)``.
    """
    return interval(statistic(*(measured for measured, _ in means)), statistic(*(drawn for _, drawn in means)))


def interval(figure: Any, resampled: Any) -> Estimate:
    """A figure with its interval, from its values over resampled inputs."""
    return resampled_estimate(float(figure), torch.tensor(np.asarray(resampled, dtype=np.float64)))
