"""Reports where a package is missing."""

import subprocess
import sys

import pytest

import verax.report


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("module", "package"), [("altair", "altair"), ("vl_convert", "vl-convert-python")])
def test_missing_package_is_named_with_the_extra_that_has_it(module: str, package: str) -> None:
    done = run(f"import sys; sys.modules[{module!r}] = None; from verax.report import write_report")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last == f"ImportError: The report of a study needs {package}: pip install 'verax[study]'"


def test_the_report_of_a_comparison_does_without_them() -> None:
    absent = "import sys; sys.modules.update(dict.fromkeys(('altair', 'vl_convert', 'polars')))"
    done = run(f"{absent}; from verax.report.comparison import comparison_page")
    assert done.returncode == 0, done.stderr


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'write_reports'"):
        verax.report.write_reports  # noqa: B018
