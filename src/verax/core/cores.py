"""How many cores there are to work with."""

import os


def available_cores() -> int:
    """The cores that this process may use, which can be fewer than the machine has."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
