"""Arrays from files: NumPy, safetensors, Parquet and CSV. Nothing is unpickled; what is wrong names the file."""

import csv
import io
import re
import struct
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from verax.core.warn import warn
from verax.data.limits import LimitError, check_bytes, unpacked_bytes

SUFFIXES = (".npy", ".npz", ".safetensors", ".parquet", ".csv")
TABLES = (".parquet", ".csv")
_INDEX = ("", "Unnamed: 0", "__index_level_0__")  # what pandas calls an index that it saves along with the columns
_MISSING = (  # what pandas reads as a missing value, as models were fitted on
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")  # gzip, zstd, zlib
_PANIC = re.compile(r'\bErrString\(\\*"(.+?)\\*"\)')
_NUMPY_ERRORS = (
    OSError, ValueError, TypeError, LookupError, EOFError, RuntimeError, SyntaxError, MemoryError, OverflowError,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error, struct.error,
)  # fmt: skip


@dataclass(frozen=True)
class Array:
    """Numbers from a file, one row per input."""

    values: Any
    source: str  # the file, and the array in it where there are several
    columns: tuple[str, ...] | None = None  # of a table
    written: tuple[str, ...] | None = None  # the same as the file has them, which arrays without names go by

    def ordered(self, expected: Sequence[str], whose: str) -> "Array":
        """The same table with its columns in the expected order, or what is wrong with them."""
        if self.columns is None or self.columns == tuple(expected):
            return self
        unknown = [name for name in self.columns if name not in expected]
        missing = [name for name in expected if name not in self.columns]
        if unknown or missing:
            wrong = differences({"unknown": unknown, "missing": missing})
            hint = "; leave out what is no input, such as the label" if unknown else ""
            raise ValueError(f"{self.source}: expected the columns of {whose}; {wrong}{hint}.")
        places = [self.columns.index(name) for name in expected]
        return Array(self.values[:, places], self.source, tuple(expected), self.columns)

    def like(self, other: "Array") -> "Array":
        """The same with its columns in the order of another table's: by name, or as that one's file has them."""
        if other.columns is None or self.columns is not None:
            return self if other.columns is None else self.ordered(other.columns, other.source)
        names = other.written or other.columns
        if names == other.columns or self.values.shape[-1:] != (len(names),):
            return self
        warn(
            f"{self.source}: has no names of columns, so they are taken in the order of {other.source}, which is not "
            "the model's; save it as .csv or .parquet with names to be sure.",
        )
        return Array(self.values[..., [names.index(name) for name in other.columns]], self.source)


def read_inputs(path: Path) -> Array:
    """Read the rows to explain: the only array of a file, or the one called ``inputs``."""
    arrays = read_arrays(path)
    if len(arrays) > 1 and "inputs" not in arrays:
        raise ValueError(f"{path}: expected one array, or one called inputs, got {listed(list(arrays))}.")
    (array,) = arrays.values() if len(arrays) == 1 else (arrays["inputs"],)
    values = array.values if array.values.dtype.kind == "f" else array.values.astype(np.float64)
    return Array(values, array.source, array.columns)


def read_attributions(paths: Iterable[Path], inputs: Array) -> dict[str, Any]:
    """Read attributions of these inputs, by the name of their file or, where a file holds several, of each array."""
    full = inputs.values.shape
    arrays = {name: array.like(inputs) for name, array in named_attributions(paths, read_arrays).items()}
    for array in arrays.values():
        if array.values.shape[:1] != full[:1]:
            raise ValueError(
                f"{array.source}: expected one row for each of the {full[0] if full else 0} inputs of {inputs.source}, "
                f"got shape {array.values.shape}."
            )
    return {name: array.values for name, array in arrays.items()}


def named_attributions(paths: Iterable[Path], read: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """What several files hold, by name; a name that occurs twice raises."""
    attributions: dict[str, Any] = {}
    for path in paths:
        for name, array in read(path).items():
            if name in attributions:
                raise ValueError(
                    f"{array.source}: a second attribution called {name!r}, after {attributions[name].source}; "
                    "rename one."
                )
            attributions[name] = array
    return attributions


def read_words(path: Path) -> list[str] | None:
    """Read the words of a table of one column, one per row; None for a file of anything else."""
    if path.suffix.lower() not in TABLES or not path.is_file():
        return None
    import polars as pl  # noqa: PLC0415

    content = path.read_bytes()
    try:
        table = _csv(path, content) if path.suffix.lower() == ".csv" else _parquet(path, content)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):  # read_arrays says what is wrong
        return None
    only = table.to_series(0) if table.width == 1 else None
    return None if only is None or only.dtype != pl.String or only.null_count() else [str(word) for word in only]


def read_arrays(path: Path) -> dict[str, Array]:
    """Read all arrays of a file: one under the file's name without suffix, several under their own names."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path}: expected a file that ends in {', '.join(SUFFIXES)}.")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    if suffix in TABLES:
        return {path.stem: table_array(read_table(path), path)}
    arrays = _tensors(path) if suffix == ".safetensors" else _numpy(path)
    if not arrays:
        raise ValueError(f"{path}: expected at least one array, got none.")
    if len(arrays) == 1:
        (only,) = arrays.values()
        return {path.stem: _numbers(only, str(path))}
    return {name: _numbers(array, f"{path} ({name})") for name, array in arrays.items()}


def _numpy(path: Path) -> dict[str, Any]:
    if path.suffix.lower() == ".npz":
        return read_npz(path)
    try:
        with path.open("rb") as file:
            return {path.stem: np.lib.format.read_array(file, allow_pickle=False)}
    except _NUMPY_ERRORS as error:
        raise ValueError(f"{path}: cannot be read as an .npy file of plain numbers ({first_line(error)}).") from None


def read_npz(path: Path) -> dict[str, Any]:
    """Read the arrays of an archive, by name, unless it unpacks to more than the limit; nothing is unpickled."""
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())  # no more than that is ever read
        check_bytes(path, unpacked)
        with np.load(path, allow_pickle=False) as loaded:
            return {name: np.asarray(loaded[name]) for name in loaded.files}
    except LimitError:
        raise
    except _NUMPY_ERRORS as error:
        raise ValueError(f"{path}: cannot be read as an .npz file of plain arrays ({first_line(error)}).") from None


def _tensors(path: Path) -> dict[str, Any]:
    import safetensors  # noqa: PLC0415  # with torch's reader, since NumPy has no bfloat16
    import safetensors.torch  # noqa: PLC0415

    try:
        tensors = safetensors.torch.load_file(path)
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path}: cannot be read as .safetensors file ({first_line(error)}).") from None
    return {
        name: (tensor.float() if tensor.is_floating_point() and tensor.itemsize < 4 else tensor).numpy()
        for name, tensor in tensors.items()
    }


def table_array(table: Any, path: Path, *, gaps: bool = False) -> Array:
    """The numbers of a table; where gaps are allowed they become NaN."""
    import polars as pl  # noqa: PLC0415  # arrays do without

    _check_columns(path, table, gaps)
    return Array(table.cast(pl.Float64).to_numpy(order="c"), str(path), tuple(table.columns))


def read_table(path: Path, *, words: bool = False) -> Any:
    """Read a CSV or Parquet file as a polars frame, with whatever its columns hold; of texts, words as they stand."""
    import polars as pl  # noqa: PLC0415

    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    content = path.read_bytes()  # paths may be taken for patterns
    try:
        table = _csv(path, content, words) if path.suffix.lower() == ".csv" else _parquet(path, content)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:  # it panics over some damaged files
        raise ValueError(f"{path}: cannot be read as {path.suffix} file ({first_line(error)}).") from None
    if not table.height or not table.width:
        raise ValueError(f"{path}: expected rows of numbers, got {table.height} rows of {table.width} columns.")
    if index := [name for name in table.columns if name in _INDEX]:
        raise ValueError(f"{path}: column {index[0]!r} looks like an index; save without it (pandas: index=False).")
    return table


def _csv(path: Path, content: bytes, words: bool = False) -> Any:
    import polars as pl  # noqa: PLC0415

    if content.startswith(_PACKED):  # polars would unpack it, to whatever size
        raise ValueError(f"{path}: expected plain text, got a compressed file; unpack it first.")
    _check_header(path, content)
    if words:
        return pl.read_csv(io.BytesIO(content), infer_schema=False)
    return pl.read_csv(io.BytesIO(content), infer_schema_length=None, null_values=list(_MISSING))


def _parquet(path: Path, content: bytes) -> Any:
    import polars as pl  # noqa: PLC0415

    rows = pl.scan_parquet(io.BytesIO(content)).select(pl.len()).collect().item()  # from its last page alone
    columns = len(pl.read_parquet_schema(io.BytesIO(content)))
    check_bytes(path, max(rows * columns * 8, unpacked_bytes(path, content)))
    table = pl.read_parquet(io.BytesIO(content))
    check_bytes(path, sum(_text_bytes(column) for column in table))
    return table


def _text_bytes(column: Any) -> int:
    """Bytes of a column's texts, each counted by itself: polars keeps equal ones once, Python does not."""
    import polars as pl  # noqa: PLC0415

    while isinstance(column.dtype, pl.List | pl.Array):
        column = column.explode()
    if isinstance(column.dtype, pl.Struct):
        return sum(_text_bytes(column.struct.field(field.name)) for field in column.dtype.fields)
    if column.dtype == pl.Binary:
        return int(column.bin.size().sum())
    if column.dtype in (pl.Categorical, pl.Enum):
        return int(column.cat.len_bytes().sum())
    return int(column.str.len_bytes().sum()) if column.dtype == pl.String else 0


def text_columns(table: Any) -> list[str]:
    """Names of the columns that hold something else than numbers and truth values."""
    import polars as pl  # noqa: PLC0415

    numbers = (pl.Boolean, pl.Null)  # a column of nothing is one of numbers, all of them missing
    return [column.name for column in table if not (column.dtype.is_numeric() or column.dtype in numbers)]


def _check_columns(path: Path, table: Any, gaps: bool) -> None:
    """Raise for a table that is not all numbers."""
    if words := text_columns(table):
        raise ValueError(f"{path}: expected numbers, not so in {listed(words)}.")
    if not gaps and (empty := [column.name for column in table if column.null_count()]):
        raise ValueError(f"{path}: expected a number in every row, missing values in {listed(empty)}.")


def _check_header(path: Path, data: bytes) -> None:
    """Raise for a header that polars would take, but that names no columns."""
    try:
        line = data.split(b"\n", 1)[0].decode("utf-8-sig").rstrip("\r")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: expected text in UTF-8.") from None
    if "\r" in line:
        raise ValueError(f"{path}: its lines end in a carriage return alone; save it with lines that end in a newline.")
    try:
        names = next(csv.reader([line]), [])
    except csv.Error as error:
        raise ValueError(f"{path}: cannot be read as .csv file ({first_line(error)}).") from None
    if names and all(_is_number(name) for name in names):
        raise ValueError(f"{path}: expected a header with the names of the columns, got the numbers {listed(names)}.")
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise ValueError(f"{path}: expected each column once, got several called {listed(twice)}.")


def _numbers(values: Any, source: str) -> Array:
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{source}: expected numbers, got {values.dtype}.")
    return Array(values if values.dtype.kind != "b" else values.astype(np.float64), source)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def listed(names: Sequence[str], most: int = 5) -> str:
    """Names between commas, the first few of many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def differences(names: Mapping[str, Sequence[str]]) -> str:
    """Names that are unknown, missing and the like, in words; empty where there are none."""
    return " and ".join(f"{word} {listed(several)}" for word, several in names.items() if several)


def first_line(error: BaseException) -> str:
    """The first line of a message: errors are shown in one line; of a panic of polars, the cause alone."""
    line = next(iter(str(error).splitlines()), type(error).__name__)
    cause = _PANIC.search(line)
    return (cause[1] if cause else line).rstrip(".")
