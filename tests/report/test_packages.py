"""The report where a package is missing."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["altair", "vl_convert", "matplotlib", "jinja2"])
def test_missing_package_is_named(module: str) -> None:
    script = f"import sys; sys.modules[{module!r}] = None; import verax.report"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: verax.report needs {module}")
    assert "pip install" in last
