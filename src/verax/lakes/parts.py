"""Parts of a lake: Parquet files of one schema, read a few rows at a time."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from verax.core.hashing import digest
from verax.core.packages import optional_package
from verax.datasets.array_files import first_line, listed
from verax.lakes.storage import File, Folder, RemoteFolder, folder_of, split_pattern
from verax.lakes.urls import shown

_VALUES = 1 << 21  # in one piece: 16 MiB of numbers, whatever the number of columns
_AT_ONCE = 16  # last pages of files that are read at once: over a network it is waiting more than reading


@dataclass(frozen=True)
class Part:
    """One file of a lake.

    Attributes:
        folder: Where it is.
        name: Its path there.
        rows: How many rows it has.
        types: Its columns and what they hold.
        mark: Tells a file that was written anew from the one that was there: its size and the time of writing.
    """

    folder: Folder
    name: str
    rows: int
    types: tuple[tuple[str, str], ...]
    mark: tuple[int, int]

    @property
    def address(self) -> str:
        """The part as people know it."""
        return self.folder.address(self.name)

    @property
    def stem(self) -> str:
        """The name under which its scores are kept."""
        return self.name.removesuffix(".parquet")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(name for name, _ in self.types)

    def pieces(self, columns: Sequence[str], rows: int | None = None) -> Iterator[pl.DataFrame]:
        """Its rows in order, so many at a time, or some thousands: memory does not grow with the part."""
        count = rows or max(1, _VALUES // len(columns))
        with named_errors(self.folder, self.name):
            yield from _pieces(self.folder, self.name, self.rows, list(columns), count)


@dataclass(frozen=True)
class Lake:
    """Parts under one address."""

    address: str
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(part.rows for part in self.parts)


def open_lake(option: str, address: str) -> Lake:
    """Find the parts at an address and read the last page of each; all have the schema of the first.

    Args:
        option: What the address was given for, for messages.
        address: A folder, a file or a pattern, of this machine or a URL.
    """
    base, pattern = split_pattern(address)
    folder = folder_of(base)
    files = folder.files(pattern)
    if not files:
        raise FileNotFoundError(f"{option}: {shown(address)}: no .parquet file there.")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        parts = list(pool.map(functools.partial(_part, folder), files))
    for part in parts[1:]:
        _check_like(part, parts[0])
    return Lake(shown(address), tuple(parts))


def _part(folder: Folder, file: File) -> Part:
    with named_errors(folder, file.name):
        rows, types = _last_page(folder, file.name)
    return Part(folder, file.name, rows, types, (file.size, file.modified))


def _check_like(part: Part, first: Part) -> None:
    """Refuse a part that has other columns than the first one."""
    if dict(part.types) == dict(first.types):
        return
    own, wanted = dict(part.types), dict(first.types)
    words = {
        "missing": [name for name in wanted if name not in own],
        "unknown": [name for name in own if name not in wanted],
        "of another type": [name for name in own if name in wanted and own[name] != wanted[name]],
    }
    found = " and ".join(f"{word} {listed(names)}" for word, names in words.items() if names)
    raise ValueError(f"{part.address}: expected the columns of {first.address}; {found}.")


def identity(*parts: Part) -> str:
    """A hash that tells whether some part was written anew."""
    return digest(parts=[(part.name, *part.mark) for part in parts])


def _last_page(folder: Folder, name: str) -> tuple[int, tuple[tuple[str, str], ...]]:
    if isinstance(folder, RemoteFolder):
        with folder.open(name) as file:
            opened = _parquet().ParquetFile(file)
            schema: Any = pl.from_arrow(opened.schema_arrow.empty_table())
            return opened.metadata.num_rows, tuple((name, str(kind)) for name, kind in schema.schema.items())
    scan = _scan(folder, name)
    types = tuple((name, str(kind)) for name, kind in scan.collect_schema().items())
    return scan.select(pl.len()).collect().item(), types


def _pieces(folder: Folder, name: str, whole: int, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
    if isinstance(folder, RemoteFolder):
        with folder.open(name) as file:
            batches = _parquet().ParquetFile(file).iter_batches(rows, columns=columns)
            frames: Any = (pl.from_arrow(batch) for batch in batches)
            yield from _regrouped((frame.select(columns) for frame in frames), rows)
        return
    for start in range(0, whole, rows):
        yield _scan(folder, name).select(columns).slice(start, rows).collect()


def _regrouped(frames: Iterable[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """The same rows, so many at a time; pyarrow may give fewer."""
    held: pl.DataFrame | None = None
    for frame in frames:
        held = frame if held is None else pl.concat([held, frame])
        while len(held) >= rows:
            yield held[:rows]
            held = held[rows:]
    if held is not None and len(held):
        yield held


def _scan(folder: Folder, name: str) -> pl.LazyFrame:
    return pl.scan_parquet(Path(folder.root, name), glob=False, hive_partitioning=False)


def _parquet() -> Any:
    return optional_package("pyarrow.parquet", "verax[ray]", "a part of an object store")


@contextmanager
def named_errors(folder: Folder, name: str) -> Iterator[None]:
    """Make the errors of a damaged or vanished file name it."""
    address = folder.address(name)
    gone = f"{address}: there is no such file any more; put it back, then run the same command again."
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(gone) from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:  # it panics over some damaged files
        raise ValueError(f"{address}: cannot be read as .parquet file ({first_line(error)}).") from None
    except (OSError, ValueError) as error:  # pyarrow's are of these kinds
        if str(error).startswith(address):
            raise
        if isinstance(folder, RemoteFolder) and not folder.has(name):  # the errors of reading do not say so
            raise FileNotFoundError(gone) from None
        raise ValueError(f"{address}: cannot be read as .parquet file ({first_line(error)}).") from None
