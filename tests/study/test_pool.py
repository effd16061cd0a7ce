"""Worker processes: the table of one process, errors raised where the study was started, and no worker left behind."""

import contextlib
import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from study import crew
from study.studies import HERE, content, ran, same, scores, spec, stamps, table
from verax.study.machine import Machine
from verax.study.plan import Plan, plan_of
from verax.study.pool import run_pool
from verax.study.spec import StudySpec, parse_spec
from verax.study.study import open_study

MANY = content(table(limit=32, chunk=2), uncertainty={"inputs": 0}, examples=0)


def many() -> StudySpec:
    """Units enough to be interrupted."""
    return parse_spec(MANY, "many")


class Told:
    """Keeps what a watcher is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.families: list[str] = []
        self.rows: list[int] = []

    def log(self, line: str) -> None:
        self.lines.append(line)

    def family(self, name: str) -> None:
        self.families.append(name)

    def done(self, rows: int) -> None:
        self.rows.append(rows)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study in this process."""
    folder = tmp_path_factory.mktemp("alone") / "study"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("verax.study.run.write_study_report", lambda study: study.store.folder)
        patch.setattr("verax.study.plan._seconds_per_input", lambda *arguments: 0.0)
        ran(many(), folder)
    return folder


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use worker processes for studies of seconds, too."""
    monkeypatch.setattr("verax.study.run._QUICK", 0.0)


@pytest.mark.usefixtures("at_once")
def test_workers_give_the_same_table(trained: Path, alone: Path) -> None:
    assert ran(many(), trained, workers=2)[0].computed == 16
    assert same(scores(trained), scores(alone))
    assert ran(many(), trained, workers=2)[0].computed == 0


def test_what_takes_seconds_is_done_in_one_process(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verax.study.run.run_pool", lambda *arguments: pytest.fail("workers were started"))
    assert ran(spec(table(limit=4, chunk=2)), trained, workers=2)[0].computed == 2


def test_the_watcher_is_told(trained: Path) -> None:
    ran(spec(table(limit=4, chunk=2)), trained)
    study, told = open_study(trained), Told()
    run_pool(study, study.units, HERE, told, workers=2)
    assert len(told.rows) == 2
    assert all(rows > 0 for rows in told.rows)
    assert told.families == ["metrics"] * 2  # what explains them is in the cache


def test_an_error_in_a_worker_is_raised_here(copied: Path) -> None:
    study = open_study(copied)
    unknown = replace(study.units[0], model="unknown")
    with pytest.raises(KeyError, match="unknown"):
        run_pool(study, [unknown, *study.units], HERE, Told(), workers=1)


def test_a_full_disk_is_told_by_the_worker_that_met_it(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # or workers leave cut-off files of it
    study = open_study(copied)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # workers inherit it
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            run_pool(study, study.units, HERE, Told(), workers=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG  # by which a run knows that there is no room


def test_a_worker_that_is_killed_ends_the_run_and_loses_nothing(copied: Path) -> None:
    study = open_study(copied)

    class Killer(Told):
        def family(self, name: str) -> None:
            for pid in children(os.getpid())[:1]:
                os.kill(pid, signal.SIGKILL)

    before = stamps(copied)
    with pytest.raises(ChildProcessError, match=r"ended by itself \(status -9\).*fewer --workers"):
        run_pool(study, study.units, HERE, Killer(), workers=2)
    assert before.items() <= stamps(copied).items()
    assert not children(os.getpid())


def test_a_plan_divides_the_time_among_workers(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verax.study.plan._seconds_per_input", lambda *arguments: 3.0)
    study = open_study(finished)

    def plan(workers: int) -> Plan:
        return plan_of(study, study.units, HERE, workers)

    assert plan(4).seconds == plan(1).seconds / 4
    assert plan(100).seconds == plan(1).seconds / len(study.units)
    assert not plan(1).quicker_than(plan(1).seconds)
    assert plan(1).quicker_than(plan(1).seconds + 1)


@pytest.fixture
def started(trained: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run with two workers in a process of its own, which is at work."""
    own = tmp_path / "spec.json"
    own.write_text(json.dumps(MANY))
    command = [sys.executable, crew.__file__, str(own), str(trained)]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        while not stamps_or_none(trained):
            assert process.poll() is None
            time.sleep(0.01)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def stamps_or_none(folder: Path) -> dict[str, tuple[int, int]]:
    return stamps(folder) if (folder / "scores").is_dir() else {}


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_the_run(
    started: subprocess.Popen[bytes], trained: Path, alone: Path, ending: signal.Signals
) -> None:
    """Killed alone, or by Ctrl-C, which reaches the workers as well; then a second run ends what the first began."""
    workers = children(started.pid)
    assert len(workers) == 2
    if ending is signal.SIGINT:
        os.killpg(started.pid, ending)
        assert started.wait(timeout=300) == 130
    else:
        started.kill()
        started.wait()
    before = time.monotonic()
    while any(is_alive(pid) for pid in workers):
        assert time.monotonic() - before < 300
        time.sleep(0.01)
    kept = stamps(trained)
    assert 0 < len(kept) < 16
    assert ran(many(), trained)[0].computed == 16 - len(kept)
    assert kept.items() <= stamps(trained).items()
    assert same(scores(trained), scores(alone))


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


def test_several_gpus_share_the_units(tmp_path: Path, alone: Path) -> None:
    """Here CPUs stand for them: a worker each, with the unit to come begun and the last one written beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("verax.study.run.write_study_report", lambda study: study.store.folder)
        patch.setattr("verax.study.plan._seconds_per_input", lambda *arguments: 0.0)
        patch.setattr(Machine, "gpus", lambda self: (self, self))
        ran(many(), tmp_path / "study")
    assert same(scores(tmp_path / "study"), scores(alone))


def test_each_gpu_is_a_machine_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    assert [one.device for one in Machine("cuda", 64).gpus()] == ["cuda:0", "cuda:1", "cuda:2"]
    assert Machine("cuda:1").gpus() == (Machine("cuda:1"),)
    assert Machine().gpus() == (Machine(),)
