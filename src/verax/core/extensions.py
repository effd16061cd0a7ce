"""Modules of one's own that a command imports, so that the metrics, methods and data sets they define are known.

To import a module is to run its code, so nothing but the user's word does it: no file of a study or a model is asked.
"""

import importlib
import os
import sys
from collections.abc import Sequence

_loaded: list[str] = []


def load(modules: Sequence[str]) -> None:
    """Import modules by their dotted names, from the working directory or the path.

    Args:
        modules: What the user named. What worker processes are to import as well is remembered.
    """
    if modules and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    for name in modules:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # the module is there, and lacks one of its own
            raise ImportError(
                f"--import: there is no module {name!r} in {os.getcwd()} or on Python's path; "
                "give its dotted name, without .py."
            ) from None
        if name not in _loaded:
            _loaded.append(name)


def loaded() -> tuple[str, ...]:
    """The modules that were imported so far, for workers to import."""
    return tuple(_loaded)
