"""Rank agreement: do two lists of scores rank alike?"""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
TIE = 1e-10  # of the spread: a hundred times what rounding does to scores, a thousandth of any standard error of them
LAST_DIGITS = 1e-12  # of a value: what sums of many numbers lose


def tied(values: Floats, tolerance: float | None = None) -> Floats:
    """Values along the last axis, of which those that differ by rounding alone are made equal.

    Methods that agree on a model, as all gradients of a linear one do, would otherwise be ranked by their last bits.
    From the smallest value on, all that exceed it by no more than the tolerance become equal to it; the next value
    begins anew. So no two values further apart than the tolerance are ever equal, however dense those between them are.

    Args:
        values: Those to compare, along the last axis.
        tolerance: ``TIE`` times the spread by default, which is the range of the middle half of the values: an outlier
            does not count. (The range of all where that half is equal but for its last digits.)

    Example:
        >>> tied(np.array([0.3, 0.1, 0.1 + 1e-15, 0.5])).tolist()
        [0.3, 0.1, 0.1, 0.5]
    """
    if values.shape[-1] < 2:
        return values
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    widest = TIE * _spread(ordered) if tolerance is None else np.full(values.shape[:-1], tolerance)
    close = np.diff(ordered, axis=-1) <= widest[..., None]  # a gap to NaN is not
    grouped = ordered.copy()
    for place in np.flatnonzero(close.reshape(-1, close.shape[-1]).any(0)) + 1:
        smallest, value = grouped[..., place - 1], ordered[..., place]
        grouped[..., place] = np.where(value - smallest <= widest, smallest, value)
    equal = np.empty(values.shape)
    np.put_along_axis(equal, order, grouped, axis=-1)
    return equal


def _spread(ordered: Floats) -> Floats:
    """The range of the middle half of sorted values, or of all where that half differs in its last digits alone."""
    count = ordered.shape[-1]
    low, middle, high = (ordered[..., place] for place in (count // 4, count // 2, count - 1 - count // 4))
    spread: Floats = np.where(high - low > LAST_DIGITS * np.abs(middle), high - low, ordered[..., -1] - ordered[..., 0])
    return spread


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
