"""A lake's scores are those of one call: joined by key, in the parts' order, stored once."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import calls
from lakes.lakes import FEATURES, NAMES, ROWS, SETTINGS, SmallLake, same, save_model
from verax.core.files import create_atomically
from verax.core.threads import one_thread_on_cpu
from verax.lakes import ModelFile, Settings, score_lake
from verax.lakes.result import LakeScores
from verax.metrics import Infidelity
from verax.statistics.intervals import estimates
from verax.statistics.totals import ScoreSums


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    return SmallLake(tmp_path)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> tuple[SmallLake, LakeScores]:
    """A lake that was scored, and what was found; not to be changed."""
    lake = SmallLake(tmp_path_factory.mktemp("scored"))
    return lake, lake.score()


def expected(lake: SmallLake, settings: Settings = SETTINGS) -> pl.DataFrame:
    with one_thread_on_cpu("cpu"):
        return lake.expected(settings)


def test_the_same_scores_as_one_call_bit_for_bit(scored: tuple[SmallLake, LakeScores]) -> None:
    """The attributions of lime are shuffled and cut otherwise than the rows."""
    lake, found = scored
    assert same(lake.table(), expected(lake))
    assert lake.table().columns == ["id", "attribution", "target", "pc", "dpc", "infidelity", "infidelity_se"]
    assert (found.rows, found.parts, found.computed) == (ROWS, 4, 4)


def test_parts_mirror_those_of_the_inputs_and_keep_their_order(scored: tuple[SmallLake, LakeScores]) -> None:
    lake, _ = scored
    for number in range(4):
        (path,) = (lake.folder / "scores").glob(f"part-{number}.*.parquet")
        rows = pl.read_parquet(lake.path("rows", number))["id"].to_list()
        table = pl.read_parquet(path)
        assert table["id"].to_list() == 2 * rows
        assert table["attribution"].to_list() == [name for name in NAMES for _ in rows]


def test_totals_are_means_over_all_rows(scored: tuple[SmallLake, LakeScores]) -> None:
    found, table = scored[1], scored[0].table()
    for metric in SETTINGS.chosen:
        for name in NAMES:
            own = torch.from_numpy(table.filter(pl.col("attribution") == name)[metric].to_numpy().copy())
            assert found.totals[name][metric] == ScoreSums.of(own)
            (wanted,) = estimates(own[None])
            assert found.mean(metric)[name].low == pytest.approx(wanted.low, rel=1e-12)
    text = str(found)
    assert "PC (higher is better)" in text
    assert f"Means over {ROWS} rows of 4 parts with 95 % intervals" in text


def test_nested_folders_are_mirrored_and_text_may_be_a_key(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    for name in ("rows", *NAMES):
        for path in sorted((tmp_path / name).iterdir()):
            table = pl.read_parquet(path).with_columns(pl.format("row {}", "id").alias("id"))
            (tmp_path / name / "day=1").mkdir(exist_ok=True)
            table.write_parquet(tmp_path / name / "day=1" / path.name)
            path.unlink()
    (tmp_path / "rows" / "_SUCCESS").touch()
    given = {name: str(tmp_path / name) for name in NAMES}
    lake.score_at(str(tmp_path / "rows/**/*.parquet"), given, str(tmp_path / "scores"))
    assert len(list((tmp_path / "scores" / "day=1").glob("part-*.parquet"))) == 4
    found = pl.read_parquet(tmp_path / "scores/**/*.parquet", hive_partitioning=False)
    assert same(found, expected(lake).with_columns(pl.format("row {}", "id").alias("id")))


def test_a_second_run_has_nothing_to_do(lake: SmallLake) -> None:
    lake.score()
    before = lake.parts()
    found = lake.score()
    assert (found.computed, lake.parts()) == (0, before)
    assert found.totals == lake.score("again").totals


def test_only_what_is_missing_damaged_or_out_of_date_is_scored_anew(lake: SmallLake) -> None:
    lake.score()
    before, wanted = lake.parts(), lake.table()
    names = sorted(before)
    (lake.folder / "scores" / names[0]).unlink()
    damaged = lake.folder / "scores" / names[1]
    damaged.write_bytes(damaged.read_bytes()[:-9] + b"otherwise")
    lake.change("shap", 2, lambda table: table.with_columns(age=pl.col("age") + 1))
    lines: list[str] = []
    found = lake.score(log=lines.append)
    assert found.computed == 3
    assert lake.parts()[names[3]] == before[names[3]]
    assert any(str(damaged) in line and "damaged" in line for line in lines)
    assert any(names[2] in line and "written anew since" in line for line in lines)
    ids = pl.read_parquet(lake.path("rows", 2))["id"]
    kept = ~pl.col("id").is_in(ids.implode())
    assert same(lake.table().filter(kept), wanted.filter(kept))
    assert not same(lake.table(), wanted)


def test_parts_may_be_added(lake: SmallLake) -> None:
    for name in ("rows", "shap"):
        lake.path(name, 3).rename(lake.folder / f"{name}-later")
    last = pl.read_parquet(lake.folder / "rows-later")["id"]
    for path in sorted((lake.folder / "lime").iterdir()):
        pl.read_parquet(path).filter(~pl.col("id").is_in(last.implode())).write_parquet(path)
    assert lake.score().computed == 3
    for name in ("rows", "shap"):
        (lake.folder / f"{name}-later").rename(lake.path(name, 3))
    extra = np.flatnonzero(np.isin(lake.keys, last.to_numpy()))
    columns = {"id": lake.keys[extra]} | {one: lake.attributions["lime"][extra, at] for at, one in enumerate(FEATURES)}
    pl.DataFrame(columns).write_parquet(lake.path("lime", 9))
    assert lake.score().computed == 1
    assert same(lake.table(), expected(lake))


def test_other_settings_in_the_same_folder_are_refused(lake: SmallLake) -> None:
    lake.score()
    before = lake.parts()
    with pytest.raises(ValueError, match=r"something else \(metrics: pc: PredictionChange\(.*, now pc: "):
        lake.score(settings=replace(SETTINGS, metrics=("pc",)))
    save_model(lake.model, seed=1)
    with pytest.raises(ValueError, match=r"something else \(model: m\.safetensors, SHA-256 .*, now m\.safetensors"):
        lake.score()
    assert lake.parts() == before


OTHERS: dict[str, tuple[Any, ...]] = {
    "another seed": ("pc", "dpc", Infidelity(samples=16, seed=7)),
    "fewer metrics": ("pc",),
    "fewer draws": ("pc", "dpc", Infidelity(samples=8)),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_a_folder_that_another_run_claims_meanwhile_is_refused(lake: SmallLake, other: tuple[Any, ...]) -> None:
    """The other one begins after this one has looked, and before it has written a word."""

    def log(line: str) -> None:
        if line.startswith("reading the keys"):
            lake.score()

    with pytest.raises(ValueError, match="holds scores of something else"):
        lake.score(settings=replace(SETTINGS, metrics=other), log=log)
    assert len(lake.parts()) == 4
    assert same(lake.table(), expected(lake))


def test_of_many_processes_one_claims_a_name(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(lambda word: create_atomically(tmp_path / "new" / "x", word), [b"a", b"b"] * 20))
    assert sum(claims) == 1
    assert (tmp_path / "new" / "x").read_bytes() == (b"a", b"b")[claims.index(True) % 2]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["x"]


def test_a_manifest_that_is_damaged_or_gone_is_refused(lake: SmallLake) -> None:
    lake.score()
    manifest = lake.folder / "scores" / "lake.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"format": 2}))
    with pytest.raises(ValueError, match=r"lake\.json: damaged or changed by hand"):
        lake.score()
    manifest.unlink()
    with pytest.raises(ValueError, match=r"but no lake\.json that says of what"):
        lake.score()


def test_empty_parts_are_passed_over(lake: SmallLake) -> None:
    for name in ("rows", "shap"):
        pl.read_parquet(lake.path(name, 0)).clear().write_parquet(lake.path(name, 9))
    lines: list[str] = []
    assert lake.score(log=lines.append).parts == 4
    assert any("part-9.parquet: has no rows" in line for line in lines)


@pytest.mark.parametrize("scheme", ["memory://lake", "local"])
def test_stores_that_are_no_folders_of_this_machine(lake: SmallLake, scheme: str) -> None:
    """Another code reads and writes them: pyarrow's, through fsspec."""
    fsspec = pytest.importorskip("fsspec")
    base = f"local://{lake.folder}/store" if scheme == "local" else scheme
    system, root = fsspec.core.url_to_fs(base)
    for name in ("rows", *NAMES):
        system.makedirs(f"{root}/{name}", exist_ok=True)
        for path in sorted((lake.folder / name).iterdir()):
            system.put_file(str(path), f"{root}/{name}/{path.name}")
    given = {name: f"{base}/{name}/part-*.parquet" for name in NAMES}
    try:
        found = lake.score_at(f"{base}/rows/*.parquet", given, f"{base}/scores")
        assert found.computed == 4
        assert lake.score_at(f"{base}/rows/*.parquet", given, f"{base}/scores").computed == 0
        tables = []
        for path in system.glob(f"{root}/scores/*.parquet"):
            with system.open(path) as file:
                tables.append(pl.read_parquet(file.read()))
        assert same(pl.concat(tables), expected(lake))
        assert not system.glob(f"{root}/scores/*.part")
    finally:
        system.rm(root, recursive=True)


def test_blocks_are_cut_where_one_call_cuts_its_work(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three batches in a part of 12 rows, in a file of this machine and in a store; and large attributions."""
    monkeypatch.setattr("verax.core.blocks._BATCHES", 1)
    monkeypatch.setattr("verax.lakes.gather._IN_MEMORY", 0)
    file = ModelFile(lake.model, batch_size=5)
    given = {name: str(lake.folder / name) for name in NAMES}
    for rows in (str(lake.folder / "rows"), f"local://{lake.folder}/rows"):
        out = lake.folder / rows.partition(":")[0].replace("/", "")
        score_lake(file, rows, given, str(out), settings=Settings(("pc",)), workers=1)
        for path in (lake.folder / "rows").iterdir():
            part = pl.read_parquet(path)
            at = [int(np.flatnonzero(lake.keys == key)[0]) for key in part["id"]]
            with one_thread_on_cpu("cpu"):
                one = calls.evaluate(
                    file.open(),
                    lake.values[at],
                    {name: array[at] for name, array in lake.attributions.items()},
                    ("pc",),
                    batch_size=5,
                )
            (own,) = out.glob(f"{path.stem}.*.parquet")
            assert pl.read_parquet(own).drop("id").equals(one.to_frame().drop("input"))
