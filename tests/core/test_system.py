"""What differs between systems is asked in one module, which answers on each of them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from verax.core import system

SOURCES = Path(system.__file__).parents[1]
OF_ONE_SYSTEM = re.compile(
    r"^\s*(import|from) (fcntl|grp|msvcrt|pty|pwd|resource|signal|termios|tty|winreg)\b"
    r"|\bos\.(fork|getuid|geteuid|kill|killpg|name|sched_getaffinity|setsid|uname|posix_fallocate)\b|\bsys\.platform\b"
    r"|[\"'](/dev/|/proc/|/sys/|/tmp|/etc/|[A-Z]:\\)",
    re.MULTILINE,
)


def test_no_other_module_asks_for_what_one_system_has() -> None:
    asking = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if OF_ONE_SYSTEM.search(path.read_text(encoding="utf-8"))
    }
    assert asking <= {str(Path("core") / "system.py")}


def test_a_process_that_has_ended_is_not_running() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert system.is_running(os.getpid())
    assert system.is_running(ended.pid) == (os.name == "nt")


@pytest.mark.parametrize(("windows", "status", "reason"), [(False, -11, "SIGSEGV"), (True, 0xC0000005, "0xc0000005")])
def test_a_crash_has_a_name(monkeypatch: pytest.MonkeyPatch, windows: bool, status: int, reason: str) -> None:
    monkeypatch.setattr(system, "_IS_WINDOWS", windows)
    assert system.how_it_ended(status) == reason
    assert system.how_it_ended(1) is None


def test_windows_is_not_asked_for_what_it_cannot_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(system, "_IS_WINDOWS", True)
    monkeypatch.setitem(sys.modules, "resource", None)  # to import it raises
    system.sync_folder(tmp_path / "no folder")
    assert system.is_running(-1)
    assert system.address_space_limit() is None


def test_there_is_a_core() -> None:
    assert 1 <= system.available_cores() <= (os.cpu_count() or 1)
