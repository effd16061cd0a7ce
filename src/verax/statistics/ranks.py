"""Rank agreement: do two lists of scores rank alike?"""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
TIE = 1e-8  # of the spread: far above the rounding of means, far below any standard error of them


def tied(values: Floats, gap: float | None = None) -> Floats:
    """Values along the last axis, of which those that differ by rounding alone are made equal.

    Sorted values whose gap is at most ``gap``, by default ``TIE`` times the spread (largest less smallest), become the
    smallest of them.
    Methods that agree on a model, as all gradients of a linear one do, would otherwise be ranked by their last bits.

    Example:
        >>> tied(np.array([0.3, 0.1, 0.1 + 1e-15, 0.5])).tolist()
        [0.3, 0.1, 0.1, 0.5]
    """
    if values.shape[-1] < 2:
        return values
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    least = TIE * (ordered[..., -1:] - ordered[..., :1]) if gap is None else gap
    new = ~(np.diff(ordered, axis=-1) <= least)  # a gap to NaN is no tie
    first = np.where(np.concatenate((np.ones_like(new[..., :1]), new), axis=-1), np.arange(values.shape[-1]), 0)
    smallest = np.take_along_axis(ordered, np.maximum.accumulate(first, axis=-1), axis=-1)
    equal = np.empty(values.shape)
    np.put_along_axis(equal, order, smallest, axis=-1)
    return equal


def tie_count(values: Floats) -> int:
    """How many of some values are ``tied`` with another.

    Example:
        >>> tie_count(np.array([0.3, 0.1, 0.1 + 1e-15, 0.5]))
        2
    """
    _, counts = np.unique(tied(values), return_counts=True)
    return int(counts[counts > 1].sum())


def spearman(x: Floats, y: Floats) -> Any:
    """Spearman correlation along the last axis; ties share their mean rank; NaN where all values are equal.

    Example:
        >>> float(spearman(np.array([1.0, 2.0, 3.0]), np.array([9.0, 8.0, 7.0])))
        -1.0
    """
    return rank_correlation(ranks(x), ranks(y))


def ranks(values: Floats) -> Floats:
    """Ranks along the last axis, less their mean; ties share their mean rank; NaN throughout where a value is NaN.

    Example:
        >>> ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist()
        [1.0, -1.5, 1.0, -0.5]
    """
    if not values.shape[-1]:
        return values
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    new = ordered[..., 1:] != ordered[..., :-1]
    end = np.ones((*values.shape[:-1], 1), dtype=bool)
    place = np.arange(1.0, values.shape[-1] + 1)
    first = np.maximum.accumulate(np.where(np.concatenate((end, new), axis=-1), place, 0), axis=-1)
    last = np.where(np.concatenate((new, end), axis=-1), place, np.inf)
    last = np.minimum.accumulate(last[..., ::-1], axis=-1)[..., ::-1]
    found = np.empty(values.shape)
    np.put_along_axis(found, order, (first + last) / 2, axis=-1)
    found[np.isnan(values).any(-1)] = np.nan
    centred: Floats = found - found.mean(-1, keepdims=True)
    return centred


def rank_correlation(a: Floats, b: Floats) -> Any:
    """Spearman correlation of what has these ``ranks``: who compares one list with many ranks it once."""
    scale = np.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    return np.where(scale > 0, (a * b).sum(-1) / np.where(scale > 0, scale, 1.0), np.nan)
