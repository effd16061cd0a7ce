"""Worker processes: the same bits as one process; one that dies loses nothing and leaves no half part."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest

from lakes.lakes import NAMES, SmallLake, same
from verax.core import extensions
from verax.core.files import Sealed
from verax.core.worker_processes import Worker, WorkerEndedError
from verax.lakes import ModelFile, Settings
from verax.lakes.engine import Lost
from verax.lakes.job import Job, default_workers
from verax.lakes.processes import Processes, _on_device
from verax.lakes.storage import folder_of


def test_workers_that_die_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One at a row, one between the last byte of a file and its name."""
    lake = SmallLake(tmp_path)
    died = tmp_path / "died"
    died.mkdir()
    marked = pl.when(pl.int_range(pl.len()) == 5).then(2.5).otherwise("age").alias("age")
    lake.change("rows", 2, lambda table: table.with_columns(marked))
    monkeypatch.setattr(extensions, "_loaded", [])
    extensions.load(["lakes.doomed_metric"])
    settings = Settings(("pc", "killer"))
    (died / "row").touch()  # the first run lives
    monkeypatch.setenv("DOOM", str(died))
    lake.score("quiet", settings=settings)
    (died / "row").unlink()
    found = lake.score(settings=settings, workers=2)
    assert found.computed == 4
    assert {path.name for path in died.iterdir()} == {"row", "rename"}
    assert same(lake.table(), lake.table("quiet"))
    assert set(lake.parts()) == set(lake.parts("quiet"))  # names hold hashes of the contents
    for path in (tmp_path / "scores").glob("*.parquet"):
        assert Sealed.read(path) is not None
    lake.score(settings=settings)
    assert not list((tmp_path / "scores").glob(".*.part"))
    assert set(lake.table()["attribution"]) == set(NAMES)


class Mortal(Worker):
    """A worker that dies as soon as it is heard, and notes that it was started, and ended."""

    noted: ClassVar[list[str]] = []

    def __init__(self, *arguments: Any, environment: Mapping[str, str]) -> None:
        self.noted.append(f"started with {environment['OMP_NUM_THREADS']} thread")

    def receive(self) -> Any:
        raise WorkerEndedError(-9)

    def end(self) -> None:
        self.noted.append("ended")


def test_another_takes_the_place_of_a_worker_that_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verax.lakes.processes.Worker", Mortal)
    monkeypatch.setattr("verax.lakes.processes.ready", lambda members, seconds: members[1:])
    model = ModelFile(Path("m.onnx"))
    job = Job(model, Settings(), "id", ("a",), missing=False, background=None, out=folder_of("scores"))
    crew = Processes(job, 2)
    before = list(crew.members)
    assert crew.events(1.0) == [Lost(1, "the process ended by itself, status -9")]
    assert crew.members[0] is before[0]
    assert crew.members[1] is not before[1]
    crew.end()
    assert Mortal.noted == [*2 * ["started with 1 thread"], "ended", "started with 1 thread", *2 * ["ended"]]


def test_with_several_gpus_each_worker_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ModelFile(Path("m.onnx"), device="cuda")
    job = Job(model, Settings(), "id", ("a",), missing=False, background=None, out=folder_of("scores"))
    for count, devices in ((1, ["cuda", "cuda", "cuda"]), (2, ["cuda:0", "cuda:1", "cuda:0"])):
        monkeypatch.setattr("torch.cuda.device_count", lambda count=count: count)
        assert [_on_device(job, number).model.device for number in range(3)] == devices
        assert default_workers("cuda") == count
