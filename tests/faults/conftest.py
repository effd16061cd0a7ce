"""What the tests of faults share, and the counts that they end with.

``VERAX_FAULTS=20`` drives twenty times as many faults as an ordinary run of the tests.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from study.conftest import _quick
from study.studies import ran
from study.test_killed import Doomed
from verax.study.spec import StudySpec, parse_spec

COUNTS: Counter[str] = Counter()
MORE = int(os.environ.get("VERAX_FAULTS", "1"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many faults were driven."""
    if COUNTS:
        terminalreporter.write_line("faults: " + ", ".join(f"{count} {name}" for name, count in sorted(COUNTS.items())))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write no reports and measure no pace: both take longer than the small study."""
    _quick(monkeypatch, report=False, pace=False)


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doomed]:
    """A process that runs the study in children of its own, which end as they are told."""
    own = Doomed(tmp_path_factory.mktemp("killer"))
    yield own
    own.close()


@pytest.fixture(scope="session")
def small() -> StudySpec:
    """A linear model and a network on a table, four units each, with all that a study stores."""
    from study.studies import LINEAR, MLP, content, table  # noqa: PLC0415

    few = [{"method": "Gradient"}, {"method": "SmoothGrad", "samples": 4}, {"method": "LimeTabular", "samples": 16}]
    return parse_spec(content(table(LINEAR, MLP, others=few, limit=8, chunk=2)), "small.toml")


@pytest.fixture(scope="session")
def whole_study(small: StudySpec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its directory after a quiet run; not to be changed."""
    folder = tmp_path_factory.mktemp("whole") / "study"
    with pytest.MonkeyPatch.context() as patch:
        _quick(patch, report=False, pace=False)
        ran(small, folder)
    return folder


@pytest.fixture
def spoilt(whole_study: Path, tmp_path: Path) -> Path:
    """A copy, to be damaged."""
    return Path(shutil.copytree(whole_study, tmp_path / "study"))
