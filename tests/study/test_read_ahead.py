"""Units beside a GPU, here on a CPU: the same tables, one unit begun ahead, one written behind, errors raised."""

import threading
from pathlib import Path

import pytest

from study.studies import images, ran, same, scores, spec
from verax.attribution import segmentation
from verax.core.ray_engine import Cluster
from verax.study import engine
from verax.study.engine import begun_ahead
from verax.study.explained_models import Machine
from verax.study.spec import StudySpec

ALONE = {"uncertainty": {"inputs": 0}, "examples": 0}
NO_REPORT = "verax.study.run.write_report"


def small() -> StudySpec:
    """Two models of three images, in units of one."""
    data = images(chunk=1)
    data["models"] = [{"name": name, "architecture": "linear"} for name in ("First", "Second")]
    return spec(data, **ALONE)


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run units as beside a GPU."""
    monkeypatch.setattr(NO_REPORT, lambda study, workers: study.store.folder)
    monkeypatch.setattr("verax.study.run.unit_tasks", lambda study, units, *where: [tuple(one.stem for one in units)])


def test_the_tables_are_those_of_units_one_after_the_other(
    beside: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segmentation.CACHE.clear()
    order: list[str] = []
    real = engine.store

    def store(study: object, unit: engine.Unit, result: object) -> int:
        order.append(unit.stem.rpartition(".")[0])
        return real(study, unit, result)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "store", store)
    ran(small(), tmp_path / "beside")
    places = [(number, name) for number in range(3) for name in ("First", "Second")]
    assert order == [f"{name}.{number:06d}-{number + 1:06d}" for number, name in places]
    monkeypatch.undo()
    monkeypatch.setattr(NO_REPORT, lambda study, workers: study.store.folder)
    ran(small(), tmp_path / "alone")
    assert same(scores(tmp_path / "beside"), scores(tmp_path / "alone"))


def test_one_unit_is_begun_ahead() -> None:
    begun: list[str] = []
    seen = [(job, "".join(begun)) for job in begun_ahead(list("abcd"), lambda job, threads: begun.append(job))]
    assert seen == [("a", "ab"), ("b", "abc"), ("c", "abcd"), ("d", "abcd")]


def test_segments_made_ahead_are_used(beside: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segmentation.CACHE.clear()
    names: list[str] = []
    real = segmentation.Slic.prepare

    def prepare(self: segmentation.Slic, picture: object) -> segmentation.Arrays:
        names.append(threading.current_thread().name)
        return real(self, picture)  # type: ignore[arg-type]

    monkeypatch.setattr(segmentation.Slic, "prepare", prepare)
    ran(small(), tmp_path / "study")
    assert len(names) == 3  # once for each image, though two models are explained on it
    assert all(name.startswith("ThreadPoolExecutor") for name in names)


def test_an_error_ahead_is_raised_where_segments_are_needed(
    beside: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segmentation.CACHE.clear()
    monkeypatch.setattr(segmentation.Slic, "prepare", lambda self, picture: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ran(small(), tmp_path / "study")


def test_what_cannot_be_written_stops_the_run_and_keeps_the_rest(
    beside: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    real = engine.store

    def store(study: object, unit: engine.Unit, result: object) -> int:
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("no room")
        return real(study, unit, result)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "store", store)
    with pytest.raises(RuntimeError, match="no room"):
        ran(small(), tmp_path / "study")
    assert len(list((tmp_path / "study" / "scores").glob("*.parquet"))) == 2
    monkeypatch.setattr(engine, "store", real)
    finished, _ = ran(small(), tmp_path / "study")
    assert finished.computed == 4


def test_units_are_tasks_on_a_cpu_and_shares_on_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The units of the same inputs, whose segments serve several models, go to the same GPU."""
    study = ran(small(), tmp_path)[0].study
    names = [f"{name}.{number}" for name in ("First", "Second") for number in range(3)]
    stems = {unit.stem: f"{unit.model}.{unit.rows.start}" for unit in study.units}

    def tasks(device: str, cluster: Cluster | None = None) -> list[list[str]]:
        tasks = engine.unit_tasks(study, study.units, Machine(device), cluster)
        return [[stems[task]] if isinstance(task, str) else [stems[stem] for stem in task] for task in tasks]

    assert tasks("cpu") == tasks("cuda", Cluster()) == [[name] for name in names]
    assert tasks("cuda:0") == [names]
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert tasks("cuda") == [["First.0", "First.2", "Second.0", "Second.2"], ["First.1", "Second.1"]]
    monkeypatch.setattr("torch.cuda.device_count", lambda: 9)
    assert tasks("cuda") == [["First.0", "Second.0"], ["First.1", "Second.1"], ["First.2", "Second.2"]]
