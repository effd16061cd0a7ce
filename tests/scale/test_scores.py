"""A lake's scores are those of one call: joined by key, stored once, and of one job."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import verax
from scale.lakes import FEATURES, METRICS, NAMES, ROWS, SmallLake, agrees, same, save_model
from verax.core.files import create_atomically
from verax.lakes import BatchScorer, LakeScores
from verax.metrics import Infidelity
from verax.scale.lake import Join
from verax.statistics.intervals import estimates
from verax.statistics.sums import ScoreSums


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    return SmallLake(tmp_path)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> tuple[SmallLake, LakeScores]:
    """A lake that was scored, and its result; not to be changed."""
    lake = SmallLake(tmp_path_factory.mktemp("scored"))
    return lake, lake.score()


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    """What is logged."""
    caplog.set_level("INFO", logger="verax.lakes")
    return lambda: [record.getMessage() for record in caplog.records]


def test_the_same_scores_as_one_call_bit_for_bit(scored: tuple[SmallLake, LakeScores]) -> None:
    """The attributions of lime are shuffled and cut otherwise than the rows."""
    lake, scores = scored
    assert agrees(lake.table(), lake.expected())
    assert lake.table().columns == ["id", "attribution", "target", "pc", "dpc", "infidelity", "infidelity_se"]
    assert (scores.rows, scores.computed) == (ROWS, ROWS)


def test_a_file_holds_the_rows_of_one_part_in_their_order(scored: tuple[SmallLake, LakeScores]) -> None:
    """So that the bits of a run do not depend on who scored what, and when."""
    lake, _ = scored
    tables = [pl.read_parquet(path) for path in (lake.folder / "scores").glob("*.parquet")]
    parts = [pl.read_parquet(lake.path("rows", number))["id"].to_list() for number in range(4)]
    assert sorted(table["id"].to_list() for table in tables) == sorted(2 * rows for rows in parts)
    for table in tables:
        assert table["attribution"].to_list() == [name for name in NAMES for _ in range(len(table) // 2)]


def test_totals_are_means_over_all_rows(scored: tuple[SmallLake, LakeScores]) -> None:
    scores, table = scored[1], scored[0].table()
    for metric in scores.metrics:
        for name in NAMES:
            values = torch.from_numpy(table.filter(pl.col("attribution") == name)[metric].to_numpy().copy())
            assert scores.totals[name][metric] == ScoreSums.of(values)
            (expected,) = estimates(values[None])
            assert scores.mean(metric)[name].low == pytest.approx(expected.low, rel=1e-12)
    assert "PC (higher is better)" in str(scores)
    assert f"Means over {ROWS} rows with 95 % intervals" in str(scores)


def test_long_parts_are_cut_into_batches_whose_bits_are_those_of_one_call_each(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verax.scale.scoring._MOST_ROWS", 5)
    lake.score()
    cuts = [
        range(12 * part + start, min(12 * part + start + 5, 12 * part + 12))
        for part in range(4)
        for start in (0, 5, 10)
    ]
    expected = pl.concat([lake.expected(rows=list(rows)) for rows in cuts])
    assert len(lake.files()) == len(cuts)
    assert same(lake.table(), expected)


def test_nested_folders_and_text_as_a_key(lake: SmallLake) -> None:
    for name in ("rows", *NAMES):
        for path in sorted((lake.folder / name).iterdir()):
            table = pl.read_parquet(path).with_columns(pl.format("row {}", "id").alias("id"))
            (lake.folder / name / "day=1").mkdir(exist_ok=True)
            table.write_parquet(lake.folder / name / "day=1" / path.name)
            path.unlink()
    (lake.folder / "rows" / "_SUCCESS").touch()
    addresses = {name: str(lake.folder / name) for name in NAMES}
    lake.score_at(str(lake.folder / "rows/**/*.parquet"), addresses, str(lake.folder / "scores"))
    assert agrees(lake.table(), lake.expected().with_columns(pl.format("row {}", "id").alias("id")))


def test_a_second_run_has_nothing_to_do(lake: SmallLake) -> None:
    lake.score()
    before = lake.files()
    scores = lake.score()
    assert (scores.computed, lake.files()) == (0, before)
    assert scores.totals == lake.score("again").totals


def test_only_what_is_missing_damaged_or_out_of_date_is_scored_anew(lake: SmallLake, lines: Any) -> None:
    lake.score()
    before, expected = lake.files(), lake.table()
    by_rows = {tuple(pl.read_parquet(lake.folder / "scores" / name)["id"].unique().sort()): name for name in before}
    names = [by_rows[tuple(pl.read_parquet(lake.path("rows", number))["id"].sort())] for number in range(4)]
    (lake.folder / "scores" / names[0]).unlink()
    damaged = lake.folder / "scores" / names[1]
    damaged.write_bytes(damaged.read_bytes()[:-9] + b"otherwise")
    lake.change("shap", 2, lambda table: table.with_columns(age=pl.col("age") + 1))
    assert lake.score().computed == 36
    assert lake.files()[names[3]] == before[names[3]]
    assert any(f"{damaged}: damaged" in line for line in lines())
    assert any(names[2] in line and "attribution shap written since" in line for line in lines())
    kept = ~pl.col("id").is_in(pl.read_parquet(lake.path("rows", 2))["id"].implode())
    assert same(lake.table().filter(kept), expected.filter(kept))
    assert not same(lake.table(), expected)
    assert lake.score().computed == 0


def test_parts_may_be_added_and_taken_away(lake: SmallLake) -> None:
    for name in ("rows", "shap"):
        lake.path(name, 3).rename(lake.folder / f"{name}-later")
    last = pl.read_parquet(lake.folder / "rows-later")["id"]
    lake.change_all(lambda table: table.filter(~pl.col("id").is_in(last.implode())), "lime")
    assert lake.score().computed == 36
    for name in ("rows", "shap"):
        (lake.folder / f"{name}-later").rename(lake.path(name, 3))
    extra = np.flatnonzero(np.isin(lake.keys, last.to_numpy()))
    slopes = dict(zip(FEATURES, lake.attributions["lime"][extra].T, strict=True))
    columns = {"id": lake.keys[extra]} | slopes
    pl.DataFrame(columns).write_parquet(lake.path("lime", 9))
    assert lake.score().computed == 12
    assert agrees(lake.table(), lake.expected())
    for name, number in (("rows", 3), ("shap", 3), ("lime", 9)):
        lake.path(name, number).unlink()
    assert (lake.score().computed, len(lake.files())) == (0, 3)


def test_another_job_in_the_same_folder_is_refused(lake: SmallLake) -> None:
    lake.score()
    before = lake.files()
    for settings, message in [
        ({"metrics": ["pc"]}, r"another job \(metrics: pc: PredictionChange\(.*, now pc: "),
        ({"problem": lake.problem(target=1)}, r"another job \(target: None, now 1"),
        ({"problem": lake.problem(baselines=1.0)}, r"another job \(baselines: .*, now "),
        ({"problem": lake.problem(output="logit")}, r"another job \(output: probability.*, now logit"),
        ({"problem": lake.problem(replacement=verax.replacement.Nudge(0.5))}, r"\(replacement: .*, now .*Nudge"),
        ({"limits": True}, r"another job \(metrics: "),
    ]:
        with pytest.raises(ValueError, match=message):
            lake.score(**settings)
    save_model(lake.model, seed=1)
    with pytest.raises(ValueError, match=r"another job \(model: m\.safetensors, SHA-256 .*, now m\.safetensors"):
        lake.score()
    assert lake.files() == before


OTHERS: dict[str, tuple[Any, ...]] = {
    "another seed": ("pc", "dpc", Infidelity(samples=16, seed=7)),
    "fewer metrics": ("pc",),
    "fewer draws": ("pc", "dpc", Infidelity(samples=8)),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_a_folder_that_another_run_claims_meanwhile_is_refused(
    lake: SmallLake, other: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one begins after this one has looked, and before it has written a word."""
    check = Join.check

    def then_overtaken(join: Join) -> None:
        check(join)
        monkeypatch.setattr(Join, "check", check)
        lake.score()

    monkeypatch.setattr(Join, "check", then_overtaken)
    with pytest.raises(ValueError, match="holds scores of another job"):
        lake.score(metrics=other)
    assert len(lake.files()) == 4
    assert agrees(lake.table(), lake.expected())


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
    manifest.write_text(json.dumps(content | {"verax": "0"}))
    with pytest.raises(ValueError, match=r"lake\.json: damaged or of another version"):
        lake.score()
    manifest.unlink()
    with pytest.raises(ValueError, match=r"holds scores, without the lake\.json of their job"):
        lake.score()


def test_empty_parts_are_passed_over(lake: SmallLake) -> None:
    for name in ("rows", "shap"):
        pl.read_parquet(lake.path(name, 0)).clear().write_parquet(lake.path(name, 9))
    assert lake.score().computed == ROWS
    assert len(lake.files()) == 4


def test_a_scorer_that_cannot_be_told_the_columns_is_refused(lake: SmallLake) -> None:
    with pytest.raises(ValueError, match="expected a name for each column of its rows; pass a data frame, or names="):
        lake.score(problem=verax.Problem(torch.nn.Linear(4, 2), lake.values))


def test_a_problem_of_a_frame_in_another_order_and_a_model_without_a_file(lake: SmallLake) -> None:
    """Columns are found by name; the scores are those of the same problem about all rows."""
    model = torch.nn.Linear(4, 2)
    frame = pl.DataFrame(lake.values[:, ::-1].copy(), schema=list(FEATURES[::-1]))
    problem = verax.Problem(model, frame[:2], baselines="mean", background=frame)
    lake.score(problem=problem, metrics=["pc"])
    reversed_ = {name: values[:, ::-1].copy() for name, values in lake.attributions.items()}
    expected = verax.evaluate(problem.on(frame), reversed_, ["pc"]).to_frame()
    order = ["attribution", "id"]
    keyed = expected.select(pl.Series("id", lake.keys)[expected["input"]], pl.exclude("input"))
    np.testing.assert_allclose(lake.table().sort(order)["pc"], keyed.sort(order)["pc"], atol=1e-6)


def test_limits_are_those_of_one_call(lake: SmallLake) -> None:
    lake.score(metrics=["pc"], limits=True)
    attributions = {name: values[:12] for name, values in lake.attributions.items()}
    frame = verax.evaluate(lake.problem().on(lake.values[:12]), attributions, ["pc"]).with_limits().to_frame()
    assert set(lake.table().columns) == {"id", *frame.columns} - {"input"}


def test_a_batch_of_arrow_is_scored_as_evaluate_scores_it(lake: SmallLake) -> None:
    """What Spark's ``mapInArrow`` and others call."""
    pa = pytest.importorskip("pyarrow")
    columns = {name: lake.values[:, at] for at, name in enumerate(FEATURES)}
    for attribution, values in lake.attributions.items():
        columns |= {f"{attribution}:{name}": values[:, at] for at, name in enumerate(FEATURES)}
    batch = pa.RecordBatch.from_pydict({"id": lake.keys, **columns})
    (scores,) = BatchScorer(lake.problem(), NAMES, METRICS).batches([batch])
    assert scores.schema.field("attribution").type == pa.string()
    assert agrees(pl.DataFrame(scores), lake.expected())


@pytest.mark.parametrize("scheme", ["memory", "local"])
def test_stores_that_are_no_folders_of_this_machine(lake: SmallLake, scheme: str) -> None:
    """Other file systems, through fsspec; every file is written under another name and moved."""
    fsspec = pytest.importorskip("fsspec")
    base = f"local://{lake.folder}/store" if scheme == "local" else "memory://lake"
    system, root = fsspec.core.url_to_fs(base)
    for name in ("rows", *NAMES):
        system.makedirs(f"{root}/{name}", exist_ok=True)
        for path in sorted((lake.folder / name).iterdir()):
            system.put_file(str(path), f"{root}/{name}/{path.name}")
    addresses = {name: f"{base}/{name}/part-*.parquet" for name in NAMES}
    try:
        assert lake.score_at(f"{base}/rows/*.parquet", addresses, f"{base}/scores").computed == ROWS
        assert lake.score_at(f"{base}/rows/*.parquet", addresses, f"{base}/scores").computed == 0
        tables = [pl.read_parquet(system.cat_file(path)) for path in system.glob(f"{root}/scores/*.parquet")]
        assert agrees(pl.concat(tables), lake.expected())
        assert not [path for path in system.find(f"{root}/scores") if path.endswith(".part")]
    finally:
        system.rm(root, recursive=True)
