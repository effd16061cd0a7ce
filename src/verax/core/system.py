"""What differs between Linux, macOS and Windows: cores, signals, other processes, limits of memory, folders on disk."""

import contextlib
import errno
import importlib
import os
import signal
from pathlib import Path
from typing import Any, BinaryIO

_IS_WINDOWS = os.name == "nt"
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP)  # what some network disks say to it


def available_cores() -> int:
    """The cores that this process may use, which can be fewer than the machine has."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def ignore_ctrl_c() -> None:
    """For workers: Ctrl-C reaches all processes of a terminal, and the first one decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def how_it_ended(status: int) -> str | None:
    """What ended a process that did not end by itself, from its exit status; None for one that did."""
    if status < 0:
        return signal.Signals(-status).name
    return f"{status:#x}" if _IS_WINDOWS and status >= 1 << 31 else None  # such as 0xc0000005, an access violation


def is_running(process: int) -> bool:
    """Whether there is a process of this number; True where the system cannot tell."""
    if _IS_WINDOWS:  # there a signal of 0 is no question
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # of another user
        return True
    return True


def address_space_limit() -> int | None:
    """The bytes that this process may address; None without a limit."""
    try:
        resource: Any = importlib.import_module("resource")
    except ImportError:  # Windows has no such limits
        return None
    soft: int = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to disk; without it, a rename may be lost in a power cut."""
    if _IS_WINDOWS:  # which cannot open folders
        return
    with contextlib.suppress(PermissionError):  # a folder that one may write to but not list
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        except OSError as error:
            if error.errno not in _NO_FOLDER_SYNC:
                raise
        finally:
            os.close(opened)


def reserve(file: BinaryIO, size: int) -> None:
    """Reserve room on the disk; where the system cannot, a full disk may end the process that writes there."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
