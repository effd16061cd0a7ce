"""A command that may not use memory enough says so in a line, before anything large is loaded."""

import resource
import subprocess
import sys

import pytest

from verax.core import packages


def limited(monkeypatch: pytest.MonkeyPatch, limit: int, *argv: str) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, resource.RLIM_INFINITY))
    monkeypatch.setattr(sys, "argv", list(argv))


@pytest.mark.parametrize("name", ["/usr/bin/verax", "verax.exe"])
def test_too_little_memory_is_one_line_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    limited(monkeypatch, 400_000_000, name, "doctor")
    with pytest.raises(SystemExit) as ended:
        packages.check_memory_limit()
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith(
        "verax: not enough memory to start: at most 0.4 GB of address space are allowed (ulimit -v)"
    )
    assert message.count("\n") == 1


def test_a_program_and_a_wide_limit_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, name in (
        (400_000_000, "program.py"),
        (packages.NEEDED, "verax"),
        (resource.RLIM_INFINITY, "verax"),
    ):
        limited(monkeypatch, limit, name)
        packages.check_memory_limit()


def test_the_module_is_recognised_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """``python -m verax`` imports the package before it has a name."""
    limited(monkeypatch, 400_000_000, "-m", "doctor")
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "verax", "doctor"])
    with pytest.raises(SystemExit):
        packages.check_memory_limit()
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "pytest"])
    packages.check_memory_limit()


def test_it_is_asked_before_anything_large_is_loaded() -> None:
    """It has to be loaded where nothing else can be."""
    code = """
import resource, sys
resource.getrlimit = lambda kind: (400_000_000, resource.RLIM_INFINITY)
sys.argv = ["verax"]
try:
    import verax
finally:
    print(*sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    loaded = set(ended.stdout.split())
    assert not {"numpy", "torch", "polars"} & loaded
    assert {name for name in loaded if name.startswith("verax.")} <= {
        "verax.core",
        "verax.core.packages",
        "verax.core.system",
    }
