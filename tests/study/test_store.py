"""The store: one table for every reader, costs that add up, and a cache that keeps to its room."""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
import torch
from filelock import FileLock

from study.studies import flip, scores, whole
from verax.core.files import Sealed
from verax.scoring.meter import Cost, Rows
from verax.study.results import read_results
from verax.study.run import run_study
from verax.study.store import Cache, Store, StoreError, read_facts, read_tables
from verax.study.study import open_study, versions
from verax.study.tables import COST_COLUMNS, UNCERTAINTY_SCHEMA, scores_schema

NAMES = ("dataset", "model", "modality", "method", "configuration")
ORDER = ["model", "configuration", "input"]


def plain(table: pl.DataFrame) -> pl.DataFrame:
    """Words as words, in an order that every reader can give."""
    return table.with_columns(pl.col(NAMES).cast(pl.String)).sort(ORDER)


@pytest.fixture(scope="module")
def wanted(finished: Path) -> pl.DataFrame:
    return plain(scores(finished, seconds=True))


def test_every_file_has_the_schema(finished: Path) -> None:
    schema = scores_schema(read_results(open_study(finished)).tables.metrics)
    for path in (finished / "scores").iterdir():
        assert pl.read_parquet(path).schema == dict(schema)
    for path in (finished / "uncertainty").iterdir():
        assert pl.read_parquet(path).schema == dict(UNCERTAINTY_SCHEMA)


def test_polars_reads_one_table(finished: Path, wanted: pl.DataFrame) -> None:
    for found in (
        pl.read_parquet(finished / "scores" / "*.parquet"),
        pl.scan_parquet(finished / "scores" / "*.parquet").collect(),
    ):
        assert plain(found).equals(wanted)


def test_pandas_reads_one_table(finished: Path, wanted: pl.DataFrame) -> None:
    found = pd.read_parquet(finished / "scores")
    found = found.astype(dict.fromkeys(NAMES, str)).sort_values(ORDER, ignore_index=True)
    assert list(found.columns) == wanted.columns
    for name in wanted.columns:
        assert found[name].tolist() == wanted[name].to_list(), name


def test_duckdb_reads_one_table(finished: Path, wanted: pl.DataFrame) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    query = f"SELECT * FROM '{finished}/scores/*.parquet' ORDER BY model, configuration, input"  # noqa: S608
    with duckdb.connect() as connection:
        asked = connection.execute(query)
        columns, rows = [one[0] for one in asked.description], asked.fetchall()
        mean = connection.execute(f"SELECT avg(pc) FROM '{finished}/scores/*.parquet'").fetchone()[0]  # noqa: S608
    assert columns == wanted.columns
    assert rows == wanted.rows()
    assert mean == pytest.approx(float(wanted["pc"].cast(pl.Float64).mean()))  # type: ignore[arg-type]


def test_costs_of_rows_sum_to_those_of_the_unit(finished: Path) -> None:
    for path in (finished / "scores").iterdir():
        table, facts = pl.read_parquet(path), read_facts(path)
        sums = {name: float(table[name].cast(pl.Float64).sum()) for name in COST_COLUMNS}
        total = {**facts, "attribution_rows_backward": facts["rows_backward"]}
        for name in COST_COLUMNS:
            assert sums[name] == pytest.approx(total[name], rel=1e-4), name
        rows = ("attribution_rows", "guided_rows", "sampled_rows")
        assert sum(facts[name] for name in rows) == facts["rows_forward"]
        assert 0 < facts["metric_model_seconds"] < facts["model_seconds"] < facts["seconds"]
        assert (facts["device"], facts["versions"]) == ("cpu", versions())
        assert facts["inputs"] * table["configuration"].n_unique() == table.height


def test_facts_are_plain_metadata_of_parquet(finished: Path) -> None:
    """Other tools read them too."""
    path = next((finished / "scores").iterdir())
    metadata = pq.read_metadata(path).metadata
    assert metadata is not None
    assert json.loads(metadata[b"verax"]) == read_facts(path)
    assert read_facts(path)["unit"] == Sealed.stem(path)


def test_results_are_in_the_order_of_the_study(finished: Path) -> None:
    found = read_results(open_study(finished))
    assert found.missing == ()
    assert [one.name for one in found.tables.models] == ["Cancer-Linear", "Cancer-MLP", "Digits-Linear"]
    assert [one.features for one in found.tables.models] == [30, 30, 64]
    assert [one.inputs for one in found.tables.models] == [10, 10, 3]
    assert found.tables.models[0].metrics["test"]["auroc"] > 0.9
    assert [one.model for one in found.examples] == ["Cancer-Linear", "Cancer-MLP", "Digits-Linear"]
    settings = dict(found.tables.settings)
    assert settings.pop("resampling") == {"samples": 16, "with_replacement": False}
    assert settings == whole().metrics.model_dump(exclude={"listed"})
    costs = found.tables.costs
    assert costs.height == 8
    assert costs["rows_forward"].sum() == sum(
        read_facts(path)["rows_forward"] for path in (finished / "scores").iterdir()
    )
    assert (costs["rows_forward_unshared"] > costs["rows_forward"]).all()


def test_no_files_make_an_empty_table() -> None:
    assert read_tables([]).is_empty()


def test_the_spec_survives_the_store(tmp_path: Path) -> None:
    facts = {"versions": versions(), "data": [], "models": [{"name": "ümlaut", "metrics": {"auroc": 1 / 3}}]}
    store = Store(tmp_path)
    store.freeze(whole(), facts)
    frozen = store.frozen()
    assert (frozen.spec.form(), frozen.facts) == (whole().form(), facts)


def test_the_lock_says_who_holds_it_and_forgets_who_was_killed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (tmp_path / ".owner").write_text("process 1 on a machine that is no more")
    with (
        store.lock(),
        pytest.raises(StoreError, match=f"process {os.getpid()} on .* works on this study"),
        store.lock(),
    ):
        pass
    with store.lock():
        pass
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize("package", ["altair", "tomli_w"])
def test_what_is_not_installed_is_told_before_any_work(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r"^a study needs .*: pip install 'verax\[study\]'$"):
        run_study(whole(), tmp_path / "study")
    assert not (tmp_path / "study").exists()


# The cache.


def key(number: int) -> str:
    return f"{number:064x}"


def kept(cache: Cache) -> set[int]:
    return {int(path.name.split(".")[0], 16) for path in cache.folder.glob("*.safetensors")}


def aged(cache: Cache, number: int, seconds: int) -> None:
    (path,) = cache.folder.glob(f"{key(number)}.*")
    os.utime(path, (seconds, seconds))


ENTRY = torch.arange(1000.0).reshape(10, 100)  # 4,000 bytes, and up to 1,024 to describe them
COST = Cost(Rows(7, 3), 0.25)


def test_the_cache_gives_back_the_same_bits(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "new", 10_000)
    values = torch.tensor([[0.1, -0.0, torch.inf, torch.nan]])
    cache.put(key(1), values, COST)
    found = cache.get(key(1), (1, 4))
    assert found is not None
    assert found[0].view(torch.int32).equal(values.view(torch.int32))
    assert found[1] == COST
    assert cache.get(key(2), (1, 4)) is None
    assert 0 < cache.size() < 10_000


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 3 * 5_024)
    for number in (1, 2, 3):
        cache.put(key(number), ENTRY, COST)
        aged(cache, number, 1000 + number)
    assert kept(cache) == {1, 2, 3}
    assert cache.get(key(1), (10, 100)) is not None  # used now
    cache.put(key(4), ENTRY, COST)
    assert kept(cache) == {1, 3, 4}
    aged(cache, 1, 1000)
    cache.put(key(5), ENTRY, COST)
    assert kept(cache) == {3, 4, 5}


def test_the_cache_never_takes_more_than_its_room(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 20_000)
    for number in range(20):
        cache.put(key(number), torch.zeros(1 + 37 * number % 1500), COST)
        assert cache.size() <= 20_000
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) == cache.size()
    assert len(kept(cache)) > 1


def test_too_large_ones_are_not_kept_and_push_nothing_out(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 6_000)
    cache.put(key(1), ENTRY, COST)
    cache.put(key(2), torch.zeros(1500), COST)
    assert kept(cache) == {1}


def test_without_room_nothing_is_written(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "none", 0)
    cache.put(key(1), torch.zeros(0), COST)
    assert cache.get(key(1), (0,)) is None
    assert cache.size() == 0
    assert not (tmp_path / "none").exists()


def test_damaged_entries_are_dropped(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1 << 20)
    for place in (0, 8, 40, 200, 2000, -1):
        cache.put(key(1), ENTRY, COST)
        (path,) = tmp_path.iterdir()
        flip(path, place, 3)
        assert cache.get(key(1), (10, 100)) is None
        assert not list(tmp_path.iterdir())


def test_entries_that_are_something_else_are_dropped(tmp_path: Path) -> None:
    """Whole files, as their names say, that are not what is asked for."""
    cache = Cache(tmp_path, 1 << 20)
    cache.put(key(1), ENTRY, COST)
    assert cache.get(key(1), (100, 10)) is None
    assert not list(tmp_path.iterdir())
    for content in (b"", b"no safetensors", bytes(100)):
        (tmp_path / Sealed.name(key(1), content, ".safetensors")).write_bytes(content)
        assert Cache(tmp_path, 1 << 20).get(key(1), (10, 100)) is None
        assert not list(tmp_path.iterdir())


def test_another_worker_may_drop_what_is_being_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path, 1 << 20)
    cache.put(key(1), ENTRY, COST)

    def gone(path: Path) -> None:
        path.unlink()
        raise FileNotFoundError(path)

    monkeypatch.setattr("os.utime", gone)
    found = cache.get(key(1), (10, 100))
    assert found is not None
    assert found[0].equal(ENTRY)


def test_names_hold_a_hash_of_the_content(tmp_path: Path) -> None:
    name = Sealed.name("a.b-c.000000-000004", b"content", ".parquet")
    assert name == "a.b-c.000000-000004.ed7002b439e9ac84.parquet"
    assert Sealed.stem(Path(name)) == "a.b-c.000000-000004"
    for other in ("a.parquet", "a.ed7002b439e9ac8.parquet", "a.ED7002B439E9AC84.parquet", ".ed7002b439e9ac84.parquet"):
        assert Sealed.stem(Path(other)) is None
    assert Sealed.read(tmp_path / name) is None
    (tmp_path / name).write_bytes(b"content")
    assert Sealed.read(tmp_path / name) == b"content"


def test_the_cache_lists_its_folder_now_and_then_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To list it at every put would take time that grows with the square of the number of files."""
    listed, real = 0, Cache._entries

    def entries(cache: Cache) -> Any:
        nonlocal listed
        listed += 1
        return real(cache)

    monkeypatch.setattr(Cache, "_entries", entries)
    cache = Cache(tmp_path, 160 * 4_500)
    for number in range(400):
        cache.put(key(number), ENTRY, COST)
        cache.get(key(number // 2), (10, 100))
    assert listed <= 1 + 16 * 3  # a sixteenth of the room at a time, and the room is filled less than three times
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= cache.limit


def test_the_cache_counts_what_others_add(tmp_path: Path) -> None:
    """Workers share the room; each counts the folder anew before it has written a sixteenth of it."""
    one, other = Cache(tmp_path, 32 * 5_024), Cache(tmp_path, 32 * 5_024)
    for number in range(100):
        (one if number % 2 else other).put(key(number), ENTRY, COST)
        assert Cache(tmp_path, 0).size() <= one.limit * (1 + 2 / 16)


def test_a_file_of_scores_is_read_once_by_a_run(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: Counter[str] = Counter()
    real = Sealed.read

    def counted(path: Path) -> bytes | None:
        read[path.name] += path.parent.name == "scores"
        return real(path)

    monkeypatch.setattr(Sealed, "read", staticmethod(counted))
    run_study(whole(), copied)
    study = open_study(copied)
    read.clear()
    for _ in range(3):
        read_results(study)
    assert set(read.values()) == {1, 0} or set(read.values()) == {1}
    flip(copied / "scores" / next(name for name, times in read.items() if times), 99)
    assert len(read_results(study).missing) == 1  # a file that changed is read again


def test_the_lock_is_of_the_file_that_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run may remove the file before it is locked here, and the lock of a removed file keeps nobody out."""
    real, tries = FileLock.acquire, []

    def late(lock: FileLock, **settings: Any) -> Any:
        found = real(lock, **settings)
        tries.append(1)
        if len(tries) == 1:
            (tmp_path / ".lock").unlink()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(FileLock, "acquire", late)
        held = Store(tmp_path).lock()
        held.__enter__()
    assert len(tries) == 2
    with pytest.raises(StoreError, match="works on this study"), Store(tmp_path).lock():
        pass
    held.__exit__(None, None, None)
