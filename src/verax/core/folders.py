"""Folders of this machine or of an object store: listed, read and written alike, through pyarrow's file systems.

A file appears whole: locally by a rename, in an object store because that is how these work; in other remote file
systems it is written under another name and moved.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verax.core.files import create_atomically, sweep_parts, write_atomically
from verax.core.packages import optional_package

ALL = "**/*.parquet"
_EXTRA = "verax[lake]"
_SETTINGS = re.compile(r"://([^/]*@|.*\?\w+=)")  # in a URL, where others may read secrets
MAGIC = re.compile(r"[*?\[]")
_WHOLE_OBJECTS = ("s3", "gcs", "abfs")  # file systems where a file appears with its last byte
_SECONDS, _TRIES = 5, 3  # without a byte, after which a request to S3 is tried again


@dataclass(frozen=True)
class File:
    """A file: its path in its file system, its bytes, and when it was written, in nanoseconds."""

    path: str
    size: int
    modified: int


@dataclass(frozen=True)
class Folder:
    """A folder, wherever it is; workers are sent it."""

    address: str  # its path or URL
    base: str  # its path in the file system
    system: Any = field(repr=False)  # a file system of pyarrow

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine, or one that all machines of a cluster mount."""
        return bool(self.system.type_name == "local")

    def name(self, path: str) -> str:
        """The path or URL of a file in it."""
        return self.address + path.removeprefix(self.base)

    def files(self, pattern: str = ALL) -> list[File]:
        """The files whose path matches, by path; names that begin with a dot or an underscore are left out."""
        fs, matches = _pyarrow_fs(self.address), matcher(pattern)
        with explained(self.address):
            infos = self.system.get_file_info(fs.FileSelector(self.base, recursive="/" in pattern))
        files = []
        for info in infos:
            inside = info.path.removeprefix(self.base).strip("/")
            if info.type == fs.FileType.File and matches(inside) and not re.search(r"(^|/)[._]", inside):
                files.append(File(info.path, info.size, info.mtime_ns or 0))
        return sorted(files, key=lambda file: file.path)

    def read(self, path: str) -> bytes | None:
        """The content of a file; None where there is no such file."""
        with explained(self.name(path)):
            if not self.system.get_file_info(path).is_file:
                return None
            with self.system.open_input_file(path) as file:
                return bytes(file.read())

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all."""
        path = f"{self.base}/{name}"
        if self.is_local:
            write_atomically(Path(path), content)
            return
        with explained(self.name(path)):
            if self.system.type_name in _WHOLE_OBJECTS:
                self._stream(path, content)
                return
            self.system.create_dir(self.base)
            self._stream(part := f"{self.base}/.{name}.{os.getpid()}.part", content)
            self.system.move(part, path)

    def create(self, name: str, content: bytes) -> None:
        """Write a file unless there is one; in an object store, of several processes at once the last one wins."""
        if self.is_local:
            create_atomically(Path(self.base, name), content)
        elif self.read(f"{self.base}/{name}") is None:
            self.write(name, content)

    def remove(self, path: str) -> None:
        """Remove a file."""
        with explained(self.name(path)):
            self.system.delete_file(path)

    def sweep(self) -> None:
        """Remove what killed processes of this machine have left half written."""
        if self.is_local and Path(self.base).is_dir():
            sweep_parts(Path(self.base))

    def _stream(self, path: str, content: bytes) -> None:
        with self.system.open_output_stream(path) as file:
            file.write(content)


def open_folder(address: str) -> Folder:
    """The folder at an address: a path of this machine, or a URL whose credentials are in the environment."""
    if "://" not in address or address.startswith("file://"):
        path = str(Path(address.removeprefix("file://")).expanduser().absolute())
        return Folder(path, path, _pyarrow_fs("a lake").LocalFileSystem())
    _check_url(address)
    address = address.rstrip("/")
    with explained(address):
        system, base = _remote(address)
    return Folder(address, base.rstrip("/"), system)


def split_pattern(address: str) -> tuple[str, str]:
    """Split an address into the folder above all that it matches, and a pattern below it."""
    _check_url(address)
    words = address.rstrip("/").split("/")
    magic = next((at for at, word in enumerate(words) if MAGIC.search(word)), None)
    if magic is None:
        if not address.endswith(".parquet"):
            return address.rstrip("/") or "/", ALL
        magic = len(words) - 1
    return "/".join(words[:magic]) or ("/" if address.startswith("/") else "."), "/".join(words[magic:])


def _check_url(address: str) -> None:
    if _SETTINGS.search(address):
        raise ValueError(
            f"{address.partition('://')[0]}://: expected a bucket and a path alone; credentials, endpoint and region "
            "are read from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, AWS_REGION)."
        )


def matcher(pattern: str) -> Any:
    """What tells whether a path matches a pattern, where ``**`` is any number of folders."""
    utils = optional_package("fsspec.utils", _EXTRA, "a pattern of files")
    return re.compile(utils.glob_translate(pattern)).match


@contextmanager
def explained(address: str) -> Iterator[None]:
    """Make errors of an object store name the address, in one line that says what to check."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"{address}: there is no such file or folder.") from None
    except OSError as error:
        _, of_store, reason = next(iter(str(error).splitlines()), "").partition("AWS Error ")
        if not of_store:
            raise
        reason = reason.partition(" (Request ID: ")[0].rstrip(".")
        raise OSError(f"{address}: {reason}; check the name, the credentials and the network.") from None


def _remote(address: str) -> tuple[Any, str]:
    """A file system of pyarrow, or else of fsspec, and the path there."""
    fs = _pyarrow_fs(address)
    try:
        system, base = fs.FileSystem.from_uri(address)
    except ValueError as error:
        if "Unrecognized filesystem type" not in str(error):
            raise ValueError(f"{address}: {error}") from None
        handler, base = optional_package("fsspec", _EXTRA, address).core.url_to_fs(address)
        system = fs.PyFileSystem(fs.FSSpecHandler(handler))
    if system.type_name == "s3":  # opened by its URL, it waits minutes for a store that does not answer
        _, (options,) = system.__reduce__()  # as a copy is made
        patience = {"connect_timeout": _SECONDS, "request_timeout": _SECONDS}
        tries = fs.AwsStandardS3RetryStrategy(max_attempts=_TRIES)
        system = fs.S3FileSystem(**options | patience, retry_strategy=tries)
    return system, str(base)


def _pyarrow_fs(purpose: str) -> Any:
    return optional_package("pyarrow.fs", _EXTRA, purpose)
