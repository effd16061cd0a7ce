"""Actors of a Ray cluster: the same bits as on this machine, also when one is lost."""

import warnings
from pathlib import Path

import polars as pl
import pytest

from lakes.lakes import SmallLake
from verax.core import extensions
from verax.lakes import Settings
from verax.metrics import Infidelity
from verax.study.ray_engine import Cluster

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
)


def test_a_cluster_gives_the_same_files_and_a_lost_actor_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    monkeypatch.setenv("RAY_TMPDIR", "/tmp")  # noqa: S108  # names of its sockets may not be long
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")  # else it kills workers where other work fills the memory
    lake = SmallLake(tmp_path)
    marked = pl.when(pl.int_range(pl.len()) == 5).then(2.5).otherwise("age").alias("age")
    lake.change("rows", 2, lambda table: table.with_columns(marked))
    died = tmp_path / "died"
    died.mkdir()
    for moment in ("row", "rename"):
        (died / moment).touch()  # the first run lives
    monkeypatch.setenv("DOOM", str(died))
    monkeypatch.setattr(extensions, "_loaded", [])
    extensions.load(["lakes.doomed_metric"])
    settings = Settings(("pc", "killer", Infidelity(samples=16)))
    lake.score("here", settings=settings)
    (died / "row").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray warns of its own plans for the future
        found = lake.score(settings=settings, cluster=Cluster(workers=2), workers=2)
    assert found.computed == 4
    assert (died / "row").exists()
    assert set(lake.parts()) == set(lake.parts("here"))  # names hold hashes of the contents
