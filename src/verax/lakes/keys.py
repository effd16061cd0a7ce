"""The join by key: which parts of an attribution hold the keys of each part of the inputs.

Keys are read once and spread over files by their hash (a Grace hash join), so that memory is bounded by one of them
whatever the size of the lake. What is kept is small: for each part of the inputs, a list of parts. The join of single
rows is the worker's, by the keys themselves (``gather.py``).
"""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import polars as pl

from verax.core.shapes import Shaped
from verax.lakes.parts import Lake, Part

_BUCKET_ROWS = 1 << 21
_ENTRY = np.dtype([("hash", np.uint64), ("part", np.uint32)])

Holders = dict[str, tuple[tuple[Part, ...], ...]]
"""By attribution, for each part of the inputs, the parts that hold its keys."""


def find_holders(inputs: Lake, attributions: Mapping[str, Lake], key: str) -> Holders:
    """Find where each part's attributions are; refuse missing, double and surplus keys, by part and key.

    Args:
        inputs: The rows.
        attributions: Of these rows, by name; their parts need not be cut as those of the inputs, nor be in order.
        key: The column that says which row is which.
    """
    kind = _kind(inputs, key)
    for lake in attributions.values():
        if _kind(lake, key) != kind:
            raise ValueError(
                f"{lake.parts[0].address}: expected {key} to hold {kind}, as in {inputs.parts[0].address}, found "
                f"{_kind(lake, key)}."
            )
    count = -(-inputs.rows // _BUCKET_ROWS)
    holders: Holders = {}
    with tempfile.TemporaryDirectory(prefix="verax-keys-") as folder:
        own = _spread(inputs, key, count, Path(folder, "inputs"))
        for name, lake in attributions.items():
            theirs = _spread(lake, key, count, Path(folder, "attribution"))
            buckets = zip(own, theirs, strict=True)
            pairs = np.unique(np.concatenate([_pairs(inputs, lake, key, *bucket) for bucket in buckets]))
            by_part: list[list[Part]] = [[] for _ in inputs.parts]
            for pair in pairs.tolist():
                by_part[pair >> 32].append(lake.parts[pair & 0xFFFFFFFF])
            holders[name] = tuple(map(tuple, by_part))
    return holders


def hashes(keys: pl.Series) -> Shaped[np.ndarray, " n"]:
    """A number for each key: two keys that differ have different ones, always where they are whole numbers."""
    own = plain_keys(keys)
    if not own.dtype.is_integer():
        return own.hash(0).to_numpy()
    with np.errstate(over="ignore"):  # steps of splitmix64, each of which can be undone
        mixed = own.to_numpy().astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)


def plain_keys(keys: pl.Series) -> pl.Series:
    """Keys in one form: whole numbers of any size are the same, and text is text."""
    if isinstance(keys.dtype, pl.Categorical | pl.Enum):
        return keys.cast(pl.String)
    return keys.cast(pl.Int64) if keys.dtype.is_integer() and keys.dtype != pl.UInt64 else keys


def check_key(option: str, lake: Lake, key: str) -> None:
    """Refuse a lake without the column of keys."""
    if key not in lake.parts[0].columns:
        raise ValueError(f"{option}: {lake.parts[0].address}: there is no column {key}, which key names.")


def _kind(lake: Lake, key: str) -> str:
    """Whether keys are whole numbers, of whatever size, or else what they are."""
    found = dict(lake.parts[0].types)[key]
    if found.startswith(("Int", "UInt")) and found != "UInt64":
        return "whole numbers"
    if found.startswith(("String", "Categorical", "Enum")):
        return "text"
    if found in ("UInt64", "Date") or found.startswith("Datetime"):
        return found
    raise ValueError(f"{lake.parts[0].address}: column {key} holds {found}; keys are whole numbers or text.")


def _spread(lake: Lake, key: str, count: int, base: Path) -> list[Path]:
    """Write hash and part of each key to the file that its hash says."""
    paths = [base.with_suffix(f".{bucket}") for bucket in range(count)]
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for number, part in enumerate(lake.parts):
            for found in _keys(part, key):
                entries = np.empty(len(found), _ENTRY)
                entries["hash"], entries["part"] = hashes(found), number
                buckets = entries["hash"] % np.uint64(count)
                for bucket, file in enumerate(files):
                    file.write((entries if count == 1 else entries[buckets == bucket]).tobytes())
    return paths


def _keys(part: Part, key: str) -> Iterator[pl.Series]:
    for piece in part.pieces([key]):
        if piece[key].null_count():
            raise ValueError(f"{part.address}: expected a key in every row, missing values in column {key}.")
        yield piece[key]


def _pairs(inputs: Lake, lake: Lake, key: str, own: Path, theirs: Path) -> Shaped[np.ndarray, " pairs"]:
    """Which parts share keys, of those in one bucket: the part of the inputs times 2^32, plus that of the other."""
    left, right = _sorted(own, inputs, key), _sorted(theirs, lake, key)
    if not np.array_equal(left["hash"], right["hash"]):
        _refuse(inputs, lake, key, left, right)
    return np.unique((left["part"].astype(np.uint64) << np.uint64(32)) | right["part"])


def _sorted(path: Path, lake: Lake, key: str) -> Any:
    """The entries of a bucket by hash; refuses a key that comes twice."""
    found = np.fromfile(path, _ENTRY)
    found = found[np.argsort(found["hash"], kind="stable")]
    twice = np.flatnonzero(found["hash"][1:] == found["hash"][:-1])
    if len(twice):
        first, second = (lake.parts[found["part"][twice[0] + at]] for at in (0, 1))
        keys = [*_named(first, key, found["hash"][twice[0]]), *_named(second, key, found["hash"][twice[0]])]
        if len(set(keys)) > 1:
            raise ValueError(
                f"{second.address}: keys {keys[0]!r} and {keys[-1]!r} cannot be told apart by their hash, which "
                "hardly ever happens; change one of them."
            )
        where = "twice" if first is second else f"that {first.address} has as well"
        raise ValueError(f"{second.address}: expected each key once, found {key} {keys[0]!r} {where}.")
    return found


def _refuse(inputs: Lake, lake: Lake, key: str, left: Any, right: Any) -> NoReturn:
    """Name a key that one of the two lacks, and count the others."""
    missing = left[~np.isin(left["hash"], right["hash"])]
    surplus = right[~np.isin(right["hash"], left["hash"])]
    found, own, other = (missing, inputs, lake) if len(missing) else (surplus, lake, inputs)
    first = found[found["part"].argmin()]
    part = own.parts[first["part"]]
    name = _named(part, key, first["hash"])[0]
    others = f", nor are at least {len(found) - 1:,} more" if len(found) > 1 else ""
    raise ValueError(f"{part.address}: {key} {name!r} is in no part of {other.address}{others}.")


def _named(part: Part, key: str, hashed: Any) -> list[Any]:
    """The keys of a part that have this hash."""
    return [one for found in _keys(part, key) for one in found.filter(pl.Series(hashes(found) == hashed))]
