"""The version of Verax, and packages that it can do without: named where they are missing."""

import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

from verax.core.system import address_space_limit

__version__ = "0.1.0"
PIP_NAMES = {"skimage": "scikit-image", "sklearn": "scikit-learn", "PIL": "pillow", "vl_convert": "vl-convert-python"}
"""What pip calls a module that has another name there."""


def optional_package(module: str, install: str, purpose: str) -> Any:
    """Import a module that Verax can do without, or say how to install it."""
    try:
        with warnings.catch_warnings():  # what it uses that its own dependencies deprecate is not the user's business
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", PendingDeprecationWarning)
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = str(error.name).split(".")[0]
        raise ImportError(f"{purpose} needs {PIP_NAMES.get(missing, missing)}: pip install '{install}'") from error


NEEDED = 1_500_000_000  # bytes; below it even ``verax doctor`` hangs or is ended


def check_memory_limit() -> None:
    """End the command ``verax`` in a line where it may use too little; a program that imports the library goes on."""
    # by its name; while a package is being imported for ``python -m``, that is still to come
    is_command = Path(sys.argv[0]).stem == "verax" or (sys.argv[0] == "-m" and "verax" in sys.orig_argv)
    if is_command and (limit := address_space_limit()) is not None and limit < NEEDED:
        sys.stderr.write(
            f"verax: not enough memory to start: at most {limit / 1e9:.1f} GB of address space are allowed "
            f"(ulimit -v), at least {NEEDED / 1e9:.1f} GB are needed; raise the limit.\n"
        )
        raise SystemExit(2)  # as for all other wrong usage


check_memory_limit()
