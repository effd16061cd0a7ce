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
    """Ranks along the last axis, less their mean; ties share theirs."""
    from scipy.stats import rankdata  # noqa: PLC0415  # to keep ``import verax`` light

    found = rankdata(values, axis=-1)
    centred: Floats = found - found.mean(-1, keepdims=True)
    return centred


def rank_correlation(a: Floats, b: Floats) -> Any:
    """Spearman correlation of what has these ``ranks``: who compares one list with many ranks it once."""
    scale = np.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    return np.where(scale > 0, (a * b).sum(-1) / np.where(scale > 0, scale, 1.0), np.nan)
