"""``verax tune`` as a person uses it: models and data from files, going on with a search, and whatever can be wrong."""

import csv
import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from typer.testing import CliRunner

import calls
import verax
from verax.attribution import LimeTabular
from verax.cli import app
from verax.cli.tune import settings
from verax.models import load, save
from verax.paper.models import Linear
from verax.problem.inputs import Inputs
from verax.study.data_spec import configuration
from verax.tuning import measure

pytest.importorskip("optuna", reason="needs the extra tune")

RUN = CliRunner()
RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 4)).astype(np.float32)
COLUMNS = ["age", "income", "debt", "cards"]
QUICK = ["--methods", "gradient,SmoothGrad", "--trials", "3"]
BY_DPC = [*QUICK, "--metric", "dpc"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    batch = ({0: torch.export.Dim("batch")},)
    torch.export.save(torch.export.export(module, (torch.tensor(X[:3]),), dynamic_shapes=batch), folder / "m.pt2")
    own = Linear(4).build(seed=0)
    save(folder / "m.safetensors", own, Linear(4), dataset=None, hyperparameters={}, metrics={}, seed=0)
    np.save(folder / "x.npy", X)
    np.save(folder / "train.npy", RNG.normal(size=(30, 4)))
    np.save(folder / "labels.npy", np.arange(30) % 2)
    pd.DataFrame(X, columns=COLUMNS).to_csv(folder / "x.csv", index=False)
    shuffled = pd.DataFrame(X, columns=COLUMNS)[COLUMNS[::-1]]
    shuffled.to_csv(folder / "train.csv", index=False)
    return folder


def invoke(folder, *arguments, model="m.pt2", inputs="x.npy"):
    files = ["--model", folder / model, "--inputs", folder / inputs, "--trust-model"]
    return RUN.invoke(app, ["tune", *(str(one) for one in (*files, *arguments))])


def ran(folder, *arguments, **files):
    result = invoke(folder, *arguments, **files)
    assert result.exit_code == 0, result.stderr
    return result


def test_finds_prints_and_writes(folder, tmp_path):
    out = tmp_path / "tuned"
    result = ran(folder, *BY_DPC, "--out", out)
    assert result.stdout.startswith("Best: ")
    assert "3 trials" in result.stderr
    assert sorted(path.name for path in out.iterdir()) == [
        "best.json",
        "plot.html",
        "plot.svg",
        "table.csv",
        "trials.parquet",
    ]
    best = configuration(json.loads((out / "best.json").read_text()))
    assert f"Best: {best.canonical}\n" in result.stdout
    with (out / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3
    assert best.canonical in {row["configuration"] for row in rows}
    assert (out / "plot.svg").read_text().startswith("<svg")
    page = (out / "plot.html").read_text()
    assert 'src="http' not in page
    for path in out.iterdir():
        assert f"Saved as {path}" in result.stdout


def test_nothing_is_written_without_out(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran(folder, *QUICK)
    assert not list(tmp_path.iterdir())


def test_json_alone_is_on_the_standard_output(folder, tmp_path):
    result = ran(folder, *BY_DPC, "--json", "--out", tmp_path / "tuned")
    found = json.loads(result.stdout)
    assert found["trials"] == 3
    assert found["stopped"] == "trials"
    assert found["inputs"] == 24
    assert configuration(found["best"]).canonical == found["configuration"]
    assert found["scores"]["dpc"]["low"] <= found["scores"]["dpc"]["mean"] <= found["scores"]["dpc"]["high"]
    assert "Saved as" in result.stderr


def test_both_questions_are_asked_by_default(folder, tmp_path):
    out = tmp_path / "tuned"
    result = ran(folder, *QUICK, "--json", "--out", out)
    found = json.loads(result.stdout)
    for question in ("local", "baseline"):
        assert found[question]["answer"].startswith('For "what ')
        assert found[question]["code"].splitlines()[0].startswith("from verax.attribution import ")
        assert configuration(json.loads((out / "best.json").read_text())[question]) == configuration(
            found[question]["best"]
        )
    printed = ran(folder, *QUICK).stdout
    assert printed.count("Best: ") == 2
    assert printed.startswith('For "what would a small change of the input do", ')


def test_one_question_is_asked_alone(folder):
    found = json.loads(ran(folder, *QUICK, "--question", "baseline", "--json").stdout)
    assert list(found["scores"]) == ["effect_correlation_baseline"]
    assert configuration(found["best"]).canonical == found["configuration"]
    result = invoke(folder, *QUICK, "--question", "global")
    assert result.exit_code == 2
    assert "--question: expected one of 'local', 'baseline'" in result.stderr


def test_the_same_command_goes_on(folder, tmp_path):
    out = tmp_path / "tuned"
    ran(folder, "--methods", "SmoothGrad", "--methods", "vargrad", "--trials", "2", "--out", out)
    ran(folder, "--methods", "SmoothGrad,vargrad", "--trials", "4", "--out", out)
    assert pl.read_parquet(out / "trials.parquet").height == 4
    for name, value in {"seed": "1", "output": "logit"}.items():
        result = invoke(folder, "--methods", "SmoothGrad,vargrad", "--trials", "4", "--out", out, f"--{name}", value)
        assert result.exit_code == 2
        assert re.search(f"holds a search with another .*{name}", result.stderr)


def test_a_method_is_tried_with_the_settings_in_brackets_alone(folder):
    methods = "gradient,LimeTabular(samples=64, alpha=0.1)"
    found = json.loads(ran(folder, "--methods", methods, "--question", "local", "--json").stdout)
    assert found["trials"] == 2
    refused = invoke(folder, "--methods", "KernelShap(sample=64)")
    assert (refused.exit_code, refused.stderr.startswith("verax: --methods: KernelShap: sample: ")) == (2, True)


def test_several_metrics_give_the_front(folder):
    found = json.loads(
        ran(folder, *QUICK, *(part for name in ("dpc", "pc", "cost") for part in ("--metric", name)), "--json").stdout
    )
    assert list(found["scores"]) == ["dpc", "pc"]
    assert {"dpc", "pc", "cost", "configuration", "trial"} == set(found["pareto"][0])


def test_background_and_labels(folder):
    options = ["--methods", "IntegratedGradients,DeepLiftSHAP", "--background", folder / "train.npy", "--trials", "2"]
    result = ran(folder, *options, "--background-labels", folder / "labels.npy", model="m.safetensors")
    assert "Left out" not in result.stdout
    alone = invoke(folder, *options)
    assert alone.exit_code == 2
    assert "background_labels" in alone.stderr


def test_columns_of_tables_are_put_in_order(folder):
    options = ["--methods", "IntegratedGradients", "--trials", "8", "--background", folder / "train.csv", "--json"]
    options += ["--metric", "dpc"]
    by_table = json.loads(ran(folder, *options, inputs="x.csv").stdout)
    np.save(folder / "same.npy", X)
    options[5] = folder / "same.npy"
    by_array = json.loads(ran(folder, *options).stdout)
    assert by_table["configuration"] == by_array["configuration"]
    assert by_table["scores"]["dpc"]["mean"] == pytest.approx(by_array["scores"]["dpc"]["mean"], rel=1e-3)


def test_target_and_baseline(folder):
    one, other = (
        json.loads(ran(folder, *BY_DPC, "--target", "1", "--baseline", value, "--json").stdout)
        for value in ("0", "1.5")
    )
    assert one["scores"] != other["scores"]


def test_settings_of_the_metric_and_the_score_are_those_of_python(folder):
    options = ["--metric", "infidelity(sigma=std, effect=dot)", "--output", "logit"]
    given = ["--background", folder / "train.npy", "--features", folder / "groups.npy", "--target", "1"]
    np.save(folder / "groups.npy", np.array([0, 0, 1, -1]))
    found = json.loads(ran(folder, *QUICK, *options, *given, "--json", model="m.safetensors").stdout)
    train = np.load(folder / "train.npy").astype(np.float32)
    direct = calls.tune(
        verax.Scorer(load(folder / "m.safetensors").module, returns="logits"),
        Inputs(X, features=[0, 0, 1, -1]),
        ["gradient", "SmoothGrad"],
        trials=3,
        metric=verax.metrics.Infidelity(sigma="std", effect="dot"),
        background=train,
        target=1,
        output="logit",
    )
    assert found["scores"]["infidelity"]["mean"] == pytest.approx(direct.score.mean, rel=1e-6)
    assert found["configuration"] == direct.best.canonical


def test_a_black_box_takes_what_it_can(folder):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    weight, bias = np.ones((4, 2), np.float32) * [[1, -1]], np.zeros(2, np.float32)
    made = onnx.helper.make_graph(
        [onnx.helper.make_node("Gemm", ["x", "weight", "bias"], ["logits"])],
        "linear",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 4])],
        [onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", 2])],
        [onnx.numpy_helper.from_array(weight.astype(np.float32), "weight"), onnx.numpy_helper.from_array(bias, "bias")],
    )
    model = onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    result = ran(folder, "--trials", "2", "--returns", "logits", model="m.onnx")
    assert re.search(r"Best: (Lime|Occlusion|KernelShap|PermutationShap)", result.stdout)
    assert "Left out: Gradient" in result.stdout
    refused = invoke(folder, "--methods", "gradient", "--returns", "logits", model="m.onnx")
    assert refused.exit_code == 2
    assert "methods: Gradient needs gradients" in refused.stderr
    assert "LimeTabular" in refused.stderr


def test_ctrl_c_ends_with_what_was_done(folder, tmp_path, monkeypatch):
    whole = measure.Bench._measure

    def interrupted(self, candidates, rows):
        if max(one.number for one in candidates) >= 16:
            raise KeyboardInterrupt
        whole(self, candidates, rows)

    monkeypatch.setattr(measure.Bench, "_measure", interrupted)
    out = tmp_path / "tuned"
    result = invoke(folder, "--methods", "lime", "--trials", "20", "--out", out)
    assert result.exit_code == 130
    assert "it was interrupted" in result.stdout
    assert pl.read_parquet(out / "trials.parquet").height == 16
    monkeypatch.undo()
    ran(folder, "--methods", "lime", "--trials", "20", "--out", out)
    assert pl.read_parquet(out / "trials.parquet").height == 20


def test_ctrl_c_before_the_first_batch(folder, tmp_path, monkeypatch):
    def interrupted(self, candidates, rows):
        raise KeyboardInterrupt

    monkeypatch.setattr(measure.Bench, "_measure", interrupted)
    result = invoke(folder, *QUICK, "--out", tmp_path / "tuned")
    assert result.exit_code == 130
    assert "stopped" in result.stderr
    assert not (tmp_path / "tuned").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--metric", "fidelity"], "did you mean 'infidelity'? One of your own needs --import MODULE."),
        (["--methods", "lime,Gradeint"], "did you mean 'Gradient'? One of your own needs --import MODULE."),
        (["--import", "nobodys.code"], "--import: there is no module 'nobodys.code'"),
        (["--trials", "0"], "trials: expected a whole number of at least 1"),
        (["--seconds", "-1"], "seconds: expected a positive"),
        (["--target", "9"], "target: class 9 does not exist"),
        (["--target", "x"], "target: got the label 'x'"),
        (["--background", "nowhere.npy"], "nowhere.npy: there is no such file"),
        (["--background-labels", "labels"], "labels: expected a file that ends in"),
        (["--device", "toaster"], "device: expected a torch device"),
        (["--returns", "scores"], "--returns: expected one of 'logits', 'probabilities', 'values'"),
        (["--batch-size", "0"], "--batch-size: expected a whole number"),
        (["--baselines", "mean"], "--baselines: mean is one of the training data; pass --background FILE"),
        (["--metric", "infidelity(sigma=std)"], "--background FILE"),
        (["--output", "odds"], "--output: expected one of 'probability', 'logit'"),
        (["--metric", "infidelity(samples=0)"], "--metric: infidelity: samples: expected"),
        (["--missing", "never"], "--missing: expected one of 'allow', 'raise'"),
        (["--features", "colour"], "--features: expected a file of group numbers"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(folder, tmp_path, options, words):
    result = invoke(folder, *QUICK, "--out", tmp_path / "tuned", *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""
    assert not (tmp_path / "tuned").exists()


def test_files_that_are_not_there(folder, tmp_path):
    for files in ({"model": "none.pt2"}, {"inputs": "none.npy"}, {"model": "x.npy"}):
        result = invoke(folder, *QUICK, **files)
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 1
    (tmp_path / "file").write_text("")
    result = invoke(folder, *QUICK, "--out", tmp_path / "file")
    assert result.exit_code == 2
    assert "--out" in result.stderr


def test_settings_can_be_read_by_a_study():
    from verax.attribution import LimeImage, Slic  # noqa: PLC0415

    for one in (
        LimeTabular(alpha=0.5),
        LimeImage(segmenter=Slic(48, 4.0)),
        LimeImage(pixel_mean=(0.5,), pixel_std=(0.2,)),
    ):
        assert configuration(json.loads(json.dumps(settings(one)))) == one


def test_replacements_are_followed_and_are_part_of_the_search(folder, tmp_path):
    settings = [*QUICK, "--replacement", "conditional", "--metric", "pc", "--json"]
    found = json.loads(ran(folder, *settings, "--background", folder / "train.npy", "--out", tmp_path / "t").stdout)
    plain = json.loads(ran(folder, *QUICK, "--metric", "pc", "--json").stdout)
    assert found["scores"]["pc"]["mean"] != plain["scores"]["pc"]["mean"]
    train = np.load(folder / "train.npy")
    model = verax.Scorer(folder / "m.pt2", trust=True)
    problem = verax.Problem(model, X, background=train, replacement=verax.replacement.Conditional(train))
    wanted = verax.evaluate(problem, {"best": configuration(found["best"])}, ["pc"])["pc"].value["best"]
    assert found["scores"]["pc"]["mean"] == pytest.approx(wanted.mean(), rel=1e-4)
    other = invoke(folder, *QUICK, "--metric", "pc", "--background", folder / "train.npy", "--out", tmp_path / "t")
    assert (other.exit_code, "a search with another metric" in other.stderr) == (2, True)
    refused = invoke(folder, *QUICK, "--replacement", "marginal")
    assert (refused.exit_code, "pass --background FILE as well" in refused.stderr) == (2, True)
