"""A study on disk: the frozen spec, trained models, cached attributions, one sealed file per finished unit.

A file is written whole or not at all, its name holds a hash of its content, and its content holds the name that it was
written under. What is damaged, under another's name or not of the study is found, named and moved to ``set-aside``;
what it held is computed anew.
"""

import contextlib
import glob
import io
import json
import os
import platform
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import torch
from filelock import FileLock, Timeout

import verax
from verax.core.files import (
    BLANK_CHECKSUM,
    Sealed,
    digest,
    has_valid_checksum,
    named_disk_errors,
    with_checksum,
    write_atomically,
)
from verax.core.packages import optional_package
from verax.study.cache import Cache, stored_name, words
from verax.study.spec import SpecError, StudySpec, parse_spec

FORMAT = 2  # 1 explained the first rows of a part, and images from a baseline of their own for each pixel


class StoreError(ValueError):
    """A study directory that cannot be used; the message says why and what to do."""


class EarlierStudyError(StoreError):
    """A study of an earlier version, whole but with other rows or attributions than this version would compute."""


@dataclass
class Contents:
    """What a folder of a study holds."""

    files: dict[str, Path] = field(default_factory=dict)  # files that are what they say, by their stem
    # files that are not wanted or not whole, with the reason
    strange: list[tuple[Path, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    """What ``study.toml`` says: the spec, what it was run with, and the specs before it grew."""

    spec: StudySpec
    facts: dict[str, Any]
    earlier: tuple[StudySpec, ...] = ()


class Store:
    """The directory of a study."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._whole: dict[Path, tuple[int, int, int]] = {}  # files found whole, with what the system says of them
        self._last: tuple[tuple[Path, ...], pl.DataFrame] = ((), pl.DataFrame())

    @property
    def toml(self) -> Path:
        return self.folder / "study.toml"

    def model(self, name: str) -> Path:
        return self.folder / "models" / f"{name}.safetensors"

    def cache(self, gib: float) -> Cache:
        return Cache(self.folder / "attributions", int(gib * 2**30))

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other runs out; the system lets go when this process ends, however it ends."""
        with named_disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        owner = self.folder / ".owner"  # beside the lock, which others cannot read everywhere
        lock = self._locked(owner)
        try:
            with named_disk_errors(owner):
                owner.write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8")
            yield
        finally:
            owner.unlink(missing_ok=True)
            lock.release()

    def _locked(self, owner: Path) -> FileLock:
        """Hold the lock, of the file that has its name: who held it before may have removed it meanwhile."""
        path = self.folder / ".lock"
        lock = FileLock(path)
        while True:
            path.touch()
            before = _inode(path)
            try:
                lock.acquire(blocking=False)
            except Timeout:
                who = owner.read_text(encoding="utf-8") if owner.is_file() else "another process"
                advice = "wait for it, or use another --out"
                raise StoreError(f"{self.folder}: {who} works on this study; {advice}.") from None
            if before is not None and _inode(path) == before:
                return lock
            lock.release()

    def sweep(self) -> None:
        """Remove what a killed run has left half written, wherever it is."""
        for path in (*self.folder.rglob(".*.part"), *self.folder.glob("models/*.checkpoint.*.part")):
            if path.is_file():
                path.unlink(missing_ok=True)

    def freeze(self, spec: StudySpec, facts: Mapping[str, Any]) -> None:
        content = {"format": FORMAT, "study": spec.form(), "facts": dict(facts)}
        tomli_w = optional_package("tomli_w", "verax[study]", "a study")
        write_atomically(self.toml, with_checksum(tomli_w.dumps({"seal": BLANK_CHECKSUM, **content}).encode()))

    def frozen(self) -> Frozen:
        """Read the frozen spec, or say what is wrong with it."""
        try:
            whole = self.toml.read_bytes()
            content = tomllib.loads(whole.decode("utf-8"))
        except FileNotFoundError:
            raise StoreError(f"{self.folder}: no study here: there is no study.toml.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise StoreError(f"{self.toml}: damaged: {error}. Run the study again to have it written anew.") from None
        if content.get("format") == 1:
            raise EarlierStudyError(
                f"{self.folder}: holds a study of an earlier version of Verax, which explained the first rows instead "
                "of random ones; its results cannot be used with this one. Choose another --out."
            )
        if content.get("format") != FORMAT or not has_valid_checksum(whole):
            raise StoreError(
                f"{self.toml}: was changed by hand or damaged. Run the study again to have it written anew."
            )
        try:
            imports = content["facts"].get("imports") or ("MODULE",)
            spec, *earlier = (
                parse_spec(form, str(self.toml), imports)
                for form in (content["study"], *content["facts"].get("earlier", ()))
            )
            return Frozen(spec, content["facts"], tuple(earlier))
        except SpecError as error:
            raise StoreError(str(error)) from None

    def put(self, kind: str, stem: str, content: bytes, suffix: str) -> Path:
        """Keep a finished result, as long as the study is there."""
        if not self.toml.is_file():
            raise StoreError(f"{self.folder}: the study's directory is gone or empty; put it back, or run it anew.")
        path = self.folder / kind / Sealed.name(stem, content, suffix)
        write_atomically(path, content)
        return path

    def has(self, kind: str, stem: str) -> bool:
        """Whether a result is there, by its name."""
        return next((self.folder / kind).glob(f"{glob.escape(stem)}.*"), None) is not None

    def contents(self, kind: str, wanted: Collection[str] | None = None) -> Contents:
        """What is there of the wanted results, or of any; a file is read and checked, again only if it changes."""
        contents, wanted = Contents(), None if wanted is None else frozenset(wanted)
        folder = self.folder / kind
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            stem = Sealed.stem(path) if path.is_file() else None
            if path.name.startswith(".") and path.suffix == ".part":
                contents.strange.append((path, "half written, by a run that works now or was killed"))
            elif stem is None:
                contents.strange.append((path, "not a file of a study"))
            elif fault := self._fault(path, stem):
                contents.strange.append((path, fault))
            elif wanted is not None and stem not in wanted:
                contents.strange.append((path, "not part of this study"))
            elif stem in contents.files:
                contents.strange.append((path, f"holds the same unit as {contents.files[stem].name}"))
            else:
                contents.files[stem] = path
        return contents

    def table(self, paths: Collection[Path]) -> pl.DataFrame:
        """Parquet files as one table, in the order given; asked for again at once, it is not read again."""
        if self._last[0] != tuple(paths):  # their names hold hashes of their contents
            self._last = tuple(paths), read_tables(paths)
        return self._last[1]

    def state(self) -> str:
        """Hash of the names of all scores, and so of their content."""
        folder = self.folder / "scores"
        return digest(scores=sorted(path.name for path in folder.iterdir()) if folder.is_dir() else [])

    def _fault(self, path: Path, stem: str) -> str:
        """Why a file is not what its name says; empty if it is."""
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            mark = (status.st_ino, status.st_size, status.st_mtime_ns)
            if self._whole.get(path) == mark:
                return ""
            content = Sealed.read(path)
            if content is not None and (name := stored_name(content, path.suffix)) != stem:
                return f"not what its name says: inside it is {name or 'nothing with a name'}"
            if content is not None:
                self._whole[path] = mark
                return ""
        return "damaged: its content is not what its name says"

    def set_aside(self, strange: list[tuple[Path, str]]) -> list[str]:
        """Move strange files out of the way; returns a line for each."""
        lines = []
        for path, reason in strange:
            if path.name.startswith(".") and path.suffix == ".part" and path.is_file():
                path.unlink(missing_ok=True)
                continue
            aside = self.folder / "set-aside"
            aside.mkdir(exist_ok=True)
            to = aside / path.name
            number = 1
            while to.exists():
                to, number = aside / f"{path.name}.{number}", number + 1
            path.rename(to)
            lines.append(f"{path.relative_to(self.folder)}: {reason}; moved to {to.relative_to(self.folder)}")
        return lines


def parquet(table: pl.DataFrame, facts: Mapping[str, Any]) -> bytes:
    """A table as the content of a Parquet file, with facts that JSON can hold."""
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd", metadata=words(facts))
    return buffer.getvalue()


def read_tables(paths: Collection[Path]) -> pl.DataFrame:
    """Parquet files as one table, in the order given."""
    # an own metric's error is known where it was measured alone, so that a limit leaves it out of some files
    return pl.concat([pl.read_parquet(path) for path in paths], how="diagonal") if paths else pl.DataFrame()


def read_facts(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(pl.read_parquet_metadata(path)["verax"])
    return facts


def versions() -> dict[str, str]:
    """What computes here."""
    return {
        "verax": verax.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def _inode(path: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_ino
    return None
