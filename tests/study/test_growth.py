"""A finished study grows: what is stored is used again, what is new is computed, and both are one table."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import tomli_w
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import verax
from study.studies import HERE, SECONDS, TABLE_METHODS, agrees, content, ran, same, stamps, table
from study.tiny import tiny_content
from verax.cli import app
from verax.metrics import Infidelity, PredictionChange
from verax.study import engine
from verax.study.results import read_results
from verax.study.spec import StudySpec, parse_spec
from verax.study.store import StoreError, read_facts
from verax.study.study import open_study
from verax.study.tables import COST_COLUMNS
from verax.study.verify import verify

FEW = TABLE_METHODS[:4]
DRAWS = {"metric": "infidelity", "samples": 16}
READING = {"metric": "dpc", "order": "signed", "as": "dpc_signed"}
NOTHING = {"uncertainty": {"inputs": 0}, "examples": 0}


def asking(
    metrics: list[Any], others: list[dict[str, Any]] = FEW, further: dict[str, Any] = NOTHING, **settings: Any
) -> StudySpec:
    return parse_spec(content(table(others=others, **settings), metrics={"list": metrics}, **further), "small.toml")


def begun(trained: Path, folder: Path, asked: StudySpec) -> pl.DataFrame:
    """The table of a study that was begun with all that is asked, with the same models."""
    shutil.copytree(trained / "models", folder / "models")
    return measured(ran(asked, folder)[0].study)


def measured(study: Any) -> pl.DataFrame:
    """Scores in the order of the study, without what they cost."""
    return read_results(study).tables.scores.drop(COST_COLUMNS)


GROWTH: dict[str, tuple[StudySpec, StudySpec, int]] = {
    "a metric of draws": (asking(["pc"]), asking(["pc", DRAWS]), 3),
    "a metric before the others": (asking(["pc"]), asking([DRAWS, "pc"]), 3),
    "a reading": (asking(["pc", DRAWS]), asking(["pc", DRAWS, READING]), 3),
    "methods": (asking(["pc", DRAWS]), asking(["pc", DRAWS], TABLE_METHODS), 3),
    "a method among the others": (asking(["pc"], FEW[1:]), asking(["pc"], FEW), 3),
    "a metric and methods": (asking(["pc"]), asking(["pc", DRAWS], TABLE_METHODS), 6),
    "a metric and rows": (asking(["pc"], limit=8), asking(["pc", DRAWS], limit=12), 1 + 3),
    "a metric on some rows": (asking(["pc"]), asking(["pc", DRAWS | {"limit": 3}]), 1),
    "a higher limit": (asking(["pc", DRAWS | {"limit": 4}]), asking(["pc", DRAWS | {"limit": 9}]), 2),
    "no limit any more": (asking(["pc", DRAWS | {"limit": 4}]), asking(["pc", DRAWS]), 2),
    "a lower limit": (asking(["pc", DRAWS]), asking(["pc", DRAWS | {"limit": 5}]), 0),
}


@pytest.mark.parametrize(("first", "then", "computed"), GROWTH.values(), ids=GROWTH.keys())
def test_grown_is_begun_whole(first: StudySpec, then: StudySpec, computed: int, trained: Path, tmp_path: Path) -> None:
    ran(first, trained)
    before = stamps(trained)
    found, lines = ran(then, trained)
    assert (found.computed, lines) == (computed, [])
    assert before.items() <= stamps(trained).items()
    alike = same if first.data[0].attributions == then.data[0].attributions else agrees
    assert alike(measured(found.study), begun(trained, tmp_path / "whole", then))
    assert same(found.to_frame(), read_results(open_study(trained)).tables.scores)
    again, lines = ran(then, trained)
    assert (again.computed, lines) == (0, [])


def test_only_what_is_new_is_counted(trained: Path) -> None:
    """Attributions come from the cache and cost nothing again; without it they are computed and cost what they do."""
    ran(asking(["pc"]), trained)
    old = set((trained / "scores").iterdir())
    plain = shutil.copytree(trained, trained.parent / "plain")
    shutil.rmtree(plain / "attributions")
    ran(asking(["pc", DRAWS]), trained)
    ran(asking(["pc", DRAWS]), plain)
    for folder, explained in ((trained, False), (plain, True)):
        facts = [read_facts(path) for path in (folder / "scores").iterdir() if path.name not in {o.name for o in old}]
        assert sum(fact["inputs"] for fact in facts) == 10
        assert sum(fact["guided_rows"] for fact in facts) == 0
        assert sum(fact["sampled_rows"] for fact in facts) == 10 * (16 + 1)  # the draws, and the unperturbed inputs
        assert (sum(fact["attribution_rows"] for fact in facts) > 0) == explained
    whole = read_results(open_study(trained)).tables.scores
    assert whole["sampled_rows"].sum() == pytest.approx(10 * 17)
    assert whole["attribution_rows"].sum() == pytest.approx(
        sum(read_facts(path)["attribution_rows"] for path in old), rel=1e-5
    )


def test_a_metric_that_is_left_out_stays_on_disk(trained: Path) -> None:
    ran(asking(["pc", DRAWS]), trained)
    ran(asking(["pc", DRAWS, READING]), trained)
    files = stamps(trained)
    found, lines = ran(asking(["pc"]), trained)
    assert (found.computed, lines) == (0, [])
    assert not {"infidelity", "dpc_signed"} & set(found.to_frame().columns)
    found, lines = ran(asking([READING, "pc"]), trained)
    assert (found.computed, lines, stamps(trained)) == (0, [], files)
    assert found.to_frame()["dpc_signed"].null_count() == 0
    assert "infidelity" not in found.to_frame().columns


def test_a_name_means_one_metric(trained: Path) -> None:
    ran(asking(["pc", DRAWS]), trained)
    ran(asking(["pc"]), trained)
    for metrics in (["pc", DRAWS | {"samples": 17}], [{"metric": "pc", "steps": 3}]):
        with pytest.raises(
            StoreError, match=r"holds another study: metrics\.list\.(infidelity|pc)\.(samples|steps): expected \d+"
        ):
            ran(asking(metrics), trained)
    assert ran(asking(["pc", DRAWS | {"samples": 17, "as": "more"}]), trained)[0].computed == 3


def test_methods_cannot_be_left_out(trained: Path) -> None:
    ran(asking(["pc"]), trained)
    with pytest.raises(StoreError, match=r"holds another study: data\.0\.attributions"):
        ran(asking(["pc"], FEW[1:]), trained)


def test_verify_and_status_of_a_grown_study(trained: Path) -> None:
    ran(asking(["pc"]), trained)
    ran(asking(["pc", DRAWS, READING], TABLE_METHODS), trained)
    ran(asking(["pc", READING], TABLE_METHODS), trained)
    verdict = verify(open_study(trained), 1.0, HERE)
    assert (verdict.different, verdict.sampled, verdict.units, verdict.bitwise) == ((), 9, 9, True)
    status = CliRunner().invoke(app, ["study", "status", str(trained), "--json"])
    assert status.exit_code == 0, status.output
    assert '"finished": 9' in status.output
    assert '"strange": []' in status.output


def test_resampling_is_of_the_added_methods_only(trained: Path, tmp_path: Path) -> None:
    asked = {"examples": 2, "uncertainty": {"inputs": 4, "samples": 16, "sizes": [4, 16], "resamples": 4, "every": 1}}
    then = asking(["pc", DRAWS], TABLE_METHODS, asked)
    ran(asking(["pc", DRAWS], FEW, asked), trained)
    first = set((trained / "uncertainty").iterdir())
    ran(then, trained)
    files = set((trained / "uncertainty").iterdir())
    assert first < files
    (added,) = files - first
    assert pl.read_parquet(added)["configuration"].n_unique() == len(TABLE_METHODS) - len(FEW)
    begun(trained, tmp_path / "whole", then)
    grown, whole = (
        read_results(open_study(folder)).tables.uncertainty.sort("configuration", "draws")
        for folder in (trained, tmp_path / "whole")
    )
    assert grown.select("configuration", "draws").equals(whole.select("configuration", "draws"))
    np.testing.assert_allclose(grown["value"].to_numpy(), whole["value"].to_numpy(), rtol=1e-5)


def test_a_run_that_stops_while_it_grows_loses_nothing(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran(asking(["pc"]), trained)

    class Stopped(Exception):
        pass

    with monkeypatch.context() as patch:
        stored = engine.store
        calls = []

        def once(*arguments: Any) -> int:
            if calls:
                raise Stopped
            calls.append(1)
            return stored(*arguments)

        patch.setattr(engine, "store", once)
        with pytest.raises(Stopped):
            ran(asking(["pc", DRAWS]), trained)
    kept = stamps(trained)
    assert len(kept) == 4
    assert read_results(open_study(trained)).missing
    found, lines = ran(asking(["pc", DRAWS]), trained)
    assert (found.computed, lines) == (2, [])
    assert kept.items() <= stamps(trained).items()


@pytest.mark.usefixtures("real_report")
def test_a_spec_file_grows(tmp_path: Path) -> None:
    path, out = tmp_path / "tiny.toml", tmp_path / "study"
    asked = tiny_content(tmp_path / "data", 2)
    counts = []
    for metrics in (["pc"], ["pc", DRAWS]):
        path.write_text(tomli_w.dumps({**asked, "metrics": {"list": metrics}}))
        dry = CliRunner().invoke(app, ["study", "run", str(path), "--out", str(out), "--dry-run"])
        assert dry.exit_code == 0, dry.output
        found = CliRunner().invoke(app, ["study", "run", str(path), "--out", str(out), "--workers", "1"])
        assert found.exit_code == 0, found.output
        counts.append(("2 of 4 units to compute" in dry.output, "2 units computed" in found.output))
    assert counts == [(False, True), (True, True)]
    assert "Infidelity" in (out / "report.html").read_text()


def test_objects_of_a_program_grow(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    y = x @ [3.0, 1.0, 0.0] > 0
    model = LogisticRegression().fit(x, y)

    def study(folder: Path, metrics: list[Any], methods: list[Any]) -> Any:
        common: dict[str, Any] = {"models": {"own": model}, "data": (x, y), "examples": 0}
        return verax.run_study(out=folder, metrics=metrics, attributions=methods, **common)

    random, occlusion = verax.attribution.Random(), verax.attribution.Occlusion()
    assert study(tmp_path / "grown", [PredictionChange()], [random]).computed == 1
    grown = study(tmp_path / "grown", [PredictionChange(), Infidelity(samples=8)], [occlusion, random])
    assert grown.computed == 2
    whole = study(tmp_path / "whole", [PredictionChange(), Infidelity(samples=8)], [occlusion, random])
    assert same(*(one.to_frame().drop(COST_COLUMNS) for one in (grown, whole)))
    assert set(SECONDS) < set(grown.to_frame().columns)
