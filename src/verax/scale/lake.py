"""A lake: Parquet files with the same columns under one address."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import polars as pl

from verax.core.folders import File, Folder, explained, matcher, open_folder, split_pattern
from verax.core.packages import optional_package
from verax.data.array_files import first_line, listed

_READERS = 16  # footers read at once: over a network it is waiting more than reading


@dataclass(frozen=True)
class Lake:
    """Parquet files under one address.

    Attributes:
        address: The folder, pattern or URL.
        folder: The folder above all of them.
        files: Those that have rows, by path.
        rows: Rows of all files.
        types: What the columns hold, as polars types by name.
    """

    address: str
    folder: Folder
    files: tuple[File, ...]
    rows: int
    types: dict[str, Any] = field(hash=False)

    def name(self, number: int = 0) -> str:
        """The path or URL of a file; messages name the first one where all files are alike."""
        return self.folder.name(self.files[number].path)

    def marks(self) -> dict[str, str]:
        """What distinguishes each file from one that was there before: its size and the time of writing."""
        return {self.folder.name(file.path): f"{file.size} {file.modified}" for file in self.files}

    def would_hold(self, folder: Folder) -> bool:
        """Whether files in a folder would be taken for files of this lake."""
        path, above = f"{folder.base}/scores.parquet", f"{self.folder.base}/"
        matches = matcher(split_pattern(self.address)[1])
        return folder.base == self.folder.base or (path.startswith(above) and bool(matches(path.removeprefix(above))))

    def key_type(self, key: str) -> Any:
        """What keys are: whole numbers, whatever their size, text, or a date or time."""
        kind = self.types[key]
        if kind.is_integer() and kind != pl.UInt64:
            return pl.Int64()
        if kind in (pl.String, pl.Categorical, pl.Enum):
            return pl.String()
        if kind == pl.UInt64 or kind.is_temporal():
            return kind
        raise ValueError(f"{self.name()}: column {key} holds {kind}; keys are whole numbers or text.")

    def check_numbers(self, names: Sequence[str]) -> None:
        """Raise for columns of something else than numbers."""
        kinds = {name: self.types[name] for name in names}
        other = [
            f"{n} ({kind})" for n, kind in kinds.items() if not kind.is_numeric() and kind not in (pl.Boolean, pl.Null)
        ]
        if other:
            raise ValueError(f"{self.name()}: expected numbers, not so in {listed(other)}.")


def open_lake(option: str, address: str, most: int | None = None) -> Lake:
    """List the files at an address and read the last page of each; all have the columns of the first.

    Args:
        option: The argument that the address was passed for, for messages.
        address: A folder, a file or a pattern, of this machine or a URL.
        most: How many files are looked at; all by default.
    """
    base, pattern = split_pattern(address)
    folder = open_folder(base)
    if not (files := folder.files(pattern)[:most]):
        raise FileNotFoundError(f"{option}: {address}: no .parquet file there.")
    with ThreadPoolExecutor(_READERS) as pool:
        footers = list(pool.map(partial(_footer, folder), files))
    types = footers[0][1]
    for file, (_, columns) in zip(files, footers, strict=True):
        _check_like(folder.name(file.path), columns, folder.name(files[0].path), types)
    rows = {file: rows for file, (rows, _) in zip(files, footers, strict=True) if rows}
    if not rows:
        raise ValueError(f"{option}: {address}: expected rows, got none.")
    return Lake(address, folder, tuple(rows), sum(rows.values()), types)


def check_readable(lake: Lake, number: int) -> None:
    """Raise for a file that is gone or damaged."""
    with _opened(lake.folder, lake.files[number]) as opened:
        for _ in opened.iter_batches():
            pass


def first_rows(lake: Lake, columns: Sequence[str], count: int = 2) -> pl.DataFrame:
    """The first rows of a lake, for a problem that shows what its rows look like."""
    lake.check_numbers(columns)
    with _opened(lake.folder, lake.files[0]) as opened:
        batches = opened.iter_batches(count, columns=list(columns))
        return pl.DataFrame(next(batches)).select(pl.col(columns).cast(pl.Float64))


def feature_columns(lake: Lake, key: str, known: Sequence[str] | None, attributions: Mapping[str, Lake]) -> list[str]:
    """The columns that a model takes: by name where it knows names, otherwise those that some attribution has.

    Where no attribution is read, they are all but the key.
    """
    explained = {name for attribution in attributions.values() for name in attribution.types} or set(lake.types)
    names = list(known or (name for name in lake.types if name in explained - {key}))
    if missing := [name for name in names if name not in lake.types]:
        raise ValueError(f"{lake.name()}: expected the columns of the model; missing {listed(missing)}.")
    if not names:
        raise ValueError(f"{lake.name()}: expected columns that the attributions have as well, got none.")
    return names


def _footer(folder: Folder, file: File) -> tuple[int, dict[str, Any]]:
    """The rows of a file, and what its columns hold."""
    with _opened(folder, file) as opened:
        schema: Any = pl.DataFrame(opened.schema_arrow.empty_table()).schema
        return int(opened.metadata.num_rows), dict(schema)


@contextmanager
def _opened(folder: Folder, file: File) -> Iterator[Any]:
    """A Parquet file; the errors of a damaged one, or of one that is gone, name it."""
    parquet, name = optional_package("pyarrow.parquet", "verax[lake]", "a lake"), folder.name(file.path)
    try:
        with explained(name), folder.system.open_input_file(file.path) as stream:
            yield parquet.ParquetFile(stream)
    except FileNotFoundError:
        raise FileNotFoundError(f"{name}: there is no such file any more; put it back, then run it again.") from None
    except (OSError, ValueError) as error:
        if str(error).startswith(name):
            raise
        raise ValueError(f"{name}: cannot be read as .parquet file ({first_line(error)}).") from None


def _check_like(file: str, columns: dict[str, Any], first: str, expected: dict[str, Any]) -> None:
    """Raise for a file that has other columns than the first one."""
    differences = {
        "missing": [name for name in expected if name not in columns],
        "unknown": [name for name in columns if name not in expected],
        "of another type": [name for name in columns if name in expected and columns[name] != expected[name]],
    }
    if text := " and ".join(f"{word} {listed(names)}" for word, names in differences.items() if names):
        raise ValueError(f"{file}: expected the columns of {first}; {text}.")
