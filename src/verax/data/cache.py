"""The folder in which downloads and decoded images are kept."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder ``verax`` in ``$XDG_CACHE_HOME``, or else in ``~/.cache``."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "verax"
