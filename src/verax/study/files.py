"""Sealed files: the name of a file holds a hash of its content, so damage shows without a second file."""

import hashlib
import re
from pathlib import Path

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
