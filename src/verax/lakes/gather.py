"""Attributions of one part's rows, in the part's order, from whatever parts hold them."""

import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from verax.datasets.array_files import listed
from verax.lakes.keys import plain_keys
from verax.lakes.parts import Part

_IN_MEMORY = 1 << 26  # bytes of attributions; what is larger lies in a temporary file


def keys_of(part: Part, key: str) -> pl.Series:
    """The keys of a part, in its order."""
    return plain_keys(pl.concat([piece[key] for piece in part.pieces([key])]))


def gathered(name: str, keys: pl.Series, holders: Sequence[Part], features: Sequence[str]) -> Any:
    """Attributions of rows by their keys, ``(rows, features)``; other rows of the holders are passed over.

    Args:
        name: Of the attribution, for messages.
        keys: Of the rows, in the order wanted.
        holders: Parts that hold them.
        features: The columns, in the order wanted.
    """
    own = pl.DataFrame({"key": keys, "row": np.arange(len(keys))})
    found = _room(len(keys), len(features))
    filled = 0
    for part in holders:
        for piece in part.pieces([str(keys.name), *features]):
            theirs = pl.DataFrame({"key": plain_keys(piece[str(keys.name)]), "place": np.arange(len(piece))})
            both = theirs.join(own, on="key", how="inner")
            values = numbers(piece.select(features)[both["place"]])
            _check_finite(f"{part.address}: attribution {name}", both["key"].alias(str(keys.name)), values, features)
            found[both["row"].to_numpy()] = values
            filled += len(both)
    if filled != len(keys):  # checked before any work, so that this is another lake than it was then
        names = ", ".join(part.address for part in holders)
        raise ValueError(f"{names}: expected {len(keys):,} keys, found {filled:,}; were they written anew meanwhile?")
    return found


def numbers(table: pl.DataFrame) -> Any:
    """Columns as an array; gaps become NaN."""
    return table.cast(pl.Float64).to_numpy(order="c")


def _check_finite(where: str, keys: pl.Series, values: Any, features: Sequence[str]) -> None:
    """Refuse gaps, NaN and infinity here, where it is known which part of the attribution they come from."""
    bad = ~np.isfinite(values)
    if bad.any():
        row, columns = int(bad.any(1).argmax()), [name for name, one in zip(features, bad.any(0), strict=True) if one]
        raise ValueError(
            f"{where}: expected a finite number in every row, missing values, NaN or infinity in {listed(columns)}, "
            f"for instance at {keys.name} {keys[row]!r}."
        )


def _room(rows: int, columns: int) -> Any:
    """Room for numbers, in memory or, where they are many, in a file that goes when nobody looks at it any more."""
    if rows * columns * 8 <= _IN_MEMORY:
        return np.empty((rows, columns))
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, np.float64, "w+", shape=(rows, columns))
