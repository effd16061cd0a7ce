"""``verax audit`` as a person uses it: a model and data from files, cases, going on, and whatever can be wrong."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from verax.cli import app
from verax.cli.common import as_options

skl2onnx = pytest.importorskip("skl2onnx", reason="needs the extra onnx")

RUN = CliRunner()
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4)).astype(np.float32)
WEIGHTS = np.array([2.0, -1.5, 1.0, 0.5])
COLUMNS = ["age", "income", "debt", "cards"]
QUICK = ["--metric", "pc", "--metric", "srg", "--trial", "tells_apart"]
CASE = ["--case", "linear", "--metric", "pc", "--trial", "truth_wins", "--replacement", "baseline"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    model = LogisticRegression().fit(X, (X @ WEIGHTS + RNG.normal(size=40) > 0).astype(int))
    shape = [("x", skl2onnx.common.data_types.FloatTensorType([None, 4]))]
    converted = skl2onnx.to_onnx(model, initial_types=shape, options={id(model): {"zipmap": False}})
    (folder / "m.onnx").write_bytes(converted.SerializeToString())
    frame = pd.DataFrame(X, columns=COLUMNS)
    frame.to_parquet(folder / "x.parquet")
    sign = np.where(model.predict(X) == 1, 1.0, -1.0)[:, None]
    pd.DataFrame(sign * X * model.coef_[0], columns=COLUMNS).to_parquet(folder / "contributions.parquet")
    pd.DataFrame(RNG.normal(size=X.shape), columns=COLUMNS).to_parquet(folder / "lots.parquet")
    return folder


def invoke(*arguments):
    return RUN.invoke(app, ["audit", *(str(one) for one in arguments)])


def ran(*arguments):
    result = invoke(*arguments)
    assert result.exit_code == 0, result.stderr
    return result


def files(folder):
    return ["--model", folder / "m.onnx", "--inputs", folder / "x.parquet"]


def test_three_sentences_then_the_table(folder):
    lines = ran(*files(folder), *QUICK).stdout.splitlines()
    assert lines[0].startswith("Use ")
    assert all(line.endswith(".") for line in lines[:3])
    assert lines[4].startswith("metric")
    assert {line.split()[0] for line in lines[5:7]} == {"pc", "srg"}


def test_the_seed_is_that_of_the_draws(folder):
    asked = [*files(folder), "--metric", "infidelity", "--trial", "tells_apart", "--json"]
    values = [json.loads(ran(*asked, "--seed", seed).stdout)["findings"] for seed in (0, 0, 1)]
    assert values[0] == values[1] != values[2]


def test_given_explanations_are_rated(folder, tmp_path):
    given = ["--attributions", folder / "contributions.parquet", folder / "lots.parquet"]
    out = tmp_path / "audit"
    result = ran(*files(folder), *given, *QUICK, "--out", out)
    assert sorted(path.name for path in out.iterdir()) == ["audit.parquet", "pieces", "report.html"]
    table = pl.read_parquet(out / "audit.parquet")
    pair = table.filter(pl.col("trial") == "tells_apart: contributions from its permutation")
    assert pair["passed"].all()
    assert not table.filter(pl.col("trial") == "tells_apart: lots from its permutation")["passed"].any()
    assert "1 of 1" in result.stderr
    assert "(kept)" in ran(*files(folder), *given, *QUICK, "--out", out).stderr


def test_cases(tmp_path):
    page = tmp_path / "audit.html"
    result = ran(*CASE, "--out", page)
    assert "a constant added" in result.stdout
    assert "a constant added" in page.read_text()


def test_json():
    found = json.loads(ran(*CASE, "--json").stdout)
    assert found["blind_spots"] == {"pc": ["a constant added"]}
    assert len(found["sentences"]) == 3
    assert found["findings"][0]["metric"] == "pc"


def test_metrics_of_ones_own(tmp_path, monkeypatch):
    text = """
from dataclasses import dataclass
from verax.metrics import GuidedMetric, PredictionChange

@dataclass(frozen=True)
class Mine(GuidedMetric):
    name, higher_is_better, kind = "audited_mine", True, "baseline"
    experiment = PredictionChange().experiment

    def reduce(self, scores):
        return PredictionChange().reduce(scores)
"""
    (tmp_path / "audited_metrics.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    own = [*CASE[:2], "--import", "audited_metrics", "--metric", "audited_mine", *CASE[4:]]
    assert "audited_mine" in ran(*own).stdout


def test_stopped_with_ctrl_c_it_says_how_to_go_on(monkeypatch, tmp_path):
    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("verax.auditing.audit", interrupted)
    result = invoke(*CASE, "--out", tmp_path / "audit")
    assert result.exit_code == 130
    assert "Run the same again" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--metric", "pcc"], "--metric: expected"),
        (["--case", "linea"], "did you mean 'linear'"),
        (["--trial", "truth"], "trials: expected"),
        (["--inputs", "x.npy"], "--inputs: it belongs to a model"),
        (["--model", "m.onnx"], "--inputs: a model of your own needs rows"),
        (["--replacement", "blurr"], "did you mean 'blur'"),
        (["--output", "logits"], "--output: expected"),
    ],
)
def test_refusals_are_one_line(arguments, words):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_warnings_speak_of_options() -> None:
    advice = 'Pass background=train_inputs, verax.Scorer(model, returns="logits") or output="logit".'
    advice += ' Give the metric sigma="std", and the problem background=train_inputs.'
    assert as_options(advice) == (
        "Pass --background FILE, --returns logits or --output logit. Give --metric 'NAME(sigma=std)', and "
        "--background FILE."
    )
