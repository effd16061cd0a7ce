"""One small study and its page for all tests of the report."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from report.synthetic import PROVENANCE, examples, study, trusted
from verax.report import write_report
from verax.report.view import View
from verax.study.tables import Example, Tables


@pytest.fixture(scope="session")
def tables() -> Tables:
    found = study(("HELOC-MLP", "ISIC-Inception"), inputs=6)
    return replace(found, trust=trusted(found))


@pytest.fixture(scope="session")
def shown(tables: Tables) -> Sequence[Example]:
    return examples(tables, count=2, size=32)


@pytest.fixture(scope="session")
def view(tables: Tables, shown: Sequence[Example]) -> View:
    return View(tables, tuple(shown))


@pytest.fixture(scope="session")
def report(tables: Tables, shown: Sequence[Example], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "folder" / "report.html"
    write_report(path, tables, shown, PROVENANCE)
    return path
