"""ISIC: dermoscopy images, malignant against benign, from the publishers' folders or from one folder with labels."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from verax.core.arguments import checked_choice, checked_seed
from verax.core.packages import optional_package
from verax.core.shapes import Int, Shaped
from verax.core.warn import warn
from verax.data.base import Dataset, Standardisation, fingerprint, make_split
from verax.paper import images
from verax.paper.downloads import cache_folder
from verax.paper.isic_labels import CLASS_NAMES, Labels, Row, conflict, read_labels

SIZE = 224
_FORMAT = 1  # part of the cache's key: raise it when decoding or the entry's files change
_NAMED = 10


@dataclass(frozen=True)
class IsicReport:
    """What was left out of the data set, and why."""

    unknown: int  # number of rows whose diagnosis is unknown (UNK)
    repeated: int  # number of rows whose id a newer table has too
    duplicates: dict[str, str]  # ids of images with the same pixels as another one, with the id that was kept
    conflicts: tuple[str, ...]  # one line for each image on which tables disagree; the newest year's label was kept
    missing: tuple[str, ...]  # ids without an image file
    damaged: dict[str, str]  # ids whose image could not be read, with the reason


@dataclass(frozen=True)
class _Entry:
    """What the cache holds of one folder in one state; the order is that of the ids."""

    pixels: Shaped[np.ndarray, "n 3 size size"]
    moments: Int[np.ndarray, "n 2 channels"]
    ids: tuple[str, ...]
    labels: Int[np.ndarray, " n"]
    groups: tuple[str, ...]
    fingerprint: str
    damaged: dict[str, str]
    duplicates: dict[str, str]
    conflicts: tuple[str, ...]


def load_isic(
    path: str | Path,
    *,
    seed: int = 0,
    cache: str | Path | None = None,
    on_damage: Literal["stop", "skip"] = "stop",
    progress: images.Progress | None = images.show_progress,
) -> Dataset:
    """Load ISIC images as 224 x 224 pixels with the labels benign (0) and malignant (1).

    The first load decodes all images into a cache; later loads of the same files open it in about a second. Rows are
    in the order of their ids. Images of one lesion are on one side of the split, as far as the tables name lesions.

    Args:
        path: A folder with ``labels.csv`` (isic_id, malignant and, if known, year and lesion_id) and the images in it
            or below it; or a folder with the publishers' folders and ground-truth tables of any of the years 2016 to
            2020. Tables are known by their header, wherever they lie; a table with an image column and ``lesion_id``,
            such as 2018's lesion groupings or 2019's metadata, adds the lesions. An image that is there twice, by id
            or by its pixels, is taken once with the newest year's label, and a warning names contradicting labels.
        seed: Of the split; same seed, same split.
        cache: Where the decoded images go, 0.15 MB each; None for ``$XDG_CACHE_HOME/verax`` or ``~/.cache/verax``.
        on_damage: What to do about images that are missing or damaged: "stop" raises an error that names them, "skip"
            leaves them out with one warning.
        progress: Called with the number of decoded images and of all; the default shows a counter on a terminal.

    Raises:
        FileNotFoundError: The folder or, with "stop", an image is not there.
        ValueError: The labels cannot be read or, with "stop", an image is damaged.
    """
    return load_isic_with_report(path, seed=seed, cache=cache, on_damage=on_damage, progress=progress)[0]


def load_isic_with_report(
    path: str | Path,
    *,
    seed: int = 0,
    cache: str | Path | None = None,
    on_damage: Literal["stop", "skip"] = "stop",
    progress: images.Progress | None = images.show_progress,
) -> tuple[Dataset, IsicReport]:
    """Load ISIC images with the arguments of ``load_isic``, as it does, with a report of what was left out."""
    checked_choice("on_damage", on_damage, ("stop", "skip"))
    checked_seed(seed)
    optional_package("PIL", "verax[paper]", "load_isic")
    root = Path(path)
    labels = read_labels(root)
    missing = tuple(row.isic_id for row, file in zip(labels.rows, labels.images, strict=True) if file is None)
    if missing and (on_damage == "stop" or len(missing) == len(labels.rows)):
        raise FileNotFoundError(
            f"path: {len(missing):,} of {len(labels.rows):,} images in the tables are not below {root}: "
            f"{_first(missing)}. Add them" + _or_skip(on_damage)
        )
    entry = _entry(root, labels, Path(cache) if cache else cache_folder(), progress)
    if entry.damaged and (on_damage == "stop" or not entry.ids):
        reasons = [f"{isic_id} ({reason})" for isic_id, reason in entry.damaged.items()]
        raise ValueError(
            f"path: {len(reasons):,} images below {root} are damaged: {_first(reasons)}. Download them again"
            + _or_skip(on_damage)
        )
    conflicts = labels.conflicts + entry.conflicts
    report = IsicReport(labels.unknown, labels.repeated, entry.duplicates, conflicts, missing, entry.damaged)
    left_out = [f"{isic_id} (missing)" for isic_id in missing]
    left_out += [f"{isic_id} ({reason})" for isic_id, reason in entry.damaged.items()]
    if left_out:
        warn(f"Left out {len(left_out):,} images: {_first(left_out)}.")
    if conflicts:
        warn(f"{len(conflicts):,} images have contradicting labels: {_first(conflicts, '; ')}.")
    split = make_split(len(entry.ids), seed, entry.groups)
    moments = entry.moments[split.train]
    sums, squares = moments.sum(0) / (len(moments) * (SIZE * SIZE))
    mean, variance = sums / 255, (squares - sums**2) / 255**2
    std = np.sqrt(np.where(variance > 1e-12, variance, 1.0))  # a constant channel is only centred
    standardisation = Standardisation(*(torch.from_numpy(value).float().reshape(-1, 1, 1) for value in (mean, std)))
    dataset = Dataset(
        "isic", entry.pixels, entry.labels, entry.ids, (), CLASS_NAMES, split, standardisation, entry.fingerprint
    )
    return dataset, report


def _entry(root: Path, labels: Labels, cache: Path, progress: images.Progress | None) -> _Entry:
    """Open the cache's entry for these files and labels, and make it first if needed."""
    listed = [(row, file) for row, file in zip(labels.rows, labels.images, strict=True) if file is not None]
    rows, files = [row for row, _ in listed], [file for _, file in listed]
    folder = cache / "isic" / _key(root, rows, files)
    if folder.is_dir():
        try:
            return _open(folder)
        except (OSError, ValueError, KeyError, TypeError) as error:
            warn(f"cache: {folder} is damaged ({error}); decoding the images again.")
            shutil.rmtree(folder)
    with images.whole_folder(folder) as scratch:
        _build(scratch, rows, files, progress)
    return _open(folder)


def _key(root: Path, rows: Sequence[Row], files: Sequence[Path]) -> str:
    """Hash what the entry depends on: names, sizes and times of the files, and their labels."""
    digest = hashlib.sha256(f"{_FORMAT} {SIZE}".encode())
    for row, file in zip(rows, files, strict=True):
        state = file.stat()
        state_of_row = (
            row.isic_id, row.malignant, row.year, row.lesions, row.table,
            file.relative_to(root).as_posix(), state.st_size, state.st_mtime_ns,
        )  # fmt: skip
        digest.update(f"{state_of_row!r}\n".encode())
    return digest.hexdigest()[:32]


def _build(folder: Path, rows: Sequence[Row], files: Sequence[Path], progress: images.Progress | None) -> None:
    """Decode the images, drop those that are damaged or there twice, and write the entry's files."""
    pixels = images.create_pixels(folder / "pixels.npy", (len(files), 3, SIZE, SIZE))
    decoded = images.decode_images(files, pixels, progress)
    del pixels
    # for each image that could be read, the places of all with its pixels: the newest year's first, then by id
    same: dict[str, list[int]] = {}
    for place, digest in enumerate(decoded.digests):
        if digest:
            same.setdefault(digest, []).append(place)
    for places in same.values():
        places.sort(key=lambda place: -rows[place].year)
    copies = {place: same[digest] for place, digest in enumerate(decoded.digests) if digest}
    kept = [place for place in range(len(rows)) if decoded.digests[place] and copies[place][0] == place]
    images.keep_rows(folder / "pixels.npy", kept)
    np.save(folder / "moments.npy", decoded.moments[kept])
    ids = [rows[place].isic_id for place in kept]
    labels = [int(rows[place].malignant) for place in kept]
    lesions = [{lesion for copy in copies[place] for lesion in rows[copy].lesions} for place in kept]
    pixels = np.load(folder / "pixels.npy", mmap_mode="r")
    content = {
        "ids": ids,
        "labels": labels,
        "groups": lesion_groups(ids, lesions),
        "fingerprint": fingerprint(pixels, np.array(labels, dtype=np.int64), ids),
        "damaged": {rows[place].isic_id: reason for place, reason in decoded.damaged.items()},
        "duplicates": {rows[at].isic_id: rows[first].isic_id for at, (first, *_) in copies.items() if at != first},
        "conflicts": [
            conflict(rows[place] for place in copies[first])
            for first in kept
            if len({rows[place].malignant for place in copies[first]}) > 1
        ],
    }
    (folder / "entry.json").write_text(json.dumps(content), encoding="utf-8")


def _open(folder: Path) -> _Entry:
    content: dict[str, Any] = json.loads((folder / "entry.json").read_text(encoding="utf-8"))
    pixels, moments = np.load(folder / "pixels.npy", mmap_mode="r"), np.load(folder / "moments.npy")
    count = len(content["ids"])
    if pixels.shape != (count, 3, SIZE, SIZE) or moments.shape != (count, 2, 3):
        raise ValueError(f"pixels.npy has the shape {pixels.shape}, {count} images were expected")
    content["labels"] = np.array(content["labels"], dtype=np.int64)
    content |= {name: tuple(content[name]) for name in ("ids", "groups", "conflicts")}
    return _Entry(pixels, moments, **content)


def lesion_groups(ids: Sequence[str], lesions: Sequence[Iterable[str]]) -> list[str]:
    """The group of each image: images that share a lesion, directly or through others, are in one group."""
    parents: dict[str, str] = {}

    def top(name: str) -> str:
        while (above := parents.setdefault(name, name)) != name:
            parents[name] = name = parents[above]
        return name

    groups = [f"image {isic_id}" for isic_id in ids]
    for image, named in zip(groups, lesions, strict=True):
        for lesion in named:
            parents[top(image)] = top(f"lesion {lesion}")
    return [top(image) for image in groups]


def _first(names: Sequence[str], separator: str = ", ") -> str:
    more = f"{separator}and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return separator.join(names[:_NAMED]) + more


def _or_skip(on_damage: str) -> str:
    return ', or leave them out with on_damage="skip".' if on_damage == "stop" else "; no image is left."
