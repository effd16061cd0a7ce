"""Reports where a package is missing."""

import json
import subprocess
import sys

import pytest

import verax.report

PROGRAM = """
import json, sys
absent = dict.fromkeys(("altair", "vl_convert", "polars"))
sys.modules.update(absent)
from verax.report.comparison import comparison_page
for name in absent:
    del sys.modules[name]
told = []
for name in ("altair", "vl_convert"):
    sys.modules[name] = None
    try:
        from verax.report import write_report
    except ImportError as error:
        told.append(str(error))
    del sys.modules[name]
print(json.dumps(told))
"""


def test_missing_packages_are_named_with_their_extra_and_the_report_of_a_comparison_does_without() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        f"The report of a study needs {package}: pip install 'verax[study]'"
        for package in ("altair", "vl-convert-python")
    ]


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'write_reports'"):
        verax.report.write_reports  # noqa: B018
