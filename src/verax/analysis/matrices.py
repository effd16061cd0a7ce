"""Scores of one model as a matrix, configurations by inputs, and the bootstrap over inputs that all intervals use.

An interval says how far a figure would move with other inputs of the same kind: inputs are drawn with replacement, the
same ones for every configuration, so that differences between configurations are paired. The interval is the middle
95 % of the figure over the resamples (percentile bootstrap). A resample is noisier than the data, which draws figures
such as a correlation or a largest median to one side; where the measured value lies outside, the interval is widened
to hold it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from verax.analysis.tables import higher_is_better

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
LEVEL = 0.95
_AT_ONCE = 128


@dataclass(frozen=True)
class Matrix:
    """Scores of one model under one metric.

    Attributes:
        configurations: C canonical forms, in the order in which they first appear.
        inputs: N row numbers of the data set, ascending.
        values: ``(C, N)``.
    """

    configurations: tuple[str, ...]
    inputs: npt.NDArray[np.int64]
    values: Floats

    def places(self, configurations: Sequence[str]) -> Places:
        """Which rows of the matrix hold these configurations."""
        row = {name: place for place, name in enumerate(self.configurations)}
        return np.array([row[name] for name in configurations], dtype=np.intp)


@dataclass(frozen=True)
class Interval:
    """A figure and its interval over inputs."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def matrix(scores: pl.DataFrame, model: str, metric: str) -> Matrix:
    """The scores of one model under one metric.

    Configurations and inputs without values (the study left the metric out for them) are left out; a configuration
    that misses only some of the inputs that others have is an error.

    Example:
        >>> scores = pl.DataFrame({
        ...     "model": ["m"] * 4, "configuration": ["a", "a", "b", "b"], "input": [0, 1, 1, 0],
        ...     "pc": [0.25, 0.5, 0.75, 1.0],
        ... })
        >>> found = matrix(scores, "m", "pc")
        >>> found.configurations, found.values.tolist()
        (('a', 'b'), [[0.25, 0.5], [1.0, 0.75]])
    """
    higher_is_better(metric)  # refuses a name that is no metric
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
    """Both matrices reduced to the configurations and inputs that they share.

    Example:
        >>> a = Matrix(("p", "q"), np.array([0, 1]), np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> b = Matrix(("q", "r"), np.array([1, 2]), np.array([[5.0, 6.0], [7.0, 8.0]]))
        >>> [reduced.values.tolist() for reduced in common(a, b)]
        [[[4.0]], [[5.0]]]
    """
    there = set(second.configurations)
    names = tuple(name for name in first.configurations if name in there)
    inputs, columns, other = np.intersect1d(first.inputs, second.inputs, assume_unique=True, return_indices=True)
    return (
        Matrix(names, inputs, first.values[np.ix_(first.places(names), columns)]),
        Matrix(names, inputs, second.values[np.ix_(second.places(names), other)]),
    )


def resampled_means(values: Floats, resamples: int, seed: int) -> Floats:
    """Means over resampled inputs, ``(resamples, C)``: how often each input is drawn, times the values.

    Example:
        >>> resampled_means(np.array([[1.0, 1.0], [2.0, 2.0]]), 3, seed=0).tolist()
        [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    """
    count, generator = values.shape[1], np.random.default_rng(seed)
    even, means = np.full(count, 1 / count), np.empty((resamples, len(values)))
    for start in range(0, resamples, _AT_ONCE):  # all draws of many inputs would not fit
        size = min(_AT_ONCE, resamples - start)
        drawn = generator.multinomial(count, even, size=size).astype(np.float64)
        means[start : start + size] = drawn @ values.T / count
    return means


def estimate(statistic: Callable[..., Any], *means: tuple[Floats, Floats]) -> Interval:
    """A figure made from means over inputs, with its interval.

    Args:
        statistic: From means ``(..., C)`` to figures ``(...)``.
        *means: For each argument of the statistic, the means as measured ``(C,)`` and as resampled ``(R, C)``.

    Example:
        >>> measured, resampled = np.array([1.0, 3.0]), np.array([[1.0, 2.0], [1.0, 4.0], [1.0, 3.0]])
        >>> estimate(lambda m: m[..., 1] - m[..., 0], (measured, resampled))
        Interval(value=2.0, low=1.05, high=2.95)
    """
    return interval(statistic(*(measured for measured, _ in means)), statistic(*(drawn for _, drawn in means)))


def interval(value: Any, resampled: Any) -> Interval:
    """A figure with the middle 95 % of its values over resamples, widened to hold the figure itself.

    Example:
        >>> interval(5.0, [1.0, 2.0, 3.0])
        Interval(value=5.0, low=1.05, high=5.0)
    """
    if np.isnan(value):
        return Interval(np.nan, np.nan, np.nan)
    low, high = np.nanquantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(value), min(float(low), float(value)), max(float(high), float(value)))
