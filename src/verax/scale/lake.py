"""A lake: Parquet files with the same columns under one address, and the join by key, by DuckDB."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import polars as pl

from verax.core.folders import MAGIC, File, Folder, explained, matcher, open_folder, split_pattern
from verax.core.packages import optional_package
from verax.core.system import available_cores
from verax.data.array_files import differences, first_line, listed
from verax.scale.scoring import INPUTS, BatchScorer

_AS_NUMBERS = (pl.Boolean, pl.Null)  # a column of nothing is one of numbers, all of them missing
_READERS = 16  # footers read at once: over a network it is waiting more than reading


@dataclass(frozen=True)
class Lake:
    """Parquet files under one address."""

    address: str  # the folder, pattern or URL
    folder: Folder  # the folder above all of them
    files: tuple[File, ...]  # those that have rows, by path
    rows: int  # rows of all files
    types: dict[str, Any] = field(hash=False)  # what the columns hold, as polars types by name

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
        kinds = [(name, self.types[name]) for name in names]
        if other := [f"{name} ({kind})" for name, kind in kinds if not (kind.is_numeric() or kind in _AS_NUMBERS)]:
            raise ValueError(f"{self.name()}: expected numbers, not so in {listed(other)}.")


def open_lake(option: str, address: str, most: int | None = None) -> Lake:
    """List the files at an address and read the last page of each; all have the columns of the first."""
    base, pattern = split_pattern(address)
    folder = open_folder(base)
    if not (files := folder.files(pattern)[:most]):
        raise FileNotFoundError(f"{option}: {address}: no .parquet file there.")
    with ThreadPoolExecutor(_READERS) as pool:
        footers = list(pool.map(partial(_footer, folder), files))
    types = footers[0][1]
    for file, (_, columns) in zip(files, footers, strict=True):
        wrong = {
            "missing": [name for name in types if name not in columns],
            "unknown": [name for name in columns if name not in types],
            "of another type": [name for name in columns if name in types and columns[name] != types[name]],
        }
        if text := differences(wrong):
            raise ValueError(f"{folder.name(file.path)}: expected the columns of {folder.name(files[0].path)}; {text}.")
    rows = {file: rows for file, (rows, _) in zip(files, footers, strict=True) if rows}
    if not rows:
        raise ValueError(f"{option}: {address}: expected rows, got none.")
    return Lake(address, folder, tuple(rows), sum(rows.values()), types)


def check_readable(lake: Lake) -> None:
    """Raise for a file that is gone or damaged."""
    for file in lake.files:
        with _opened(lake.folder, file) as opened:
            for _ in opened.iter_batches():
                pass


def first_rows(lake: Lake, columns: Sequence[str], count: int = 2) -> pl.DataFrame:
    """The first rows of a lake, for a problem that shows what its rows look like."""
    lake.check_numbers(columns)
    with _opened(lake.folder, lake.files[0]) as opened:
        batches = opened.iter_batches(count, columns=list(columns))
        return pl.DataFrame(next(batches)).select(pl.col(columns).cast(pl.Float64))


def feature_columns(lake: Lake, key: str, known: Sequence[str] | None, attributions: Mapping[str, Lake]) -> list[str]:
    """The columns that a model takes: those it names, else those of some attribution, else all but the key."""
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


_SETTINGS = {"memory_limit": "2GB", "autoinstall_known_extensions": False, "autoload_known_extensions": False}
_SCORES = '"scores"'


class Join:
    """Rows, attributions and scores as tables of a connection: ``:key``, ``:file`` and ``:row``, and the columns."""

    def __init__(self, key: str, lakes: Mapping[str, Lake], spill: str) -> None:
        self.key, self.lakes = key, lakes
        self.kind = {pl.Int64(): "BIGINT", pl.String(): "VARCHAR"}.get(lakes[INPUTS].key_type(key))
        self.protocols: dict[str, str] = {}
        memory = {"threads": min(4, available_cores()), "temp_directory": spill}
        duckdb = optional_package("duckdb", "verax[lake]", "a lake")
        self.connection = duckdb.connect(config=_SETTINGS | memory)
        for name, lake in lakes.items():
            self._create(_table(name), lake.folder, lake.files)

    def check(self) -> None:
        """Raise for missing, double and surplus keys, naming key and file."""
        for name, lake in self.lakes.items():
            table = _table(name)
            for (number,) in self._rows(f'SELECT ":file" FROM {table} WHERE ":key" IS NULL LIMIT 1'):
                raise ValueError(
                    f"{lake.name(number)}: expected a key in every row, missing values in column {self.key}."
                )
            for (value,) in self._rows(f'SELECT ":key" FROM {table} GROUP BY 1 HAVING count(*) > 1 ORDER BY 1 LIMIT 1'):
                first, second = self.holders(name, value)[:2]
                where = "twice" if first == second else f"which {first} has as well"
                raise ValueError(f"{second}: expected each key once, got {self.key} {value!r} {where}.")
        for name in list(self.lakes)[1:]:
            for table, other in ((INPUTS, name), (name, INPUTS)):
                query = f'SELECT count(*), min(":key") FROM {_table(table)} ANTI JOIN {_table(other)} USING (":key")'
                ((count, value),) = self._rows(query)
                if count:
                    more = f", and neither are {count - 1:,} more" if count > 1 else ""
                    path, address = self.holders(table, value)[0], self.lakes[other].address
                    raise ValueError(f"{path}: {self.key} {value!r} is in no file of {address}{more}.")

    def holders(self, name: str, value: Any) -> list[str]:
        """The files of the inputs or an attribution that hold a key."""
        lake = self.lakes[name]
        query = f'SELECT ":file" FROM {_table(name)} WHERE ":key" = ? ORDER BY ":file"'
        return [lake.name(number) for (number,) in self._rows(query, [value])]

    def add_scores(self, folder: Folder, files: Sequence[File], attribution: str) -> int:
        """Make scored rows known, which ``batches`` leaves out; returns their number."""
        self._create(_SCORES, folder, files, f"WHERE attribution = {_text(attribution)}")
        return int(self._rows(f"SELECT count(*) FROM {_SCORES}")[0][0]) if files else 0

    def outdated(self, changed: Collection[str]) -> dict[int, str]:
        """The files of scores, by number, that are not those of the lake as it is, and why."""
        queries = {
            "another file of scores has some of its keys": f'SELECT max(":file") FROM {_SCORES} GROUP BY ":key" HAVING '
            "count(*) > 1",
            "some of its keys are no longer in the inputs": f'SELECT ":file" FROM {_SCORES} ANTI JOIN {_table(INPUTS)} '
            'USING (":key")',
        }
        for name, lake in self.lakes.items():
            numbers = [str(number) for number in range(len(lake.files)) if lake.name(number) in changed]
            if numbers:
                anew = f'SELECT ":key" FROM {_table(name)} WHERE ":file" IN ({", ".join(numbers)})'
                reason = f"{f'attribution {name}' if name else 'rows'} written since"
                queries[reason] = f'SELECT ":file" FROM {_SCORES} SEMI JOIN ({anew}) USING (":key")'
        reasons: dict[int, str] = {}
        for reason, query in queries.items():
            reasons |= {number: reason for (number,) in self._rows(f"SELECT DISTINCT * FROM ({query})")}
        return reasons

    def batches(self, scorer: BatchScorer, scored: bool) -> Iterator[pl.DataFrame]:
        """Rows with their attributions: files in order, each cut after so many of its rows."""
        inputs = _table(INPUTS)
        tables = f'{inputs} ANTI JOIN {_SCORES} USING (":key")' if scored else inputs
        columns = [
            f'{inputs}.":file" * {1 << 32} + {inputs}.":row" // {scorer.batch_rows} AS ":batch"',
            f'":key" AS {_quoted(self.key)}',
        ]
        columns += [f"{inputs}.{_quoted(feature)}" for feature in scorer.features]
        for name in scorer.attributions:
            table, pairs = _table(name), zip(scorer.features, scorer.joined(name), strict=True)
            tables += f' JOIN {table} USING (":key")'
            columns += [f"{table}.{_quoted(feature)} AS {_quoted(column)}" for feature, column in pairs]
        order = f'{inputs}.":file", {inputs}.":row"'
        query = f"SELECT {', '.join(columns)} FROM {tables} ORDER BY {order}"
        # on a cursor, so that other queries can run meanwhile
        yield from _cut(self.connection.cursor().sql(query).to_arrow_reader(scorer.batch_rows))

    def _create(self, table: str, folder: Folder, files: Sequence[File], condition: str = "") -> None:
        key = _quoted(self.key)
        value = key if self.kind is None else f"CAST({key} AS {self.kind})"
        columns = f'* EXCLUDE ({key}), {value} AS ":key", file_index AS ":file", file_row_number AS ":row"'
        source = f"read_parquet({self._paths(folder, files)}, hive_partitioning = false)"
        view = f"SELECT {columns} FROM {source} {condition}"
        self.connection.execute(f"CREATE OR REPLACE VIEW {table} AS {view}")

    def _paths(self, folder: Folder, files: Sequence[File]) -> str:
        """Files as a list in SQL; those of an object store through its file system."""
        if patterns := [file.path for file in files if MAGIC.search(file.path)]:
            raise ValueError(f"{patterns[0]}: a file's name with *, ? or [ is taken for a pattern; rename it.")
        if not folder.is_local and folder.address not in self.protocols:
            protocol = self.protocols[folder.address] = f"lake{len(self.protocols)}"
            self.connection.register_filesystem(_file_system(folder.system, protocol))
        prefix = "" if folder.is_local else f"{self.protocols[folder.address]}://"
        return f"[{', '.join(_text(prefix + file.path) for file in files)}]"

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return list(self.connection.execute(query, values).fetchall())


def _cut(batches: Iterable[Any]) -> Iterator[pl.DataFrame]:
    """Frames of the rows with the same number of a batch, without it."""
    held: list[pl.DataFrame] = []
    for batch in filter(len, batches):
        *whole, last = pl.concat([*held, pl.DataFrame(batch)]).partition_by(":batch", maintain_order=True)
        yield from (rows.drop(":batch") for rows in whole)
        held = [last]
    yield from (rows.drop(":batch") for rows in held)


def _file_system(system: Any, name: str) -> Any:
    """A file system of pyarrow as DuckDB takes it, for paths that begin with the name and ``://``."""
    base: Any = optional_package("fsspec.implementations.arrow", "verax[lake]", "an object store").ArrowFSWrapper

    class LakeFiles(base):  # type: ignore[misc]  # fsspec has no types
        cachable = False
        protocol = name

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return path.removeprefix(f"{name}://")

        def modified(self, path: str) -> datetime:
            return super().modified(path) or datetime.fromtimestamp(0, UTC)  # which some stores do not know

    return LakeFiles(system)


def _table(lake: str) -> str:
    return _quoted(f"lake {lake}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
