"""FICO's HELOC data: will the holder of a home equity line of credit pay? Cleaned as in the paper, 8,290 x 20."""

import csv
import hashlib
import io
import math
import zlib
from collections import Counter
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np

from verax.core.files import write_atomically
from verax.core.shapes import Float, Int
from verax.core.warn import warn
from verax.data.base import Dataset, assembled
from verax.paper.downloads import DownloadError, bounded_downloads, cache_folder

LABEL = "RiskPerformance"
CLASS_NAMES = ("Good", "Bad")
MISSING = (-9.0, -8.0, -7.0)
FEATURES = (
    "ExternalRiskEstimate", "MSinceOldestTradeOpen", "MSinceMostRecentTradeOpen", "AverageMInFile",
    "NumSatisfactoryTrades", "NumTrades60Ever2DerogPubRec", "NumTrades90Ever2DerogPubRec", "PercentTradesNeverDelq",
    "MaxDelq2PublicRecLast12M", "MaxDelqEver", "NumTotalTrades", "NumTradesOpeninLast12M", "PercentInstallTrades",
    "NumInqLast6M", "NumInqLast6Mexcl7days", "NetFractionRevolvingBurden", "NumRevolvingTradesWBalance",
    "NumInstallTradesWBalance", "NumBank2NatlTradesWHighUtilization", "PercentTradesWBalance",
)  # fmt: skip
OPENML_ID = 46932
CLEANED_COUNTS = (4040, 4250)
SOURCE = "https://community.fico.com/s/explainable-machine-learning-challenge"


@dataclass(frozen=True)
class Table:
    """Rows of the file: the 20 features that are kept, the classes, and the row numbers in the file, from 0."""

    values: Float[np.ndarray, "n features"]
    labels: Int[np.ndarray, " n"]
    rows: Int[np.ndarray, " n"]

    def take(self, chosen: Any) -> "Table":
        return Table(self.values[chosen], self.labels[chosen], self.rows[chosen])


def load_heloc(path: str | Path | None = None, *, seed: int = 0, cache: Path | None = None) -> Dataset:
    """Load HELOC, cleaned as in the paper.

    The codes -9, -8 and -7 are missing values. The three columns with most of them (`MSinceMostRecentDelq`,
    `NetFractionInstallBurden`, `MSinceMostRecentInqexcl7days`) are dropped, then every row that lacks a value, then
    every repetition of a row. Class 1 is "Bad" (was 90 days late at least once), class 0 is "Good". The row under the
    header has the id "heloc-0".

    Args:
        path: FICO's CSV file; its columns may come in any order, and others are left alone. None: downloaded from
            OpenML by scikit-learn and kept in the cache folder beside its checksum, which later loads verify.
        seed: Of the split into training, validation and test rows.
        cache: The cache folder; None for ``$XDG_CACHE_HOME/verax`` or ``~/.cache/verax``.
    """
    table = clean(_cached(cache or cache_folder()) if path is None else _read(Path(path)))
    if not len(table.rows):
        raise ValueError(f"{path or 'HELOC'}: no row is complete; in each a feature is one of -9, -8, -7 (missing).")
    ids = tuple(f"heloc-{row}" for row in table.rows)
    return assembled(
        "heloc", table.values, table.labels, ids, class_names=CLASS_NAMES, feature_names=FEATURES, seed=seed
    )


def clean(table: Table) -> Table:
    """Keep complete rows, and of equal rows the first."""
    complete = table.take(~np.isin(table.values, MISSING).any(1))
    rows = np.column_stack([complete.values, complete.labels])
    return complete.take(np.sort(np.unique(rows, axis=0, return_index=True)[1]))


def _read(path: Path) -> Table:
    if not path.is_file():
        raise FileNotFoundError(
            f"path: there is no file {path}. Give the path of FICO's CSV file ({SOURCE}), or none to download the data."
        )
    try:
        return _parse(str(path), path.read_bytes().decode("utf-8-sig"))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: expected a CSV file in UTF-8: {error}.") from error


def _parse(source: str, text: str) -> Table:
    """Read the label and the kept features of all rows."""
    reader = csv.reader(io.StringIO(text, newline=""))
    header = [name.strip() for name in next(reader, [])]
    places = _places(source, header)
    labels: list[int] = []
    values: list[list[float]] = []
    for cells in reader:
        if not cells:  # a blank line
            continue
        where = f"{source}: row {len(labels)} (line {reader.line_num})"
        if len(cells) != len(header):
            raise ValueError(f"{where}: expected {len(header)} cells as in the header, got {len(cells)}.")
        label = cells[places[LABEL]]
        if label.strip() not in CLASS_NAMES:
            raise ValueError(f"{where}, column {LABEL}: expected 'Good' or 'Bad', got {label!r}.")
        labels.append(CLASS_NAMES.index(label.strip()))
        values.append([_number(where, name, cells[places[name]]) for name in FEATURES])
    if not labels:
        raise ValueError(f"{source}: there are no rows under the header.")
    return Table(np.array(values), np.array(labels, dtype=np.int64), np.arange(len(labels)))


def _places(source: str, header: list[str]) -> dict[str, int]:
    """Where each wanted column is."""
    if not any(header):
        raise ValueError(f"{source}: the file is empty or lacks the header; expected the columns of FICO's CSV file.")
    names = (LABEL, *FEATURES)
    counts = Counter(header)
    if lacking := [name for name in names if not counts[name]]:
        raise ValueError(f"{source}: missing column {', '.join(lacking)}; got {', '.join(header)}.")
    if repeated := [name for name in names if counts[name] > 1]:
        raise ValueError(f"{source}: column {', '.join(repeated)} is there more than once.")
    return {name: header.index(name) for name in names}


def _number(where: str, name: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{where}, column {name}: expected a number (-9, -8, -7 for a missing one), got {cell!r}.")
    return value


def _cached(folder: Path) -> Table:
    """The table from the cache, which is filled first if it is empty or damaged."""
    path, checksum = folder / "heloc.csv", folder / "heloc.csv.sha256"
    if path.is_file():
        try:
            expected = checksum.read_text("ascii").split(maxsplit=1)[0].lower()
        except (OSError, ValueError, IndexError):  # not there, or not a checksum
            expected = ""
        if hashlib.sha256(path.read_bytes()).hexdigest() == expected:
            return _read(path)
        warn(f"{path} does not fit its checksum in {checksum.name}; it is downloaded again.")
    text = _from_openml()
    table = _parse(f"OpenML's data set {OPENML_ID}", text)
    counts = tuple(np.bincount(clean(table).labels, minlength=2).tolist())
    if counts != CLEANED_COUNTS:
        raise ValueError(
            f"OpenML's data set {OPENML_ID} is not the paper's: cleaned it has {counts[0]} Good and {counts[1]} Bad "
            f"rows, expected were {CLEANED_COUNTS[0]} and {CLEANED_COUNTS[1]}. Nothing was stored. Get FICO's CSV file "
            f"({SOURCE}) and pass its path."
        )
    content = text.encode()
    write_atomically(path, content)
    write_atomically(checksum, f"{hashlib.sha256(content).hexdigest()}  {path.name}\n".encode())
    return table


def _from_openml() -> str:
    """Download the data set and write it as CSV; a value that OpenML gives as missing becomes -9."""
    from sklearn.datasets import fetch_openml  # noqa: PLC0415  (slow to import, and needed here only)

    try:  # liac-arff needs no pandas
        with bounded_downloads():
            bunch = fetch_openml(
                data_id=OPENML_ID, target_column=LABEL, as_frame=False, parser="liac-arff", cache=False
            )
    except (OSError, EOFError, HTTPException, ValueError, zlib.error) as error:
        raise DownloadError(
            f"Could not download HELOC (OpenML's data set {OPENML_ID}): {error}. Nothing was stored. Try again; or get "
            f"FICO's CSV file ({SOURCE}) and pass its path."
        ) from error
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([LABEL, *bunch.feature_names])
    categories = bunch.categories or {}
    named_columns = zip(bunch.feature_names, bunch.data.T, strict=True)
    columns = [[_cell(value, categories.get(name)) for value in column] for name, column in named_columns]
    writer.writerows(zip(bunch.target, *columns, strict=True))
    return text.getvalue()


def _cell(value: Any, names: list[str] | None) -> str:
    """A number as text; where the column is categorical, scikit-learn gives the place of the value among ``names``."""
    if value is None or math.isnan(value):
        return "-9"
    return f"{value:.17g}" if names is None else str(names[int(value)])
