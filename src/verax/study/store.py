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
from itertools import chain, count
from pathlib import Path
from typing import Any

import polars as pl
import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

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
from verax.core.shapes import Float
from verax.scoring.meter import Cost, Rows
from verax.study.spec import SpecError, StudySpec, parse_spec

_KEY = "verax"


def words(facts: Mapping[str, Any]) -> dict[str, str]:
    """Facts that JSON can hold as the metadata of a Parquet or safetensors file; ``unit`` is the name."""
    return {_KEY: json.dumps(dict(facts))}


def stored_name(content: bytes, suffix: str) -> str | None:
    """The name that a Parquet or safetensors file says; None where it says none.

    Example:
        >>> from safetensors.torch import save
        >>> stored_name(save({}, words({"unit": "some"})), ".safetensors")
        'some'
    """
    try:
        if suffix == ".parquet":
            metadata = pl.read_parquet_metadata(io.BytesIO(content))
        else:
            metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
        name = json.loads(metadata[_KEY])["unit"]
    except (pl.exceptions.PolarsError, OSError, ValueError, KeyError, TypeError):  # not such a file
        return None
    return name if isinstance(name, str) else None


_SUFFIX = ".safetensors"
_SHARE = 16  # of the room: so much is freed at once, and so much written until other workers' files are counted anew


class Cache:
    """Attributions on disk.

    The folder is listed at first use, and again when it is nearly full: to list it each time would take ever longer.
    What other workers add meanwhile is not seen until then; no two of them need the same attributions.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cache = Cache(Path(folder), limit=10_000)
        ...     cache.put("ab" * 32, torch.ones(2, 3), Cost(Rows(20), 0.5))
        ...     values, cost = cache.get("ab" * 32, (2, 3))
        ...     cost.rows, values.sum().item(), cache.get("cd" * 32, (2, 3))
        (Rows(forward=20, backward=0), 6.0, None)
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self._paths: dict[str, list[Path]] | None = None  # by key; None before the folder was listed
        self._used, self._added = 0, 0  # bytes in the folder when it was listed, and written since

    def get(self, key: str, shape: tuple[int, ...]) -> tuple[Float[Tensor, "*shape"], Cost] | None:
        for path in self._known().pop(key, []):
            content = Sealed.read(path)
            tensors: dict[str, Tensor] = {}
            if content is not None and stored_name(content, _SUFFIX) == key:
                with contextlib.suppress(SafetensorError):
                    tensors = load_tensors(content)
            values, cost = (tensors.get(name, torch.empty(0)) for name in ("attributions", "cost"))
            if tuple(values.shape) == shape and len(cost) == 3:
                with contextlib.suppress(FileNotFoundError):  # another worker dropped it meanwhile
                    os.utime(path)  # used now
                self._known()[key] = [path]
                return values, Cost(Rows(int(cost[0]), int(cost[1])), float(cost[2]))
            path.unlink(missing_ok=True)  # damaged or under another's name: worth nothing, and computed anew
        return None

    def takes(self, values: Float[Tensor, "*shape"]) -> bool:
        return values.numel() * values.element_size() + 1024 <= self.limit

    def put(self, key: str, values: Float[Tensor, "*shape"], cost: Cost) -> None:
        """Keep attributions, and drop the least recently used where there is no room; too large ones are not kept.

        What they cost is kept with them, so that a unit made from the cache has the cost of one made without.
        """
        size = values.numel() * values.element_size() + 1024
        if not self.takes(values):
            return
        known = self._known()
        if self._used + self._added + size > self.limit or self._added > self.limit // _SHARE:
            known = self._make_room(size)
        numbers = torch.tensor((cost.rows.forward, cost.rows.backward, cost.seconds), dtype=torch.float64)
        tensors = {"attributions": values.detach().cpu().contiguous(), "cost": numbers}
        content = save_tensors(tensors, words({"unit": key}))
        path = self.folder / Sealed.name(key, content, _SUFFIX)
        write_atomically(path, content)
        known.setdefault(key, []).append(path)
        self._added += len(content)

    def size(self) -> int:
        return sum(used for _, used, _ in self._entries())

    def _known(self) -> dict[str, list[Path]]:
        return self._count(self._entries()) if self._paths is None else self._paths

    def _count(self, entries: list[tuple[float, int, Path]]) -> dict[str, list[Path]]:
        self._paths, self._used, self._added = {}, 0, 0
        for _, size, path in entries:
            self._paths.setdefault(path.name.partition(".")[0], []).append(path)
            self._used += size
        return self._paths

    def _make_room(self, size: int) -> dict[str, list[Path]]:
        entries = sorted(self._entries())
        used, dropped = sum(entry for _, entry, _ in entries), 0
        if used + size > self.limit:
            most = self.limit - max(size, self.limit // _SHARE)
            while used > most:
                _, entry, path = entries[dropped]
                path.unlink(missing_ok=True)
                used, dropped = used - entry, dropped + 1
        return self._count(entries[dropped:])

    def _entries(self) -> list[tuple[float, int, Path]]:
        entries = []
        for path in self.folder.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):  # another worker dropped it meanwhile
                status = path.stat()
                entries.append((status.st_mtime, status.st_size, path))
        return entries


FORMAT = 2
_AGAIN = "Run the study again to have it written anew."


class StoreError(ValueError):
    """A study directory that cannot be used; the message says why and what to do."""


@dataclass
class Contents:
    files: dict[str, Path] = field(default_factory=dict)  # files that are what they say, by their stem
    strange: list[tuple[Path, str]] = field(default_factory=list)  # not wanted or not whole, each with the reason


@dataclass(frozen=True)
class Frozen:
    """What ``study.toml`` says: the spec, what it was run with, and the specs before it grew."""

    spec: StudySpec
    facts: dict[str, Any]
    earlier: tuple[StudySpec, ...] = ()


class Store:
    """The directory of a study."""

    def __init__(self, folder: str | Path) -> None:
        self.folder, self.toml = Path(folder), Path(folder, "study.toml")
        self._whole: dict[Path, tuple[int, int, int]] = {}  # files found whole, with what the system says of them
        self._last: tuple[tuple[Path, ...], pl.DataFrame] = ((), pl.DataFrame())

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
        try:
            whole = self.toml.read_bytes()
            content = tomllib.loads(whole.decode("utf-8"))
        except FileNotFoundError:
            raise StoreError(f"{self.folder}: no study here: there is no study.toml.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise StoreError(f"{self.toml}: damaged: {error}. {_AGAIN}") from None
        if content.get("format") != FORMAT or not has_valid_checksum(whole):
            raise StoreError(f"{self.toml}: was changed by hand or damaged. {_AGAIN}")
        try:
            facts = content["facts"]
            imports = facts.get("imports") or ("MODULE",)
            forms = (content["study"], *facts.get("earlier", ()))
            spec, *earlier = (parse_spec(form, str(self.toml), imports) for form in forms)
            return Frozen(spec, facts, tuple(earlier))
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
        folder = self.folder / "scores"
        return digest(scores=sorted(path.name for path in folder.iterdir()) if folder.is_dir() else [])

    def _fault(self, path: Path, stem: str) -> str:
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
        lines = []
        for path, reason in strange:
            if path.name.startswith(".") and path.suffix == ".part" and path.is_file():
                path.unlink(missing_ok=True)
                continue
            aside = self.folder / "set-aside"
            aside.mkdir(exist_ok=True)
            names = chain([path.name], (f"{path.name}.{number}" for number in count(1)))
            to = next(aside / name for name in names if not (aside / name).exists())
            path.rename(to)
            lines.append(f"{path.relative_to(self.folder)}: {reason}; moved to {to.relative_to(self.folder)}")
        return lines


def parquet(table: pl.DataFrame, facts: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd", metadata=words(facts))
    return buffer.getvalue()


def read_tables(paths: Collection[Path]) -> pl.DataFrame:
    # an own metric's error is known where it was measured alone, so that a limit leaves it out of some files
    return pl.concat([pl.read_parquet(path) for path in paths], how="diagonal") if paths else pl.DataFrame()


def read_facts(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(pl.read_parquet_metadata(path)["verax"])
    return facts


def _inode(path: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_ino
    return None
