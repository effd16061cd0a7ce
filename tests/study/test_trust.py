"""Whether a study's numbers can be trusted: asked once, kept, resumed, and the same as anybody's own calls."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression

import calls
import verax
from study.conftest import _quick
from study.studies import HERE, LINEAR, MLP, flip, images, ran, spec, table, whole
from verax.report import facts
from verax.report.view import View
from verax.study.compute import explain
from verax.study.results import read_results
from verax.study.run import plan_study
from verax.study.spec import SpecError, StudySpec
from verax.study.study import Study, open_study
from verax.study.tables import BEST_BY, Trust

ASKED = {"inputs": 9, "limit_rows": 2**14, "trials": ["tells_apart"]}


def asking(**changed: Any) -> StudySpec:
    """The study that is run once for all tests, with questions."""
    return spec(table(LINEAR, MLP), images(), trust=ASKED | changed)


@pytest.fixture(scope="module")
def asked(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished study, asked later; not to be changed."""
    folder = tmp_path_factory.mktemp("asked") / "study"
    shutil.copytree(finished, folder)
    with pytest.MonkeyPatch.context() as patch:
        _quick(patch, report=False, pace=False)
        found, lines = ran(asking(), folder)
    assert (found.computed, lines) == (0, [])  # no score is computed again
    return folder


@pytest.fixture(scope="module")
def study(asked: Path) -> Study:
    return open_study(asked)


@pytest.fixture(scope="module")
def trust(study: Study) -> Trust:
    found = read_results(study).tables.trust
    assert found is not None
    return found


def names(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "trust").iterdir()}


def best(study: Study, column: str) -> str:
    """The best configuration of the network by the mean of a column, references left out, read from the scores."""
    scores = read_results(study).tables.scores.filter(pl.col("model") == "Cancer-MLP", pl.col("method") != "Random")
    means = scores.group_by("configuration", maintain_order=True).agg(pl.col(column).cast(pl.Float64).mean())
    return str(means.sort(column, descending=True, maintain_order=True)["configuration"][0])


def test_the_distance_is_that_of_a_direct_call(study: Study, trust: Trust) -> None:
    model, rows = study.models["Cancer-MLP"], slice(0, 9)
    name = best(study, "dpc_magnitude")
    (method,) = [one for one in model.configurations if one.canonical == name]
    given = explain(model, [method], rows, HERE, study.store.cache(0.0)).values
    metrics = {"dpc_magnitude": study.metrics["dpc_magnitude"]}
    found = calls.evaluate(
        model.scorer(False), model.inputs[rows], given, metrics, background=model.background, distance=True
    )
    assert found.distance is not None
    wanted = found.distance.to_frame().sort("metric", "space")
    own = trust.distance.filter(pl.col("model") == "Cancer-MLP", pl.col("metric").is_in(["", "dpc_magnitude"]))
    assert own["inputs"].unique().to_list() == [9]
    assert own["replacement"].unique().sort().to_list() == ["", "Baseline"]
    columns = ["metric", "configuration", "space", "ratio", "beyond", "low", "high"]
    own = own.sort("metric", "space").select(columns).rename({"configuration": "attribution"})
    assert own.equals(wanted)
    assert set(own["space"]) == {"inputs", "features"}


def test_shares_of_the_possible_are_those_of_a_direct_call(study: Study, trust: Trust) -> None:
    model, name = study.models["Cancer-MLP"], best(study, "dpc_magnitude")
    (row,) = trust.limits.filter(pl.col("model") == "Cancer-MLP", pl.col("metric") == "dpc_magnitude").to_dicts()
    metrics = {name: metric for name, metric in study.metrics.items() if name.startswith(("pc", "dpc"))}
    with pytest.warns(UserWarning, match="model rows allow those of"):
        limits = calls.limits(model.scorer(False), model.inputs[:9], metrics=metrics, rows=2**14)["dpc_magnitude"]
    scores = read_results(study).tables.scores.filter(pl.col("model") == "Cancer-MLP")
    by_input = dict(scores.filter(pl.col("configuration") == name).select("input", "dpc_magnitude").iter_rows())
    known = [by_input[model.rows[place]] for place in limits.inputs]
    assert (row["configuration"], row["inputs"], row["exact"]) == (name, len(known), limits.exact)
    assert row["score"] == pytest.approx(sum(known) / len(known), rel=1e-6)
    possible = limits.best_scores[limits.inputs].maximum(limits.best_scores.new_tensor(known))
    assert row["possible"] >= float(possible.mean()) - 1e-7
    assert row["share"] == pytest.approx(row["score"] / row["possible"], rel=1e-6)  # chance is 0
    assert row["low"] <= row["share"] <= row["high"]


def test_the_audit_is_that_of_a_direct_call(study: Study, trust: Trust) -> None:
    model = study.models["Cancer-MLP"]
    by_name = {one.canonical: one for one in model.configurations}
    given = {f"{BEST_BY}{column}": by_name[best(study, column)] for column in ("pc", "dpc_magnitude")}
    found = calls.audit(
        model.scorer(False),
        model.inputs[:9],
        given,
        metrics=dict(study.metrics),
        replacements=["baseline"],
        trials=["tells_apart"],
        background=model.background,
        background_labels=model.labels,
    )
    own = trust.audits["Cancer-MLP"]
    assert own.to_frame().equals(found.to_frame())
    assert (own.sentences, own.notes, own.inputs, own.rows) == (found.sentences, found.notes, 9, found.rows)
    assert own.known_limitations == found.known_limitations


def test_what_cannot_be_asked_says_why(trust: Trust) -> None:
    (digits,) = (lines for model, lines in trust.left_out.items() if model == "Digits-Linear")
    assert [line.split(":")[0] for line in digits] == ["inputs", "limits"]
    assert "expected at least 8" in digits[0]
    assert "not asked of images" in digits[1]
    assert set(trust.distance["model"]) == {"Cancer-Linear", "Cancer-MLP", "Digits-Linear"}
    assert set(trust.audits) == set(trust.limits["model"]) == {"Cancer-Linear", "Cancer-MLP"}


def test_one_answer_that_is_gone_is_asked_again_alone(asked: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(asked, tmp_path / "study"))
    before = names(folder)
    (gone,) = (name for name in before if name.startswith("Cancer-MLP.distance."))
    (folder / "trust" / gone).unlink()
    assert plan_study(asking(), folder).trust_questions == 1
    late = read_results(open_study(folder)).tables.trust
    assert late is not None
    assert late.left_out["Cancer-MLP"] == ("distance: not asked yet; run the study to the end.",)
    ran(asking(), folder)
    after = names(folder)
    assert set(after) == set(before)  # a name holds the hash of the content
    assert [name for name in after if after[name] != before[name]] == [gone]
    assert plan_study(asking(), folder).trust_questions == 0


def test_a_damaged_answer_is_named_and_asked_again(
    asked: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(asked, tmp_path / "study"))
    (path,) = (folder / "trust").glob("Cancer-Linear.limits.*")
    flip(path, 30)
    ran(asking(), folder)
    said = f"trust/{path.name}: damaged: its content is not what its name says; moved to set-aside/{path.name}"
    assert said in capfd.readouterr().err.splitlines()
    assert path.is_file()


def test_nothing_is_asked_unless_the_spec_says_so(finished: Path) -> None:
    assert not (finished / "trust").exists()
    assert read_results(open_study(finished)).tables.trust is None
    assert plan_study(whole(), finished).trust_questions == 0


def test_the_plan_counts_the_questions(tmp_path: Path) -> None:
    plan = plan_study(asking(), tmp_path)
    assert plan.facts()["trust_questions"] == 3 * 3
    assert "  then 9 questions whether the numbers can be trusted, not in the time below" in plan.lines()


def test_contributions_of_a_linear_model_attain_all_that_is_possible(tmp_path: Path) -> None:
    """Theorem 1 of the paper, in a study of objects; both other questions are answered, too."""
    x = np.random.default_rng(0).normal(size=(60, 3))
    y = x @ [3.0, 1.0, -2.0]
    methods = [verax.attribution.Occlusion(), verax.attribution.Random()]
    models = {"line": LinearRegression().fit(x, y)}
    found = verax.run_study(models=models, data=(x, y), attributions=methods, metrics=["pc"], out=tmp_path, trust=8)
    trust = read_results(found.study).tables.trust
    assert trust is not None
    (row,) = trust.limits.to_dicts()
    assert (row["share"], row["exact"], row["inputs"]) == (pytest.approx(1.0), True, 8)
    assert row["score"] == pytest.approx(row["possible"])
    assert trust.distance["metric"].to_list() == ["", "pc"]
    assert list(trust.audits) == ["line"]


def test_mistakes_in_the_table_are_named() -> None:
    with pytest.raises(SpecError, match=r"trust\.trials\.0: trial: expected .*, got 'tells'.* needs --import MODULE"):
        asking(trials=["tells"])
    with pytest.raises(SpecError, match=r"trust\.input: no such key; expected one of inputs, limit_rows, trials\."):
        asking(input=3)


def test_the_section_shows_the_tables(study: Study, trust: Trust) -> None:
    shown = facts.trust(View(read_results(study).tables, ()))
    assert shown is not None
    assert [audit["model"] for audit in shown["audits"]] == ["Cancer-Linear", "Cancer-MLP"]
    assert (len(shown["distance"].rows), len(shown["limits"].rows)) == (trust.distance.height, trust.limits.height)
    assert any(line.startswith("Digits-Linear: limits: not asked of images") for line in shown["left_out"])
    said = " ".join(sentence for audit in shown["audits"] for sentence in audit["sentences"])
    assert "dpc_magnitude" not in said  # metrics have the names that people read
    assert f"{BEST_BY}PC" in said or f"{BEST_BY}DPC" in said
