"""Whether the command may use memory enough to start; imported before anything large, and light itself.

Under a tight limit (``ulimit -v``, a batch system) the libraries that Verax loads do not say what is wrong: they end
the process, hang, or fail with a traceback, depending on where memory runs out.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

NEEDED = 1_500_000_000  # bytes; below it even ``verax doctor`` hangs or is ended


def check_memory_limit() -> None:
    """End the command ``verax`` in a line where it may use too little; a program that imports the library goes on."""
    if _is_command() and (limit := _address_space_limit()) is not None and limit < NEEDED:
        sys.stderr.write(
            f"verax: not enough memory to start: at most {limit / 1e9:.1f} GB of address space are allowed "
            f"(ulimit -v), at least {NEEDED / 1e9:.1f} GB are needed; raise the limit.\n"
        )
        raise SystemExit(2)  # as for all that cannot be done as asked


def _is_command() -> bool:
    """By its name; while a package is being imported for ``python -m``, that is still to come."""
    return Path(sys.argv[0]).stem == "verax" or (sys.argv[0] == "-m" and "verax" in sys.orig_argv)


def _address_space_limit() -> int | None:
    try:
        resource: Any = importlib.import_module("resource")
    except ImportError:  # Windows has no such limits
        return None
    soft: int = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if soft == resource.RLIM_INFINITY else soft


check_memory_limit()
