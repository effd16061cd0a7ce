"""Rank agreement: do two lists of scores rank alike?"""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


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
