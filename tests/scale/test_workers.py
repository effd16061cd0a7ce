"""Worker processes: the same bits as one process; one that dies loses nothing and leaves no half file."""

from pathlib import Path

import polars as pl
import pytest

from scale.doomed_metric import Doomed
from scale.lakes import NAMES, ROWS, SmallLake, same
from verax.core.engine import TRIES
from verax.core.files import Sealed
from verax.core.folders import open_folder
from verax.lakes import BatchScorer
from verax.scale.run import BatchWriter


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallLake:
    """A lake with a row at which the metric may kill its process."""
    lake = SmallLake(tmp_path)
    marked = pl.when(pl.int_range(pl.len()) == 5).then(2.5).otherwise("age").alias("age")
    lake.change("rows", 2, lambda table: table.with_columns(marked))
    (tmp_path / "died").mkdir()
    monkeypatch.setenv("DOOM", str(tmp_path / "died"))
    return lake


def test_workers_that_die_are_replaced(lake: SmallLake) -> None:
    """One at a row, one between the last byte of a file and its name."""
    died = lake.folder / "died"
    (died / "row").touch()  # the first run lives
    lake.score("quiet", metrics=["pc", Doomed()])
    (died / "row").unlink()
    scores = lake.score(metrics=["pc", Doomed()], engine=2)
    assert scores.computed == ROWS
    assert {path.name for path in died.iterdir()} == {"row", "rename"}
    assert same(lake.table(), lake.table("quiet"))
    assert set(lake.files()) == set(lake.files("quiet"))  # names hold hashes of the contents
    for path in (lake.folder / "scores").glob("*.parquet"):
        assert Sealed.read(path) is not None
    lake.score(metrics=["pc", Doomed()])
    assert not list((lake.folder / "scores").glob(".*.part"))
    assert set(lake.table()["attribution"]) == set(NAMES)


def test_rows_that_kill_one_worker_after_the_other_are_named(lake: SmallLake) -> None:
    keys = pl.read_parquet(lake.path("rows", 2))["id"]
    message = rf"rows with id {keys[0]} to {keys[-1]}: {TRIES} worker processes died"
    with pytest.raises(ChildProcessError, match=message):
        lake.score(metrics=["pc", Doomed(again=True)], engine=2)
    finished = lake.files()
    lake.change("rows", 2, lambda table: table.with_columns(age=pl.lit(0.0)))
    assert lake.score(metrics=["pc", Doomed(again=True)]).computed == ROWS - 12 * len(finished)


def test_an_error_in_a_worker_is_raised_here_with_the_file(lake: SmallLake) -> None:
    lake.change("lime", 4, lambda table: table.with_columns(age=float("inf")))
    with pytest.raises(ValueError, match=r"lime/part-4\.parquet: attribution lime: expected a finite number"):
        lake.score(metrics=["pc"], engine=2)


def test_with_several_gpus_each_worker_has_its_own(lake: SmallLake) -> None:
    writer = BatchWriter(BatchScorer(lake.problem(device="cpu"), NAMES), open_folder("scores"))
    moved = writer.on_device("cuda:1")
    assert str(moved.scorer.problem.device) == "cuda:1"
    assert moved.on_gpu
    assert not writer.on_gpu
