"""Files that are written whole or not at all, and sealed files, whose name holds a hash of their content."""

import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_NAME = re.compile(r"^(?P<stem>.+)\.(?P<seal>[0-9a-f]{16})\.[a-z]+$")


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
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        return content if found and found["seal"] == _seal(content) else None


def _seal(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; its folder is made if need be."""
    with whole_or_nothing(path) as file:
        file.write(content)


@contextmanager
def whole_or_nothing(to: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``to`` at the end; after an error nothing of it is left."""
    to.parent.mkdir(parents=True, exist_ok=True)
    part = to.with_name(f".{to.name}.{secrets.token_hex(4)}.part")  # the same folder, as a rename needs
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(to)
    finally:
        part.unlink(missing_ok=True)
