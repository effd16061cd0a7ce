"""Files that are written whole or not at all, and sealed files, whose name holds a hash of their content.

A file is brought to disk before it takes its name, and then the folder that holds the name, so that a power cut leaves
the old file or the new one.
"""

import contextlib
import errno
import functools
import hashlib
import os
import platform
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_NAME = re.compile(r"^(?P<stem>.+)\.(?P<seal>[0-9a-f]{16})\.[a-z]+$")
_HOST = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
_PART = re.compile(rf"^\..+\.{_HOST}-(?P<process>[0-9]+)-[0-9a-f]+\.part$")
_ADVICE = {
    errno.ENOSPC: "make room and do the same again",
    errno.EDQUOT: "make room within your quota and do the same again",
    errno.EFBIG: "raise the limit on the size of files, or write to another disk",
    errno.EROFS: "choose a folder that can be written to",
    errno.EIO: "the disk fails: look at it, or use another one, and do the same again",
}
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)  # what disks say that know none
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP)  # what some network disks say to it


class DiskError(OSError):
    """A disk that is full or fails; the message names the file and says what to do."""


class Sealed:
    """Names and reads sealed files.

    Example:
        >>> Sealed.name("unit", b"content", ".parquet")
        'unit.ed7002b439e9ac84.parquet'
    """

    @staticmethod
    def name(stem: str, content: bytes, suffix: str) -> str:
        """The name under which content is kept."""
        return f"{stem}.{_seal(content)}{suffix}"

    @staticmethod
    def stem(path: Path) -> str | None:
        """The name without seal and suffix; None for a file that has no seal."""
        found = _NAME.match(path.name)
        return found["stem"] if found else None

    @staticmethod
    def read(path: Path) -> bytes | None:
        """The content; None if it is not what the name says, or gone."""
        found = _NAME.match(path.name)
        try:
            with named_disk_errors(path):
                content = path.read_bytes()
        except FileNotFoundError:
            return None
        return content if found and found["seal"] == _seal(content) else None


def _seal(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


@contextmanager
def named_disk_errors(path: Path) -> Iterator[None]:
    """Make errors of a full or failing disk name the file and say what to do; the system names none after opening."""
    try:
        yield
    except DiskError:
        raise
    except OSError as error:
        if error.errno not in _ADVICE:
            raise
        raise DiskError(error.errno, f"{os.strerror(error.errno)}; {_ADVICE[error.errno]}", str(path)) from None


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; its folder is made if need be."""
    with whole_or_nothing(path) as file:
        file.write(content)


@contextmanager
def whole_or_nothing(to: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``to`` at the end; after an error nothing of it is left."""
    with named_disk_errors(to):
        _make_folder(to.parent)
        _sweep_once(to.parent.absolute())
        owner = f"{_HOST}-{os.getpid()}-{secrets.token_hex(4)}"
        part = to.with_name(f".{to.name}.{owner}.part")  # the same folder, as a rename needs
        try:
            with part.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(to)
            _sync_folder(to.parent)
        finally:
            part.unlink(missing_ok=True)


def create_atomically(path: Path, content: bytes) -> bool:
    """Write a file whole, unless there is one: of several processes at once exactly one does. Whether this one did."""
    with named_disk_errors(path):
        _make_folder(path.parent)
        part = path.with_name(f".{path.name}.{_HOST}-{os.getpid()}-{secrets.token_hex(4)}.part")
        try:
            _write_synced(part, content)
            try:
                os.link(part, path)  # unlike a rename, it fails where the name is taken
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                _write_synced(path, content)
        except FileExistsError:
            return False
        finally:
            part.unlink(missing_ok=True)
        _sync_folder(path.parent)
    return True


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sweep_parts(folder: Path) -> None:
    """Remove what processes of this machine that are no more have left half written in a folder."""
    with contextlib.suppress(PermissionError):  # a folder that one may write to but not list
        for name in os.listdir(folder):  # of many thousands, to make paths of all would take long
            if (found := _PART.match(name)) and not _is_running(int(found["process"])):
                (folder / name).unlink(missing_ok=True)


@functools.cache  # a folder is listed once by each process: to list it at every write would take ever longer
def _sweep_once(folder: Path) -> None:
    sweep_parts(folder)


def _is_running(process: int) -> bool:
    if os.name == "nt":  # there a signal of 0 is no question
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _make_folder(folder: Path) -> None:
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in made:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Bring the names in a folder to disk; without it, a rename may be lost in a power cut."""
    if os.name == "nt":  # which cannot open folders
        return
    with contextlib.suppress(PermissionError):  # a folder that one may write to but not list
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        except OSError as error:
            if error.errno not in _NO_FOLDER_SYNC:
                raise
        finally:
            os.close(opened)
