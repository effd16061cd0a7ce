"""Labels of ISIC images: the publishers' tables of 2016 to 2020, known by their headers, merged to a row per image."""

import csv
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
CLASS_NAMES = ("benign", "malignant")

_ID_COLUMNS = ("isic_id", "image_id", "image", "image_name")
_ONE_HOT = ("mel", "nv", "bcc", "ak", "akiec", "bkl", "df", "vasc", "scc", "unk")
_MALIGNANT = ("mel", "bcc", "ak", "akiec", "scc")
_WORDS = {"benign": False, "malignant": True, "0": False, "1": True, "0.0": False, "1.0": True}
_LOOKED_FOR = """a table with one of these headers:
  isic_id, malignant [, dx, year, lesion_id]              (one folder with labels.csv)
  image_id, label                                         (2016)
  image_id, melanoma, seborrheic_keratosis                (2017)
  image, MEL, NV, BCC, AKIEC, BKL, DF, VASC               (2018)
  image, MEL, NV, BCC, AK, BKL, DF, VASC, SCC [, UNK]     (2019)
  image_name, ..., target                                 (2020)"""

Cells = Mapping[str, str]
Line = tuple[int, list[str]]


@dataclass(frozen=True)
class Row:
    """One image in one table."""

    isic_id: str  # without ``_downsampled``, which 2019 adds to older images
    malignant: bool
    year: int  # of the challenge; 0 where a labels.csv does not say
    lesions: tuple[str, ...]  # names of the lesion it shows; several when tables name it differently
    table: str  # its path below the root


@dataclass(frozen=True)
class Labels:
    """The tables of a folder, merged to one row per image, with what ``IsicReport`` says of the other rows."""

    rows: tuple[Row, ...]  # by id; where tables disagree, the newest year's label
    images: tuple[Path | None, ...]  # the file of each row
    unknown: int
    repeated: int
    conflicts: tuple[str, ...]


@dataclass(frozen=True)
class _Kind:
    """A kind of table: its id column, the columns it must have, and how the label is read (None: unknown)."""

    year: int
    id_column: str
    needed: tuple[str, ...]
    label: Callable[[Cells], bool | None]


def read_labels(root: Path) -> Labels:
    """Find the tables and images below a folder and merge them to one row per image."""
    if not root.is_dir():
        raise FileNotFoundError(f"path: expected a folder with ISIC images and labels, got none at {root}.")
    tables, images = _survey(root)
    rows: list[Row] = []
    lesions: dict[str, list[str]] = {}
    unknown, headers = 0, []
    for path in tables:
        name = path.relative_to(root).as_posix()
        header, lines = _read_table(path, name)
        headers.append(f"{name} ({', '.join(header[:6])}{', ...' if len(header) > 6 else ''})")
        kind = _kind(set(header), path.name)
        if kind is not None:
            label_rows = list(_label_rows(kind, header, lines, name))
            rows += [row for row in label_rows if row is not None]
            unknown += label_rows.count(None)
        elif "lesion_id" in header and (column := next((known for known in _ID_COLUMNS if known in header), "")):
            for _, cells in _named_cells(header, lines, name):
                lesions.setdefault(plain_id(cells[column]), []).append(cells["lesion_id"])
    if not rows:
        seen = "; ".join(headers) if headers else "no CSV file"
        left_out = f" All {unknown} rows have an unknown diagnosis (UNK)." if unknown else ""
        raise ValueError(
            f"path: expected a table of labels below {root}, got {seen}.{left_out} Looked for {_LOOKED_FOR}"
        )
    merged, conflicts = _merged(rows, lesions)
    files = tuple(_image_of(row, images.get(row.isic_id, ()), root) for row in merged)
    return Labels(merged, files, unknown, len(rows) - len(merged), conflicts)


def plain_id(text: str) -> str:
    """An image's id from a table or a file name."""
    stem, suffix = os.path.splitext(text.strip())
    return (stem if suffix.lower() in IMAGE_SUFFIXES else text.strip()).removesuffix("_downsampled")


def _survey(root: Path) -> tuple[list[Path], dict[str, list[str]]]:
    """All CSV files, and all image files by id."""
    tables: list[Path] = []
    images: dict[str, list[str]] = {}
    visited: set[str] = set()
    for folder, folders, files in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in visited:  # a link to a folder above would lead round in circles
            folders.clear()
            continue
        visited.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for file in sorted(name for name in files if not name.startswith(".")):
            suffix = os.path.splitext(file)[1].lower()
            if suffix == ".csv":
                tables.append(Path(folder, file))
            elif suffix in IMAGE_SUFFIXES:
                images.setdefault(plain_id(file), []).append(os.path.join(folder, file))
    return tables, images


def _read_table(path: Path, name: str) -> tuple[tuple[str, ...], list[Line]]:
    """The header in lower case, and each row with its line number."""
    try:
        # Ids and labels are ASCII; a remark in another encoding must not stop the load.
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            reader = csv.reader(file)
            lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(cells)]
    except csv.Error as error:
        raise ValueError(f"{name}: not a CSV table ({error}).") from error
    if not lines:
        raise ValueError(f"{name}: the table is empty; download it again, or remove it.")
    if len(lines[0][1]) == 2 and re.fullmatch(r"ISIC_\d+", lines[0][1][0]):  # 2016 was published without a header
        return ("image_id", "label"), lines
    header = tuple(cell.lower() for cell in lines.pop(0)[1])
    return header, lines


def _named_cells(header: tuple[str, ...], lines: list[Line], name: str) -> Iterator[tuple[int, Cells]]:
    for line, cells in lines:
        if len(cells) != len(header):
            raise ValueError(f"{name}, line {line}: expected {len(header)} cells as in the header, got {len(cells)}.")
        yield line, dict(zip(header, cells, strict=True))


def _kind(header: set[str], file_name: str) -> _Kind | None:
    """The kind of table that a header belongs to; None if it has no labels."""
    diagnoses = tuple(column for column in _ONE_HOT if column in header)
    if len(diagnoses) >= 2:
        year = 2019 if header & {"ak", "scc", "unk"} else 2018
        keratosis = "ak" if "akiec" not in header and year == 2019 else "akiec"
        needed = ("mel", "nv", "bcc", keratosis, "bkl", "df", "vasc")
        return _Kind(year, "image", needed, lambda cells: _one_hot(cells, diagnoses))
    if header & {"melanoma", "seborrheic_keratosis"}:
        return _Kind(2017, "image_id", ("melanoma", "seborrheic_keratosis"), _label_2017)
    if "target" in header or {"image_name", "benign_malignant"} <= header:
        return _Kind(2020, "image_name", ("target",), lambda cells: _number(cells, "target"))
    if "malignant" in header or (file_name == "labels.csv" and "label" not in header):
        return _Kind(0, "isic_id", ("malignant",), lambda cells: _word(cells, "malignant"))
    if "label" in header:
        return _Kind(2016, "image_id", ("label",), lambda cells: _word(cells, "label"))
    return None


def _label_rows(kind: _Kind, header: tuple[str, ...], lines: list[Line], name: str) -> Iterator[Row | None]:
    """The rows of a table, None where the diagnosis is unknown."""
    if missing := [column for column in (kind.id_column, *kind.needed) if column not in header]:
        of_year = f" of {kind.year}" if kind.year else ""
        raise ValueError(
            f"{name}: a table{of_year} needs the column{'s' * (len(missing) > 1)} {', '.join(map(_shown, missing))}; "
            f"got {', '.join(map(_shown, header))}."
        )
    if not lines:
        raise ValueError(f"{name}: the table is empty: it has a header and no rows; download it again, or remove it.")
    first: dict[str, int] = {}
    for line, cells in _named_cells(header, lines, name):
        isic_id = plain_id(cells[kind.id_column])
        if not isic_id:
            raise ValueError(f"{name}, line {line}: no image id in column {kind.id_column}.")
        if isic_id in first:
            raise ValueError(f"{name}: {isic_id} is listed twice, in lines {first[isic_id]} and {line}; keep one.")
        first[isic_id] = line
        try:
            label, year = kind.label(cells), cells.get("year", "")
            if year and not kind.year and not re.fullmatch(r"\d{4}", year):
                raise ValueError(f"year: expected a year such as 2018, got {year!r}.")
        except ValueError as error:
            raise ValueError(f"{name}, line {line} ({isic_id}): {error}") from error
        lesion = cells.get("lesion_id", "")
        number = kind.year or int(year or 0)
        yield None if label is None else Row(isic_id, label, number, (lesion,) if lesion else (), name)


def _merged(rows: Iterable[Row], lesions: Mapping[str, list[str]]) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """One row per id with the newest label and all names of its lesion, and a line for each disagreement."""
    by_id: dict[str, list[Row]] = {}
    for row in rows:
        by_id.setdefault(row.isic_id, []).append(row)
    merged, conflicts = [], []
    for isic_id in sorted(by_id):
        same = sorted(by_id[isic_id], key=lambda row: (-row.year, row.table))
        named = {lesion for row in same for lesion in row.lesions} | set(lesions.get(isic_id, ())) - {""}
        merged.append(Row(isic_id, same[0].malignant, same[0].year, tuple(sorted(named)), same[0].table))
        if len({row.malignant for row in same}) > 1:
            conflicts.append(conflict(same))
    return tuple(merged), tuple(conflicts)


def conflict(rows: Iterable[Row]) -> str:
    """A line that names the labels of one image in several tables; the first is the one that is kept."""
    readings = [f"{row.isic_id} is {CLASS_NAMES[row.malignant]} in {row.table}" for row in rows]
    return f"{readings[0]} (kept), {', '.join(readings[1:])}"


def _image_of(row: Row, files: Iterable[str], root: Path) -> Path | None:
    """The file of a row; of several, the one in its year's folder, or else nearest to its table."""

    def distance(file: str) -> tuple[bool, int, str]:
        folder = os.path.relpath(os.path.dirname(file), root)
        shared = os.path.commonpath([os.path.dirname(row.table), folder])
        return str(row.year) not in folder, -len(shared), file

    several = [file for file in files if os.path.isfile(file)]  # a link may lead nowhere
    if len(several) > 1:
        several.sort(key=distance)
    return Path(several[0]) if several else None


def _one_hot(cells: Cells, diagnoses: tuple[str, ...]) -> bool | None:
    chosen = [column for column in diagnoses if _number(cells, column)]
    if len(chosen) != 1:
        columns = ", ".join(map(_shown, chosen)) or "none"
        raise ValueError(f"expected a 1 for one of {', '.join(map(_shown, diagnoses))}, got {columns}.")
    return None if chosen[0] == "unk" else chosen[0] in _MALIGNANT


def _label_2017(cells: Cells) -> bool:
    melanoma, keratosis = _number(cells, "melanoma"), _number(cells, "seborrheic_keratosis")
    if melanoma and keratosis:
        raise ValueError("expected a 1 for melanoma or seborrheic_keratosis or neither, got both.")
    return melanoma


def _number(cells: Cells, column: str) -> bool:
    try:
        value = float(cells[column])
    except ValueError:
        value = -1.0
    if value not in {0.0, 1.0}:
        raise ValueError(f"{_shown(column)}: expected 0 or 1, got {cells[column]!r}.")
    return bool(value)


def _word(cells: Cells, column: str) -> bool:
    word = cells[column].lower()
    if word not in _WORDS:
        raise ValueError(f"{column}: expected benign, malignant, 0 or 1, got {cells[column]!r}.")
    return _WORDS[word]


def _shown(column: str) -> str:
    return column.upper() if column in _ONE_HOT else column
