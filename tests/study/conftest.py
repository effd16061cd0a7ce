"""One finished study for all tests, and copies of it to be spoilt.

Reports are written, and the pace is measured before a run, only where a test is about it: both take longer than a small
study.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from study.studies import ran, whole
from verax.paper.models.recipes import Recipe, general_recipe


def _quick(patch: pytest.MonkeyPatch, report: bool, pace: bool) -> None:
    def no_report(study: Any, workers: int) -> Path:
        return Path(study.store.folder / "report.html")

    if not report:
        patch.setattr("verax.study.run.write_report", no_report)
    if not pace:
        patch.setattr("verax.study.plan._seconds_per_input", lambda *arguments: 0.0)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Leave out what takes long, unless it is asked for."""
    _quick(monkeypatch, report="real_report" in request.fixturenames, pace="real_pace" in request.fixturenames)


@pytest.fixture
def real_report() -> None:
    """Ask for it where the report is wanted."""


@pytest.fixture
def real_pace() -> None:
    """Ask for it where the pace is wanted."""


@pytest.fixture
def quick_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for it where any model of one's own data will do: two epochs in place of hundreds."""

    def two_epochs(model: str, rows: int, features: int) -> Recipe:
        return replace(general_recipe(model, rows, features), epochs=2)

    monkeypatch.setattr("verax.paper.models.shipped.general_recipe", two_epochs)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a study that was run to its end; not to be changed."""
    folder = tmp_path_factory.mktemp("finished") / "study"
    with pytest.MonkeyPatch.context() as patch:
        _quick(patch, report=False, pace=False)
        ran(whole(), folder)
    return folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished study, to be changed."""
    return Path(shutil.copytree(finished, tmp_path / "study"))


@pytest.fixture
def trained(finished: Path, tmp_path: Path) -> Path:
    """A directory with trained models and nothing else, so that no test has to train."""
    shutil.copytree(finished / "models", tmp_path / "study" / "models")
    return tmp_path / "study"
