"""Rank agreement: do two lists of scores rank alike?"""

from typing import Any

import numpy as np
import numpy.typing as npt


def spearman(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> Any:
    """Spearman correlation along the last axis; ties share their mean rank; NaN where all values are equal.

    Example:
        >>> float(spearman(np.array([1.0, 2.0, 3.0]), np.array([9.0, 8.0, 7.0])))
        -1.0
    """
    from scipy.stats import rankdata  # noqa: PLC0415  # to keep ``import verax`` light

    a, b = (ranks - ranks.mean(-1, keepdims=True) for ranks in (rankdata(x, axis=-1), rankdata(y, axis=-1)))
    scale = np.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    return np.where(scale > 0, (a * b).sum(-1) / np.where(scale > 0, scale, 1.0), np.nan)
