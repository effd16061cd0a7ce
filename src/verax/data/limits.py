"""How large a file may become when it is opened: a small one can unpack to more than the memory holds."""

import os
from pathlib import Path

MAX_GIB = "VERAX_MAX_GIB"
"""The environment variable that raises the limit on arrays, tables and downloads, in GiB."""

MAX_PIXELS = "VERAX_MAX_PIXELS"
"""The environment variable that raises the limit on the pixels of one image."""

_GIB = 4.0
_PIXELS = 178_956_970.0  # where Pillow itself refuses an image


class LimitError(ValueError):
    """A file is larger than the limit. The message names the file, the limit and how to raise it."""


def check_bytes(source: str | Path, count: int) -> None:
    """Refuse what would take more room than the limit, before it is read.

    Example:
        >>> check_bytes("x.npz", 1 << 40)
        Traceback (most recent call last):
        verax.data.limits.LimitError: x.npz: holds 1,024 GiB, above the limit of 4 GiB; set VERAX_MAX_GIB to more.
    """
    limit = max_gib()
    if count > limit * 2**30:
        raise LimitError(
            f"{source}: holds {count / 2**30:,.4g} GiB, above the limit of {limit:g} GiB; set {MAX_GIB} to more."
        )


def max_gib() -> float:
    """The limit on one file's arrays, and on a download, in GiB."""
    return _positive(MAX_GIB, _GIB)


def max_pixels() -> int:
    """The limit on the pixels of one image."""
    return int(_positive(MAX_PIXELS, _PIXELS))


def _positive(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0.0
    if not value > 0:
        raise ValueError(f"{name}: expected a number greater than 0, got {text!r}.")
    return value
