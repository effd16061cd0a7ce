"""A Ray cluster: the same scores as on this machine, also when an actor is lost, and what is wrong is named alike."""

import importlib.util
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scale.doomed_metric import Doomed
from scale.lakes import ROWS, SmallLake, agrees
from verax.core.ray_engine import Cluster, connected

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # Ray warns of its own plans for the future
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]
METRICS = ["pc", Doomed()]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all tests, whose workers have this environment."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("RAY_TMPDIR", "/tmp")  # noqa: S108  # names of its sockets may not be long
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")  # else it kills workers where others fill the memory
        patch.setenv("DOOM", str(tmp_path_factory.mktemp("died")))
        cluster = Cluster(workers=2)
        with connected(cluster):
            yield cluster


def test_a_cluster_gives_the_same_scores_and_a_lost_actor_is_replaced(tmp_path: Path, cluster: Cluster) -> None:
    import os  # noqa: PLC0415

    died = Path(os.environ["DOOM"])
    lake = SmallLake(tmp_path)
    marked = pl.when(pl.int_range(pl.len()) == 5).then(2.5).otherwise("age").alias("age")
    lake.change("rows", 2, lambda table: table.with_columns(marked))
    for moment in ("row", "rename"):
        (died / moment).touch()  # the first run lives
    lake.score("here", metrics=METRICS)
    for moment in ("row", "rename"):
        (died / moment).unlink()
    scores = lake.score(metrics=METRICS, engine=cluster)
    assert scores.computed == ROWS
    assert {path.name for path in died.iterdir()} == {"row", "rename"}
    assert agrees(lake.table(), lake.table("here"))
    assert not list((lake.folder / "scores").glob(".*.part")) or lake.score(metrics=METRICS).computed == 0


def test_what_is_scored_is_left_out(tmp_path: Path, cluster: Cluster) -> None:
    """Whoever has scored it: some here, the others on the cluster."""
    lake = SmallLake(tmp_path)
    lake.score()
    before = lake.files()
    for name in sorted(before)[:2]:
        (lake.folder / "scores" / name).unlink()
        del before[name]
    assert lake.score(engine=cluster).computed == 24
    assert before.items() <= lake.files().items()
    assert agrees(lake.table(), lake.expected())
    assert lake.score(engine=cluster).computed == 0


def test_rows_and_files_that_are_bad_are_named(tmp_path: Path, cluster: Cluster) -> None:
    lake = SmallLake(tmp_path)
    lake.change("lime", 4, lambda table: table.with_columns(age=float("inf")))
    with pytest.raises(ValueError, match=r"lime/part-4\.parquet: attribution lime: expected a finite number"):
        lake.score(engine=cluster, metrics=["pc"])
    lake.change("lime", 4, lambda table: table.with_columns(age=0.5))
    content = lake.path("rows", 3).read_bytes()
    at = content.rindex(bytes.fromhex("28b52ffd"))
    lake.path("rows", 3).write_bytes(content[:at] + bytes(4) + content[at + 4 :])
    with pytest.raises(ValueError, match=r"rows/part-3\.parquet: cannot be read as \.parquet file"):
        lake.score(engine=cluster, metrics=["pc"])


def test_methods_are_computed_on_the_cluster(tmp_path: Path, cluster: Cluster) -> None:
    from verax.attribution import KernelShap  # noqa: PLC0415
    from verax.lakes import score_lake  # noqa: PLC0415

    lake = SmallLake(tmp_path)
    attributions: dict[str, Any] = {"kernel": KernelShap(samples=32)}
    tables = []
    for out, engine in (("here", 1), ("there", cluster)):
        score_lake(lake.problem(), tmp_path / "rows", attributions, tmp_path / out, ["pc"], engine=engine)
        tables.append(lake.table(out))
    assert agrees(*tables)
