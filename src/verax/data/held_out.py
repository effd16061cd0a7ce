"""Rows that models have not learnt from, as users name them."""

from typing import Any

import numpy as np

from verax.core.shapes import Bool


def held_out_rows(given: Any, count: int, where: str) -> Bool[np.ndarray, " n"]:
    """Which rows are held out.

    Args:
        given: One truth value, or 0 or 1, for each row; or numbers of rows.
        count: How many rows there are.
        where: What is read, for messages.

    Example:
        >>> held_out_rows([4, 1], 5, "held_out").tolist()
        [False, True, False, False, True]
    """
    values = np.asarray(given)
    if values.ndim != 1 or values.dtype.kind not in "biu":
        raise ValueError(
            f"{where}: expected true or false (or 1 or 0) for each row, or row numbers, got {values.dtype} "
            f"{values.shape}."
        )
    if values.dtype.kind == "b" or len(values) == count:
        if len(values) != count or not np.isin(values, (0, 1)).all():
            raise ValueError(f"{where}: expected {count} truth values, or 0 and 1, one per row; or some row numbers.")
        return values.astype(bool)
    if len(values) and (values.min() < 0 or values.max() >= count):
        raise ValueError(f"{where}: expected row numbers from 0 to {count - 1}, got {values.min()} to {values.max()}.")
    found = np.zeros(count, dtype=bool)
    found[values] = True
    return found
