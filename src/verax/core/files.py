"""Files that are written whole or not at all, sealed files, and results as Parquet, CSV, JSON or HTML.

A sealed file has a hash of its content in its name. A file is brought to disk before it takes its name, and then the
folder that holds the name, so that a power cut leaves the old file or the new one.
"""

import contextlib
import errno
import functools
import hashlib
import io
import json
import math
import os
import platform
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from verax.core.system import is_running, sync_folder

if TYPE_CHECKING:
    from torch import Tensor

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
ENDINGS = (".parquet", ".csv", ".json", ".html")
_FORMULA = re.compile(r"^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")  # what spreadsheets run, also in full width
_NUMBER = re.compile(r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$")


class DiskError(OSError):
    """A disk that is full or fails; the message names the file and says what to do."""


class Sealed:
    """Names and reads sealed files."""

    @staticmethod
    def name(stem: str, content: bytes, suffix: str) -> str:
        """The name under which content is kept."""
        return f"{stem}.{_seal(content)}{suffix}"

    @staticmethod
    def stem(path: Path) -> str | None:
        """The name without seal and suffix; None for a file that has no seal."""
        match = _NAME.match(path.name)
        return match["stem"] if match else None

    @staticmethod
    def read(path: Path) -> bytes | None:
        """The content; None if it is not what the name says, or gone."""
        match = _NAME.match(path.name)
        try:
            with named_disk_errors(path):
                content = path.read_bytes()
        except FileNotFoundError:
            return None
        return content if match and match["seal"] == _seal(content) else None


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
    with _placed(to, lambda part: part.replace(to)) as file:
        yield file


def create_atomically(path: Path, content: bytes) -> bool:
    """Write a file whole, unless there is one: of several processes at once exactly one does. Whether this one did."""

    def place(part: Path) -> None:
        try:
            os.link(part, path)  # unlike a rename, it fails where the name is taken
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            with _synced(path) as file:
                file.write(content)

    try:
        with _placed(path, place) as file:
            file.write(content)
    except FileExistsError:
        return False
    return True


@contextmanager
def _placed(to: Path, place: Callable[[Path], object]) -> Iterator[BinaryIO]:
    """A file to write to, which is given its place when it is on disk."""
    with named_disk_errors(to):
        _make_folder(to.parent)
        _sweep_once(to.parent.absolute())
        owner = f"{_HOST}-{os.getpid()}-{secrets.token_hex(4)}"
        part = to.with_name(f".{to.name}.{owner}.part")  # the same folder, as a rename needs
        try:
            with _synced(part) as file:
                yield file
            place(part)
            sync_folder(to.parent)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def _synced(path: Path) -> Iterator[BinaryIO]:
    with path.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def sweep_parts(folder: Path) -> None:
    """Remove what processes of this machine that died have left half written in a folder."""
    with contextlib.suppress(PermissionError):  # a folder that one may write to but not list
        for name in os.listdir(folder):  # of many thousands, to make paths of all would take long
            if (part := _PART.match(name)) and not is_running(int(part["process"])):
                (folder / name).unlink(missing_ok=True)


@functools.cache  # a folder is listed once by each process: to list it at every write would take ever longer
def _sweep_once(folder: Path) -> None:
    sweep_parts(folder)


def _make_folder(folder: Path) -> None:
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in made:
        sync_folder(path.parent)


def save_as(path: str | os.PathLike[str], frame: Callable[[], Any], page: Callable[[], str]) -> None:
    """Write a table as ``.parquet``, ``.csv`` or ``.json``, or a page as ``.html``, whole or not at all."""
    to = Path(path)
    ending = to.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"path: expected a name that ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, got {to}.")
    if to.is_dir():
        raise ValueError(f"path: {to} is a folder; expected a file name.")
    write_atomically(to, page().encode() if ending == ".html" else table_bytes(frame(), ending))


def table_bytes(frame: Any, ending: str) -> bytes:
    """A polars data frame as the content of a file."""
    if ending == ".json":
        return (json.dumps(finite(frame.to_dicts()), indent=1, allow_nan=False) + "\n").encode()
    buffer = io.BytesIO()
    if ending == ".csv":
        _without_formulas(frame).write_csv(buffer)
    else:
        frame.write_parquet(buffer)
    return buffer.getvalue()


def _without_formulas(frame: Any) -> Any:
    """The same table with an apostrophe before each name and text that a spreadsheet would run."""
    import polars as pl  # noqa: PLC0415  # whoever has a frame has it

    words = [name for name, kind in frame.schema.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    columns = [pl.Series(name, [_as_text(cell) for cell in frame[name]], pl.String) for name in words]
    return frame.with_columns(columns).rename({name: _as_text(name) for name in frame.columns})


def _as_text(cell: str | None) -> str | None:
    """A cell that spreadsheets show instead of running it; numbers are left as they are."""
    return f"'{cell}" if cell is not None and _FORMULA.match(cell) and not _NUMBER.match(cell) else cell


def entries(content: Any) -> Iterator[tuple[str, Any]]:
    """Names and values at every depth of what a JSON file holds."""
    waiting = [content]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield from node.items()
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def finite(value: Any) -> Any:
    """A value with None for every number in it that JSON cannot hold."""
    if isinstance(value, dict):
        return {name: finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


BLANK_CHECKSUM = "sealed:" + 64 * "0"
_CHECKSUM = re.compile(rb"sealed:[0-9a-f]{64}")


def digest(**parts: Any) -> str:
    """Hash named values that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, allow_nan=False).encode()).hexdigest()


def tensor_hash(*tensors: "Tensor") -> str:
    """Hash of the values of tensors."""
    import torch  # noqa: PLC0415  # to keep ``verax --help`` light

    digest = hashlib.sha256()
    for tensor in tensors:
        on_cpu = tensor.detach().cpu().contiguous()
        digest.update(f"{on_cpu.dtype} {tuple(on_cpu.shape)}\n".encode())
        digest.update(on_cpu.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def stable_form(value: Any) -> str:
    """A frozen value in words that are the same in every process; tensors as a hash of them."""
    import torch  # noqa: PLC0415  # to keep ``verax --help`` light

    if isinstance(value, torch.Tensor):
        return tensor_hash(value)
    if is_dataclass(value) and not isinstance(value, type):
        settings = ", ".join(f"{field.name}={stable_form(getattr(value, field.name))}" for field in fields(value))
        return f"{type(value).__module__}.{type(value).__qualname__}({settings})"
    return repr(value)


def with_checksum(content: bytes) -> bytes:
    """Put the hash of a file where it holds ``BLANK_CHECKSUM`` or an older one; it is taken with the blank there."""
    blank = _CHECKSUM.sub(BLANK_CHECKSUM.encode(), content)
    return blank.replace(BLANK_CHECKSUM.encode(), f"sealed:{hashlib.sha256(blank).hexdigest()}".encode())


def sealed_json(values: Mapping[str, Any]) -> bytes:
    """Values as the content of a JSON file that holds the hash of itself."""
    return with_checksum(f"{json.dumps({'seal': BLANK_CHECKSUM, **values}, indent=1)}\n".encode())


def read_sealed_json(content: bytes) -> dict[str, Any] | None:
    """The values of such a file; None where it is another one, or was changed."""
    if not has_valid_checksum(content):
        return None
    values: dict[str, Any] = json.loads(content)
    del values["seal"]
    return values


def has_valid_checksum(content: bytes) -> bool:
    """Whether a file holds the hash of itself: every byte is what was written."""
    return bool(_CHECKSUM.search(content)) and content == with_checksum(content)
