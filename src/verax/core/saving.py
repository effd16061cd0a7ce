"""Results as files: a table or a page about it, in the form that the ending of the file's name says."""

import io
import json
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from verax.core.files import write_atomically

ENDINGS = (".parquet", ".csv", ".json", ".html")
_FORMULA = re.compile(r"^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")  # what spreadsheets run, also in full width
_NUMBER = re.compile(r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$")


def save_as(path: str | os.PathLike[str], frame: Callable[[], Any], page: Callable[[], str]) -> None:
    """Write a file whole or not at all; its folder is made if need be.

    Args:
        path: Its ending says what is written: ``.parquet``, ``.csv`` and ``.json`` (a list of rows; numbers that are
            not finite are null) the table, ``.html`` the page. In a ``.csv`` a name that a spreadsheet would run as a
            formula (it begins with ``=``, ``+``, ``-`` or ``@``) follows an apostrophe.
        frame: Makes the table, a polars data frame.
        page: Makes the page.
    """
    to = Path(path)
    ending = to.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"path: expected a name that ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, got {to}.")
    if to.is_dir():
        raise ValueError(f"path: {to} is a folder; wanted is a file name.")
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


def finite(value: Any) -> Any:
    """A value with None for every number in it that JSON cannot hold.

    Example:
        >>> finite({"low": float("nan"), "means": [0.5, float("inf")]})
        {'low': None, 'means': [0.5, None]}
    """
    if isinstance(value, dict):
        return {name: finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
