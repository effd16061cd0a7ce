"""How large a file may become when it is opened: a small one can unpack to more than the memory holds."""

import os
from pathlib import Path
from typing import Any

MAX_GIB = "VERAX_MAX_GIB"
"""The environment variable that raises the limit on arrays, tables and downloads, in GiB."""

_GIB = 4.0


class LimitError(ValueError):
    """A file is larger than the limit. The message names the file, the limit and how to raise it."""


def check_bytes(source: str | Path, count: int) -> None:
    """Raise for what would take more room than the limit, before it is read."""
    limit = max_gib()
    if count > limit * 2**30:
        raise LimitError(
            f"{source}: holds {count / 2**30:,.4g} GiB, above the limit of {limit:g} GiB; set {MAX_GIB} to more."
        )


def max_gib() -> float:
    """The limit on one file's arrays, and on a download, in GiB."""
    return positive_variable(MAX_GIB, _GIB)


def positive_variable(name: str, default: float) -> float:
    """A number of the environment."""
    text = os.environ.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0.0
    if not value > 0:
        raise ValueError(f"{name}: expected a number greater than 0, got {text!r}.")
    return value


_ROW_GROUPS, _COLUMNS, _META_DATA, _VALUES, _UNPACKED = 4, 1, 3, 5, 6  # fields, by their numbers in parquet.thrift
_BOOLEANS, _BYTE, _NUMBERS, _DOUBLE, _BYTES, _LISTS, _MAP, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 11, 12
_MANY = 15  # of a list: its length follows


def unpacked_bytes(path: Path, content: bytes) -> int:
    """Bytes of all columns: eight for each value, those in lists one by one, or what the file says of its pages."""
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    try:
        if start < 0:
            raise IndexError
        groups = _Footer(content, start).struct()[_ROW_GROUPS]
        columns = [column[_META_DATA] for group in groups for column in group[_COLUMNS]]
        return sum(max(8 * abs(about[_VALUES]), abs(about[_UNPACKED])) for about in columns)
    except (IndexError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path}: cannot be read as .parquet file (its last page is damaged).") from None


class _Footer:
    """Thrift's compact form, read as fields by their numbers."""

    def __init__(self, content: bytes, place: int) -> None:
        self.content, self.place = content, place

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._number()
            kind = head & 15
            fields[number] = kind == _BOOLEANS[0] if kind in _BOOLEANS else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind == _STRUCT:
            return self.struct()
        if kind in _LISTS:
            head = self._byte()
            length = self._varint() if head >> 4 == _MANY else head >> 4
            return [self._value(head & 15) for _ in range(length)]
        if kind == _MAP:
            length = self._varint()
            kinds = self._byte() if length else 0
            return [(self._value(kinds >> 4), self._value(kinds & 15)) for _ in range(length)]
        if kind in _NUMBERS:
            return self._number()
        if kind in (*_BOOLEANS, _BYTE):
            return self._byte()
        if kind not in (_DOUBLE, _BYTES):
            raise TypeError
        length = 8 if kind == _DOUBLE else self._varint()
        self.place += length
        if self.place > len(self.content):
            raise IndexError
        return None

    def _byte(self) -> int:
        self.place += 1
        return self.content[self.place - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
