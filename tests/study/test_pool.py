"""Worker processes: the table of one process, errors raised where the study was started, and no worker left behind."""

import contextlib
import errno
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from study.forking import Forking
from study.studies import HERE, ran, same, scores, stamps
from study.tiny import METHODS, UNITS, finished_here, tiny, tiny_content
from verax.core.engine import TRIES, Processes, TaskLostError
from verax.report.page import write_study_report
from verax.study.engine import StudyWork
from verax.study.explained_models import Machine
from verax.study.plan import Plan, plan_of
from verax.study.run import Watcher
from verax.study.spec import parse_spec
from verax.study.study import Study, open_study
from verax.study.trust import questions
from verax.study.uncertainty import compute_uncertainty, uncertainty_tables


class Told(Watcher):
    """Keeps what a watcher is told."""

    def __init__(self) -> None:
        super().__init__(0, sys.stderr)
        self.lines: list[str] = []
        self.families: list[str] = []
        self.rows: list[int] = []

    def log(self, line: str) -> None:
        self.lines.append(line)

    def __call__(self, event: str | int) -> None:
        if isinstance(event, str):
            self.families.append(event)
        else:
            self.rows.append(event)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where data and model are."""
    return tmp_path_factory.mktemp("place")


@pytest.fixture(scope="module")
def alone(place: Path) -> Path:
    """The study in this process; not to be changed."""
    return finished_here(place, "alone")


@pytest.fixture
def copied(alone: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(alone, tmp_path / "study"))


def test_workers_give_the_same_table_and_the_watcher_is_told(
    place: Path, tmp_path: Path, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, folder = Told(), tmp_path / "study"
    asked = {"inputs": 3, "samples": 40, "sizes": [20, 40], "resamples": 4, "independent": 0}
    trust = {"inputs": 4, "limit_rows": 2**10, "trials": ["tells_apart"]}
    spec = parse_spec(tiny_content(place) | {"uncertainty": asked, "trust": trust}, "tiny")
    monkeypatch.setattr("verax.study.run._QUICK", 0.0)  # use worker processes for studies of seconds, too
    monkeypatch.setattr("verax.study.run.watching", lambda units: contextlib.nullcontext(told))
    for name in ("compute_uncertainty", "answer"):
        monkeypatch.setattr(f"verax.study.engine.{name}", lambda *arguments: pytest.fail("not by a worker"))
    assert ran(spec, folder, workers=2)[0].computed == UNITS
    assert same(scores(folder), scores(alone))
    assert len(told.rows) == UNITS
    assert all(rows > 0 for rows in told.rows)
    assert told.families.count("metrics") == UNITS
    assert len(told.families) > UNITS  # those of methods as well
    assert told.families.count("uncertainty of Infidelity") == 1
    assert ran(spec, folder, workers=2)[0].computed == 0
    (written,) = (folder / "uncertainty").iterdir()
    found, study = pl.read_parquet(written), open_study(folder)
    assert found["draws"].to_list() == [20, 40] * len(METHODS)
    written.unlink()
    compute_uncertainty(study, *uncertainty_tables(study), HERE)
    assert pl.read_parquet(folder / "uncertainty").equals(found)
    questioned = questions(study, study.scores())
    assert sorted(told.families[-len(questioned) :]) == sorted(one.title for one in questioned.values())
    (distance,) = (folder / "trust").glob("*.distance.*")
    table, _ = next(one for one in questioned.values() if one.name == "distance").answer(HERE, study.cache)
    assert pl.read_parquet(distance).equals(table)
    assert table.height


def test_another_process_draws_the_same_figures(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = parse_spec(tiny_content(place, 2) | {"examples": 2}, "tiny")
    study = ran(spec, tmp_path / "study")[0].study
    folder = study.store.folder / "figures"
    write_study_report(study)
    drawn = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert {"curves-1.svg", "attributions-1.svg"} < drawn.keys()
    shutil.rmtree(folder)
    monkeypatch.setattr("verax.report.page._of_examples", lambda *arguments: pytest.fail("not by the other process"))
    write_study_report(study, workers=2)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == drawn


def test_what_takes_seconds_is_done_in_one_process(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verax.study.engine.Processes", lambda *arguments: pytest.fail("workers were started"))
    assert ran(tiny(place, 2), tmp_path / "study", workers=2)[0].computed == 2


def by_workers(study: Study, told: Told, stems: list[str], workers: int = 1) -> list[int | None]:
    """Make files of a study in worker processes."""
    work = StudyWork(str(study.store.folder.absolute()), tuple(study.imports), HERE)
    with Processes([work] * workers) as engine:
        return list(engine.run(stems, told))


def test_an_error_in_a_worker_is_raised_here(copied: Path) -> None:
    """After two units of which the watcher is told; what explains them is in the cache."""
    study, told = open_study(copied), Told()
    shutil.rmtree(copied / "scores")
    first, second, *others = study.units
    with pytest.raises(KeyError, match="unknown"):
        by_workers(study, told, [first.stem, second.stem, "unknown", *(one.stem for one in others)])
    assert told.families[:2] == ["metrics"] * 2
    assert len(stamps(copied)) == 2


def test_what_is_stored_is_not_computed_again(copied: Path) -> None:
    """By a worker that takes the place of one that died between the file and its answer."""
    study, told = open_study(copied), Told()
    kept, computed = study.units[:2]
    next((copied / "scores").glob(f"{computed.stem}.*")).unlink()
    before = stamps(copied)
    assert by_workers(study, told, [kept.stem, computed.stem])[0] == 0
    assert told.families == ["metrics"]
    assert before.items() <= stamps(copied).items()


def test_a_full_disk_is_told_by_the_worker_that_met_it(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # or workers leave cut-off files of it
    study = open_study(copied)
    shutil.rmtree(copied / "scores")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))  # workers inherit it
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            by_workers(study, Told(), study.stems)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG  # by which a run knows that there is no room


class Killer(Told):
    """Kills the worker that says what it does, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def __call__(self, event: str | int) -> None:
        super().__call__(event)
        if isinstance(event, str) and len(self.families) <= self.times:
            (worker,) = children(os.getpid())
            os.kill(worker, signal.SIGKILL)


def test_a_worker_that_is_killed_is_replaced(copied: Path, alone: Path) -> None:
    study, told = open_study(copied), Killer(1)
    shutil.rmtree(copied / "scores")
    by_workers(study, told, [unit.stem for unit in study.units])
    assert same(scores(copied), scores(alone))
    assert not children(os.getpid())


def test_a_unit_that_kills_one_worker_after_the_other_is_named_and_loses_nothing(copied: Path) -> None:
    study = open_study(copied)
    lost = study.units[2].stem
    next((copied / "scores").glob(f"{lost}.*")).unlink()
    before = stamps(copied)
    told = Killer(TRIES)
    with pytest.raises(TaskLostError, match=rf"^{lost}: {TRIES} worker processes died .* fewer workers"):
        by_workers(study, told, [unit.stem for unit in study.units])
    assert before.items() <= stamps(copied).items()
    assert not children(os.getpid())


def test_a_plan_divides_the_time_among_workers(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verax.study.plan._seconds_per_input", lambda *arguments: 3.0)
    study = open_study(alone)

    def plan(workers: int) -> Plan:
        return plan_of(study, study.units, HERE, workers)

    assert plan(4).seconds == plan(1).seconds / 4
    assert plan(100).seconds == plan(1).seconds / len(study.units)
    assert not plan(1).quicker_than(plan(1).seconds)
    assert plan(1).quicker_than(plan(1).seconds + 1)


@pytest.fixture(scope="module")
def forking() -> Iterator[Forking]:
    """Starts runs."""
    with Forking() as process:
        yield process


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_the_run(
    forking: Forking, place: Path, alone: Path, tmp_path: Path, ending: signal.Signals
) -> None:
    """Killed alone, or by Ctrl-C, which reaches the workers as well; then a second run ends what the first began."""
    own, folder = tmp_path / "spec.json", tmp_path / "study"
    own.write_text(json.dumps(tiny_content(place)))
    run = forking.begin(tmp_path, "study.crew:main", str(own), str(folder))
    while not ((folder / "scores").is_dir() and stamps(folder)):
        assert is_alive(run), (tmp_path / "err").read_text()
        time.sleep(0.01)
    workers = children(run)
    assert len(workers) == 2
    (os.killpg if ending is signal.SIGINT else os.kill)(run, ending)
    assert forking.ended() == (130 if ending is signal.SIGINT else -signal.SIGKILL)
    before = time.monotonic()
    while any(is_alive(pid) for pid in workers):
        assert time.monotonic() - before < 300
        time.sleep(0.01)
    kept = stamps(folder)
    assert 0 < len(kept) < UNITS
    assert ran(tiny(place), folder)[0].computed == UNITS - len(kept)
    assert kept.items() <= stamps(folder).items()
    assert same(scores(folder), scores(alone))


def children(parent: int) -> list[int]:
    """Processes that were started by another to work for it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and is_alive(int(entry.name)):
            with contextlib.suppress(OSError):  # it has ended since, or is somebody else's
                status = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if int(status[1]) == parent and b"spawn_main" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_several_gpus_share_the_units(
    place: Path, tmp_path: Path, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here CPUs stand for them: a worker each, with the unit to come begun and the last one written beside it."""
    monkeypatch.setattr(Machine, "gpus", lambda self: (self, self))
    assert ran(tiny(place), tmp_path / "study")[0].computed == UNITS
    assert same(scores(tmp_path / "study"), scores(alone))


def test_each_gpu_is_a_machine_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    assert [one.device for one in Machine("cuda", 64).gpus()] == ["cuda:0", "cuda:1", "cuda:2"]
    assert Machine("cuda:1").gpus() == (Machine("cuda:1"),)
    assert Machine().gpus() == (Machine(),)
