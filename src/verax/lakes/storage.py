"""Where files lie: folders of this machine, or of an object store that pyarrow or fsspec knows.

Local folders need neither of them. A file appears whole: locally by a rename, in an object store because that is how
these work; elsewhere it is written under another name and moved.
"""

import os
import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from verax.core.files import create_atomically, write_atomically
from verax.core.packages import optional_package
from verax.lakes.urls import file_system, named, shown, split_query

ALL = "**/*.parquet"
_MAGIC = re.compile(r"[*?\[]")
_ATOMIC = ("s3", "gcs", "abfs")  # an object is there when its last byte is


@dataclass(frozen=True)
class File:
    """A file in a folder: its path there, with slashes, its bytes, and when it was written, in nanoseconds."""

    name: str
    size: int
    modified: int


@runtime_checkable
class Folder(Protocol):
    """A folder, wherever it is; workers are sent it."""

    @property
    def root(self) -> str:
        """Its path or URL, as people know it."""

    def files(self, pattern: str = ALL) -> list[File]:
        """The files whose path matches, by path; what begins with a dot or an underscore is left out."""

    def read(self, name: str) -> bytes:
        """What a file holds."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all."""

    def create(self, name: str, content: bytes) -> None:
        """Write a file unless there is one already."""

    def remove(self, name: str) -> None:
        """Remove a file."""

    def address(self, name: str) -> str:
        """The file as people know it."""


@dataclass(frozen=True)
class LocalFolder:
    """A folder of this machine, or one that all machines of a cluster mount under the same path."""

    root: str

    def files(self, pattern: str = ALL) -> list[File]:
        """The files whose path matches, by path."""
        if not Path(self.root).is_dir():
            raise FileNotFoundError(f"{self.root}: there is no such folder.")
        found = []
        for folder, below, names in os.walk(self.root):
            if "/" not in pattern:
                below.clear()
            paths = (Path(folder, name) for name in names)
            for path in (path for path in paths if _matches(path.relative_to(self.root).as_posix(), pattern)):
                status = path.stat()
                found.append(File(path.relative_to(self.root).as_posix(), status.st_size, status.st_mtime_ns))
        return sorted(found, key=lambda file: file.name)

    def read(self, name: str) -> bytes:
        """What a file holds."""
        return Path(self.root, name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all."""
        write_atomically(Path(self.root, name), content)

    def create(self, name: str, content: bytes) -> None:
        """Write a file unless there is one already; of several processes at once exactly one does."""
        create_atomically(Path(self.root, name), content)

    def remove(self, name: str) -> None:
        """Remove a file."""
        Path(self.root, name).unlink(missing_ok=True)

    def address(self, name: str) -> str:
        """The file as people know it."""
        return str(Path(self.root, name))


@dataclass(frozen=True)
class RemoteFolder:
    """A folder of a store that pyarrow knows, such as ``s3://`` and ``gs://``, or else fsspec.

    Attributes:
        root: Its URL, as people know it.
        url: What opens it, with what is secret.
    """

    root: str
    url: str = field(repr=False)

    def files(self, pattern: str = ALL) -> list[File]:
        """The files whose path matches, by path."""
        fs = optional_package("pyarrow.fs", "verax[ray]", self.root)
        system, base = file_system(self.url)
        with named(self.root):
            listed = system.get_file_info(fs.FileSelector(base, recursive="/" in pattern))
        found = [
            File(one.path.removeprefix(base).strip("/"), one.size, one.mtime_ns or 0)
            for one in listed
            if one.type == fs.FileType.File
        ]
        return sorted((file for file in found if _matches(file.name, pattern)), key=lambda file: file.name)

    def open(self, name: str) -> Any:
        """A file to read anywhere in."""
        system, base = file_system(self.url)
        with named(self.address(name)):
            return system.open_input_file(f"{base}/{name}")

    def has(self, name: str) -> bool:
        """Whether a file is there; a store that does not answer is refused."""
        system, base = file_system(self.url)
        with named(self.address(name)):
            return bool(system.get_file_info(f"{base}/{name}").is_file)

    def read(self, name: str) -> bytes:
        """What a file holds."""
        with named(self.address(name)), self.open(name) as file:
            return bytes(file.read())

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all."""
        system, base = file_system(self.url)
        path = f"{base}/{name}"
        with named(self.address(name)):
            if system.type_name in _ATOMIC:
                _write(system, path, content)
                return
            system.create_dir(path.rsplit("/", 1)[0])
            _write(system, f"{path}.{os.getpid()}.part", content)
            system.move(f"{path}.{os.getpid()}.part", path)

    def create(self, name: str, content: bytes) -> None:
        """Write a file unless there is one already; of several processes in the same moment the last one stays."""
        if not self.has(name):
            self.write(name, content)

    def remove(self, name: str) -> None:
        """Remove a file."""
        system, base = file_system(self.url)
        with named(self.address(name)):
            system.delete_file(f"{base}/{name}")

    def address(self, name: str) -> str:
        """The file as people know it."""
        return f"{self.root}/{name}"


def folder_of(address: str) -> Folder:
    """The folder at an address: a path of this machine, or a URL.

    Example:
        >>> folder_of("s3://bucket/rows/").root
        's3://bucket/rows'
    """
    if "://" in address and not address.startswith("file://"):
        place, query = split_query(address)
        return RemoteFolder(shown(address).rstrip("/"), place.rstrip("/") + query)
    return LocalFolder(str(Path(address.removeprefix("file://")).expanduser().absolute()))


def split_pattern(address: str) -> tuple[str, str]:
    """Split an address into the folder above all that it matches, and a pattern below it.

    Example:
        >>> split_pattern("s3://lake/rows/2026-*/*.parquet"), split_pattern("rows/part-0.parquet")
        (('s3://lake/rows', '2026-*/*.parquet'), ('rows', 'part-0.parquet'))
        >>> split_pattern("rows/"), split_pattern("s3://lake/rows/*?region=eu-west-1")
        (('rows', '**/*.parquet'), ('s3://lake/rows?region=eu-west-1', '*'))
    """
    address, query = split_query(address)
    start = address.index("://") + 3 if "://" in address else 0
    words = address[start:].rstrip("/").split("/")
    magic = next((at for at, word in enumerate(words) if _MAGIC.search(word)), None)
    if magic is None:
        if not address.endswith(".parquet"):
            return (address.rstrip("/") or "/") + query, ALL
        magic = len(words) - 1
    above = "/".join(words[:magic])
    base = (address[:start] + above) or ("/" if address.startswith("/") else ".")
    return base + query, "/".join(words[magic:])


def has_pattern(address: str) -> bool:
    """Whether an address has a wildcard in it."""
    return bool(_MAGIC.search(address))


def _write(system: Any, path: str, content: bytes) -> None:
    with system.open_output_stream(path) as file:
        file.write(content)


def _matches(name: str, pattern: str) -> bool:
    """Whether a path matches, where ``**`` is any number of folders; what others keep for themselves never does."""
    segments = name.split("/")
    return not any(one.startswith((".", "_")) for one in segments) and _match(segments, pattern.split("/"))


def _match(segments: list[str], wanted: list[str]) -> bool:
    if not wanted or not segments:
        return not segments and all(one == "**" for one in wanted)
    if wanted[0] == "**":
        return any(_match(segments[at:], wanted[1:]) for at in range(len(segments)))
    return fnmatchcase(segments[0], wanted[0]) and _match(segments[1:], wanted[1:])
