"""``verax evaluate`` as a person uses it: every kind of file, every kind of model, and whatever can be wrong."""

import contextlib
import copy
import html
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jaxtyping
import numpy as np
import pandas as pd
import polars as pl
import pytest
import safetensors.torch
import torch
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import calls
import verax
from verax.cli import app
from verax.evaluation.ranking import REFERENCE
from verax.metrics.choose import QUESTIONS
from verax.models import save
from verax.paper.models import Linear

skl2onnx = pytest.importorskip("skl2onnx")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

RUN = CliRunner()
COLUMNS = ["age", "income", "debt", "cards"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4)).astype(np.float32)
LABELS = (X @ [1.0, -2.0, 0.5, 0.0] + RNG.normal(size=30) > 0).astype(int)
SKLEARN = LogisticRegression().fit(X, LABELS)
GRADIENT = np.repeat(SKLEARN.coef_, 30, axis=0)
ATTRIBUTIONS = {"gradient": GRADIENT, "contribution": GRADIENT * X, "noise": RNG.normal(size=(30, 4))}
FEW = ["--metric", "pc", "--metric", "dpc", "--metric", "infidelity(samples=20)"]
SETTINGS = [*FEW, "--target", "1"]


def torch_copy():
    module = torch.nn.Linear(4, 1)
    module.weight.data.copy_(torch.tensor(SKLEARN.coef_))
    module.bias.data.copy_(torch.tensor(SKLEARN.intercept_))
    return module


def scorer():
    return verax.Scorer(torch_copy(), returns="logits")


def onnx_of_torch():
    """One matrix product, with any number of columns as far as the file says."""
    weight, bias = SKLEARN.coef_.T.astype(np.float32), SKLEARN.intercept_.astype(np.float32)
    made = onnx.helper.make_graph(
        [onnx.helper.make_node("Gemm", ["x", "weight", "bias"], ["logits"])],
        "linear",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", "columns"])],
        [onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", 1])],
        [onnx.numpy_helper.from_array(weight, "weight"), onnx.numpy_helper.from_array(bias, "bias")],
    )
    return onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models and data, in every kind of file."""
    folder = tmp_path_factory.mktemp("files")
    exported = skl2onnx.to_onnx(SKLEARN, X[:1], options={"zipmap": False})
    (folder / "sklearn.onnx").write_bytes(exported.SerializeToString())
    (folder / "torch.onnx").write_bytes(onnx_of_torch().SerializeToString())
    batch = ({0: torch.export.Dim("batch")},)
    torch.export.save(torch.export.export(torch_copy(), (torch.tensor(X[:3]),), dynamic_shapes=batch), folder / "m.pt2")
    own = Linear(4).build(seed=0)
    own.load_state_dict(dict(zip(own.state_dict(), torch_copy().state_dict().values(), strict=True)))
    save(folder / "m.safetensors", own, Linear(4), dataset=None, hyperparameters={}, metrics={}, seed=0)
    np.save(folder / "x.npy", X)
    for name, values in ATTRIBUTIONS.items():
        np.save(folder / f"{name}.npy", values)
    return folder


def invoke(*arguments):
    """The command, with what a .pt2 file of one output needs: the user's trust, and what it gives."""
    given = list(map(str, arguments))
    exported = any(one.endswith("m.pt2") for one in given) and "--returns" not in given
    return RUN.invoke(app, ["evaluate", *given, "--trust-model", *(["--returns", "logits"] if exported else [])])


def ran(*arguments):
    found = invoke(*arguments)
    assert found.exit_code == 0, found.output
    return found


def paths(folder, suffix=".npy"):
    return [folder / f"{name}{suffix}" for name in ATTRIBUTIONS]


def scores(path):
    """The scores of each attribution but the random one that every comparison has beside them."""
    table = pl.read_parquet(path)
    names = set(table["attribution"]) - {REFERENCE}
    return {name: table.filter(pl.col("attribution") == name) for name in names}


def facts_of(*arguments):
    """What the command prints as JSON, but for the time that it took."""
    found = json.loads(ran(*arguments, "--json").stdout)
    assert found.pop("seconds") > 0
    return found


def expected(**settings):
    return calls.evaluate(scorer(), X, ATTRIBUTIONS, **({"samples": 20, "target": 1} | settings))


def test_the_command_of_the_design(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    out = tmp_path / "new" / "result.parquet"
    command = ["--model", "sklearn.onnx", "--inputs", "x.npy", "--attributions", "gradient.npy", "noise.npy", "--out"]
    found = ran(*command, out)
    lines = found.output.splitlines()
    twin = verax.compare(verax.Problem(SKLEARN, X), {name: ATTRIBUTIONS[name] for name in ("gradient", "noise")})
    assert [line.partition(",")[0] for line in lines[:2]] == [f'For "{question}"' for question in QUESTIONS.values()]
    assert [line.split(" (")[0] for line in lines[:2]] == [answer.split(" (")[0] for answer in twin.answers.values()]
    table = lines.index("") + 1
    assert [line.split()[0] for line in lines[table : table + 4]] == ["attribution", "gradient", "noise", "random"]
    assert lines[-1] == f"Saved as {out}"
    assert "\x1b" not in found.output
    table = pl.read_parquet(out)
    columns = [f"{name}{end}" for name in twin.metrics for end in ("", "_se")]
    assert table.columns == ["attribution", "input", "target", *columns]
    assert table["attribution"].to_list() == ["gradient"] * 30 + ["noise"] * 30 + [REFERENCE] * 30
    assert table["input"].to_list() == 3 * [*range(30)]
    assert table["target"].to_list() == 3 * SKLEARN.predict(X).tolist()
    assert [path.name for path in out.parent.iterdir()] == ["result.parquet"]


def test_every_form_of_the_option_gives_the_same(folder):
    a, b, c = paths(folder)
    start = ["--model", folder / "torch.onnx", "--inputs", folder / "x.npy", *SETTINGS]
    several = facts_of(*start, "--attributions", a, b, c)
    assert facts_of("--attributions", a, b, c, *start) == several
    assert facts_of(*start, "--attributions", a, "--attributions", b, "--attributions", c) == several
    assert facts_of("--attributions", a, *start, "--attributions", b, c) == several
    assert facts_of(*start, f"--attributions={a}", b, c) == several
    other = invoke(*start, "--inputs", folder / "x.npy", a, "--attributions", b)
    assert other.exit_code == 2
    assert "unexpected extra argument" in other.output


def test_copies_of_one_model_give_one_table(folder, tmp_path):
    tables = []
    for model in ("sklearn.onnx", "torch.onnx", "m.pt2", "m.safetensors"):
        out = tmp_path / f"{model}.parquet"
        command = ["--model", folder / model, "--inputs", folder / "x.npy", "--attributions", *paths(folder)]
        ran(*command, "--out", out, *SETTINGS)
        tables.append(scores(out))
    direct = calls.evaluate(SKLEARN, X, ATTRIBUTIONS, samples=20, target=1)
    for name in ATTRIBUTIONS:
        for metric in ("pc", "dpc", "infidelity"):
            wanted = direct[metric].value[name]
            assert np.ptp(wanted) > 1e-4
            for table in tables:
                np.testing.assert_allclose(table[name][metric], wanted, rtol=0, atol=1e-5)


def test_the_table_holds_what_evaluate_gives(folder, tmp_path):
    out = tmp_path / "r.parquet"
    command = ["--model", folder / "m.pt2", "--inputs", folder / "x.npy", "--attributions", *paths(folder)]
    settings = ["--target", "1", "--baseline", 0.5, "--batch-size", 11, "--device", "cpu"]
    few = ["pc(steps=3)", "dpc(steps = 3)", "infidelity(samples=20, sigma=0.1, seed=7)"]
    ran(*command, "--out", out, *settings, *(word for one in few for word in ("--metric", one)))
    direct = expected(steps=3, sigma=0.1, seed=7, baselines=0.5)
    for name, table in scores(out).items():
        for metric in ("pc", "dpc", "infidelity"):
            np.testing.assert_allclose(table[metric], direct[metric].value[name], rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(table["infidelity_se"], direct["infidelity"].standard_error[name], rtol=1e-4)


def write(folder, suffix):
    """Inputs and attributions in one kind of file; the columns of tables in another order."""
    for name, values in (("x", X), *ATTRIBUTIONS.items()):
        path = folder / f"{name}{suffix}"
        order = COLUMNS if name == "x" else sorted(COLUMNS)
        if suffix == ".npz":
            np.savez(path, whatever=values)
        elif suffix == ".safetensors":
            safetensors.torch.save_file({"whatever": torch.tensor(values)}, path)
        elif suffix == ".csv":
            pd.DataFrame(values, columns=COLUMNS)[order].to_csv(path, index=False)
        else:
            pd.DataFrame(values, columns=COLUMNS)[order].to_parquet(path, index=False)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".csv", ".parquet"])
def test_every_kind_of_file(folder, tmp_path, suffix):
    write(tmp_path, suffix)
    out = tmp_path / "out.parquet"
    command = ["--model", folder / "m.pt2", "--inputs", tmp_path / f"x{suffix}", "--out", out]
    ran(*command, "--attributions", *paths(tmp_path, suffix), "--target", "1", "--metric", "pc", "--metric", "dpc")
    direct = expected()
    for name, table in scores(out).items():
        assert table.columns == ["attribution", "input", "target", "pc", "dpc"]
        for metric in ("pc", "dpc"):
            np.testing.assert_allclose(table[metric], direct[metric].value[name], rtol=0, atol=1e-6)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_file_may_hold_several(folder, tmp_path, suffix):
    both, out = tmp_path / f"both{suffix}", tmp_path / "out.parquet"
    data, given = tmp_path / f"data{suffix}", {"labels": LABELS, "inputs": X}
    if suffix == ".npz":
        np.savez(both, **ATTRIBUTIONS)
        np.savez(data, **given)
    else:
        safetensors.torch.save_file({name: torch.tensor(one) for name, one in ATTRIBUTIONS.items()}, both)
        safetensors.torch.save_file({name: torch.tensor(one) for name, one in given.items()}, data)
    command = ["--model", folder / "m.pt2", "--inputs", data, "--attributions", both, "--out", out]
    ran(*command, *SETTINGS)
    assert set(scores(out)) == set(ATTRIBUTIONS)


def test_target_and_baseline_may_be_files(folder, tmp_path):
    np.save(tmp_path / "target.npy", LABELS)
    pd.DataFrame([[0.4, 0.3, 0.2, 0.1]], columns=COLUMNS[::-1]).to_csv(tmp_path / "baseline.csv", index=False)
    pd.DataFrame(X, columns=COLUMNS).to_csv(tmp_path / "x.csv", index=False)
    command = ["--model", folder / "m.pt2", "--inputs", tmp_path / "x.csv", "--attributions", *paths(folder)]
    files = ["--target", tmp_path / "target.npy", "--baseline", tmp_path / "baseline.csv"]
    ran(*command, *files, "--metric", "pc", "--out", tmp_path / "out.parquet")
    direct = expected(target=LABELS, baselines=np.array([0.1, 0.2, 0.3, 0.4]), metrics=["pc"])
    for name, table in scores(tmp_path / "out.parquet").items():
        assert table["target"].to_list() == LABELS.tolist()
        np.testing.assert_allclose(table["pc"], direct["pc"].value[name], rtol=0, atol=1e-6)


def test_columns_go_in_the_order_of_a_model_that_knows_their_names(tmp_path):
    data = verax.datasets.load_breast_cancer()
    shape = len(data.feature_names)
    module = Linear(shape).build(seed=0)
    save(tmp_path / "m.safetensors", module, Linear(shape), dataset=data, hyperparameters={}, metrics={}, seed=0)
    x = data.part("test")[0][:10]
    a = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    for name, values in (("x", x), ("a", a)):
        table = pd.DataFrame(values.numpy(), columns=list(data.feature_names))
        table[sorted(table.columns)].to_csv(tmp_path / f"{name}.csv", index=False)
    command = ["--model", tmp_path / "m.safetensors", "--inputs", tmp_path / "x.csv", "--metric", "pc"]
    ran(*command, "--attributions", tmp_path / "a.csv", "--out", tmp_path / "out.parquet")
    found = scores(tmp_path / "out.parquet")["a"]["pc"]
    np.testing.assert_allclose(
        found, calls.prediction_change(verax.Scorer(module, returns="logits"), x, a).value, rtol=0, atol=1e-6
    )


@pytest.mark.filterwarnings("ignore:output")
def test_notes_speak_of_options_and_attributions_keep_their_names(folder, tmp_path):
    np.save(tmp_path / "output.npy", (X - 2) * SKLEARN.coef_[0])  # of the way from another baseline
    files = ["--model", folder / "torch.onnx", "--inputs", folder / "x.npy", "--attributions", tmp_path / "output.npy"]
    said = ran(*files, "--returns", "logits", "--output", "logit", "--target", "1", "--metric", "pc").stdout
    assert "\noutput: its values sum to f(x)" in said
    assert "Pass what it was explained against as --baselines, or" in said
    sure = copy.deepcopy(SKLEARN)
    sure.coef_ = 1000 * sure.coef_
    made = skl2onnx.to_onnx(sure, X[:1], options={"zipmap": False})
    (tmp_path / "sure.onnx").write_bytes(made.SerializeToString())
    said = ran("--model", tmp_path / "sure.onnx", *files[2:-1], folder / "noise.npy").stdout
    assert "\n--output: the model is sure of" in said


def test_json_holds_the_rankings(folder):
    command = ["--model", folder / "m.pt2", "--inputs", folder / "x.npy", "--attributions", *paths(folder), *SETTINGS]
    found = json.loads(ran(*command, "--json").stdout)
    twin = calls.compare(scorer(), X, ATTRIBUTIONS, samples=20, target=1)
    assert (found["inputs"], found["level"], found["rows"]) == (30, 0.95, twin.evaluation.rows)
    for metric, told in found["metrics"].items():
        assert told["best"] == twin.best(metric)
        for one, other in zip(told["ranking"], twin.ranking(metric), strict=True):
            assert (one["place"], one["name"]) == (other.place, other.name)
            assert one["mean"] == pytest.approx(other.mean, rel=1e-4)
            assert (one["against_next"] or {}).get("word") == (other.against_next and other.against_next.word)


def test_json_of_one_input_has_no_nan(folder, tmp_path):
    np.save(tmp_path / "x.npy", X[:1])
    np.save(tmp_path / "a.npy", X[:1])
    command = ["--model", folder / "m.pt2", "--inputs", tmp_path / "x.npy", "--attributions", tmp_path / "a.npy"]
    found = json.loads(ran(*command, "--json").stdout, parse_constant=pytest.fail)
    assert found["metrics"]["effect_correlation"]["ranking"][0]["low"] is None
    ran(*command, "--report", tmp_path / "r.html")
    assert "<svg" in (tmp_path / "r.html").read_text()


def test_the_report_stands_alone(folder, tmp_path):
    command = ["--model", folder / "m.pt2", "--inputs", folder / "x.npy", "--attributions", *paths(folder), *SETTINGS]
    reports = [tmp_path / "one.html", tmp_path / "two.html"]
    for path in reports:
        found = ran(*command, "--report", path)
    page, again = (re.sub(r"model rows, \S+ s;", "model rows;", path.read_text()) for path in reports)
    assert page == again
    assert page.count("<svg") == 3 + 2 * 4  # a ranking of each metric, and the curves of PC and DPC
    assert not re.search(r"(?:src|href|url)\s*[=(](?![\"']?#)", page)  # but for parts of its own
    assert "<script" not in page
    text = html.unescape(page)
    sentences = [
        line.split(": ", 1)[1] for line in found.output.splitlines() if re.match("(PC|DPC|Infidelity): ", line)
    ]
    assert len(sentences) == 3 + 3  # each against the next under Infidelity, and the known limitations of each metric
    assert all(sentence in text for sentence in sentences)


def bad_files(folder: Path, good: Path) -> None:
    """What can be wrong with a file."""
    np.save(folder / "short.npy", X[:7])
    np.save(folder / "wide.npy", np.c_[X, X])
    np.save(folder / "nan.npy", np.where(np.isin(X, X[3, 2]), np.nan, X))
    np.save(folder / "words.npy", np.array(["a"] * 30))
    np.save(folder / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(folder / "two.npz", a=X, b=X)
    pd.DataFrame(X, columns=COLUMNS).to_csv(folder / "x.csv", index=False)
    pd.DataFrame(X, columns=COLUMNS).to_csv(folder / "index.csv")
    pd.DataFrame(X, columns=COLUMNS).to_csv(folder / "headless.csv", index=False, header=False)
    pd.DataFrame(X, columns=["age", "income", "height", "cards"]).to_csv(folder / "other.csv", index=False)
    pd.DataFrame(X, columns=["age", "income", "age", "cards"]).to_csv(folder / "twice.csv", index=False)
    pd.DataFrame(X, columns=COLUMNS).assign(age="old").to_csv(folder / "text.csv", index=False)
    pd.DataFrame(X, columns=COLUMNS).assign(age=[None, *X[1:, 0]]).to_parquet(folder / "gap.parquet", index=False)
    (folder / "header.csv").write_text(",".join(COLUMNS) + "\n")
    for name in ("junk.npy", "junk.npz", "junk.safetensors", "junk.parquet", "junk.onnx", "junk.pt2", "x.txt"):
        (folder / name).write_bytes(b"this is something else")
    (folder / "cut.npz").write_bytes((folder / "two.npz").read_bytes()[:300])
    (folder / "cut.npy").write_bytes((good / "noise.npy").read_bytes()[:100])
    (folder / "cut.parquet").write_bytes((folder / "gap.parquet").read_bytes()[:-50] + b"PAR1")
    np.save(folder / "classes.npy", np.full(30, 0.5))
    np.save(folder / "groups.npy", np.arange(7))
    (folder / "again").mkdir()
    (folder / "again" / "noise.npy").write_bytes((good / "noise.npy").read_bytes())
    (folder / "folder.parquet").mkdir()


WRONG = {
    "a missing model": ({"model": "no.onnx"}, "--model: there is no file"),
    "an unknown kind of model": ({"model": "x.npy"}, "x.npy: expected a model file that ends in .safetensors, .onnx"),
    "a pickled model": ({"model": "m.pkl", "inputs": "no.npy"}, "m.pkl: expected a model file that ends in"),
    "a LightGBM model that is none": ({"model": "x.txt"}, "x.txt: cannot be opened as LightGBM model"),
    "a model that is none": ({"model": "junk.onnx"}, "cannot be read as an ONNX model"),
    "an archive that is none": ({"model": "junk.pt2"}, "is no archive of torch.export"),
    "weights that are none": ({"model": "junk.safetensors"}, "not a safetensors file"),
    "inputs for another model": ({"inputs": "wide.npy"}, "wide.npy: {good}/m.pt2 cannot score rows of shape (8,)"),
    "inputs for another ONNX model": (
        {"inputs": "wide.npy", "model": "{good}/torch.onnx"},
        "wide.npy: {good}/torch.onnx cannot score rows of shape (8,)",
    ),
    "missing inputs": ({"inputs": "no.npy"}, "no.npy: there is no such file"),
    "inputs in an unknown kind of file": ({"inputs": "x.txt"}, "x.txt: expected a file that ends in .npy"),
    "inputs with NaN": ({"inputs": "nan.npy"}, "inputs: expected finite numbers, got nan in row 3"),
    "inputs of two arrays": ({"inputs": "two.npz"}, "expected one array, or one called inputs, got a, b"),
    "missing attributions": ({"attributions": "no.npy"}, "no.npy: there is no such file"),
    "attributions of other rows": ({"attributions": "short.npy"}, "short.npy: expected one row for each of the 30"),
    "attributions of other columns": ({"attributions": "wide.npy"}, "attributions['wide']: shape (30, 8)"),
    "attributions with NaN": ({"attributions": "nan.npy"}, "attributions['nan']: expected finite numbers"),
    "words": ({"attributions": "words.npy"}, "words.npy: expected numbers"),
    "pickled objects": ({"attributions": "pickled.npy"}, "pickled.npy: cannot be read as an .npy file"),
    "no array": ({"attributions": "junk.npy"}, "junk.npy: cannot be read as an .npy file"),
    "no archive": ({"attributions": "junk.npz"}, "junk.npz: cannot be read as an .npz file"),
    "half an archive": ({"attributions": "cut.npz"}, "cut.npz: cannot be read as an .npz file"),
    "half an array": ({"attributions": "cut.npy"}, "cut.npy: cannot be read as an .npy file"),
    "half a table": ({"attributions": "cut.parquet"}, "cut.parquet: cannot be read as .parquet file"),
    "no tensors": ({"attributions": "junk.safetensors"}, "junk.safetensors: cannot be read as .safetensors"),
    "no table": ({"attributions": "junk.parquet"}, "junk.parquet: cannot be read as .parquet file"),
    "one name twice": ({"attributions": "again/noise.npy"}, "a second attribution called 'noise'"),
    "a table of other columns": (
        {"inputs": "x.csv", "attributions": "other.csv"},
        "other.csv: expected the columns of {own}/x.csv; unknown height and missing debt",
    ),
    "an index": ({"inputs": "index.csv"}, "index.csv: column '' looks like an index"),
    "no header": ({"inputs": "headless.csv"}, "headless.csv: expected a header"),
    "a header alone": ({"inputs": "header.csv"}, "header.csv: expected rows of numbers, got 0 rows"),
    "a column twice": ({"inputs": "twice.csv"}, "twice.csv: expected each column once, got several called age"),
    "a column of words": ({"inputs": "text.csv"}, "text.csv: expected numbers, not so in age"),
    "a gap": ({"inputs": "gap.parquet"}, "gap.parquet: expected a number in every row, missing values in age"),
    "a folder to write to": ({"out": "folder.parquet"}, "--out: {own}/folder.parquet is a folder"),
    "no folder to write in": ({"out": "x.txt/r.parquet"}, "--out: {own}/x.txt/r.parquet cannot be written"),
    "another kind of output": ({"out": "r.csv"}, "--out: expected a file name that ends in .parquet"),
    "its own input": ({"inputs": "gap.parquet", "out": "gap.parquet"}, "--out: {own}/gap.parquet is also read"),
    "no folder for the report": ({"report": "x.txt/r.html"}, "--report: {own}/x.txt/r.html cannot be written"),
    "an unknown metric": ({"=metric": "area"}, "got 'area'. One of your own needs --import MODULE."),
    "a class that is none": ({"=target": "5"}, "target: class 5 does not exist"),
    "a class in words": ({"=target": "bad"}, "target: got the label 'bad', but the model does not know its labels"),
    "half a class": ({"target": "classes.npy"}, "classes.npy: expected class numbers"),
    "a baseline in words": ({"=baseline": "middle"}, "--baselines: expected a number, mean, median, mode, zero"),
    "a mean of nothing": ({"=baselines": "mean"}, "--baselines: mean is one of the training data; pass --background"),
    "a baseline that is missing": (
        {"=baselines": "missing"},
        "not known to take missing values; if it does, --missing",
    ),
    "a spread of nothing": ({"=metric": "infidelity(sigma=std)"}, "background"),
    "a spread in words": ({"=metric": "infidelity(sigma=wide)"}, "--metric: infidelity: sigma: expected"),
    "an unknown setting": ({"=metric": "pc(stepz=3)"}, "--metric: pc: stepz: PredictionChange has no such setting"),
    "half a short form": ({"=metric": "pc(steps"}, "--metric: expected NAME or NAME(SETTING=VALUE, ...), got pc(steps"),
    "an unknown method": ({"=method": "KernelShape"}, "did you mean 'KernelShap'? One of your own needs --import"),
    "a method's unknown setting": ({"=method": "KernelShap(n=3)"}, "--method: KernelShap: n: KernelShap has no such"),
    "a pattern": ({"=inputs": "rows/*.parquet"}, "--inputs: rows/*.parquet is a folder, a pattern or a URL"),
    "a folder": ({"inputs": "folder.parquet"}, "of many files; use verax lake."),
    "features in words": ({"=features": "groups"}, "--features: expected a file of group numbers"),
    "half a group": ({"features": "classes.npy"}, "classes.npy: expected whole numbers of groups"),
    "groups of another shape": ({"features": "groups.npy"}, "features: group numbers of shape (7,) do not fit"),
    "no draws": ({"=metric": "infidelity(samples=0)"}, "--metric: infidelity: samples: expected"),
    "an unknown score": ({"=output": "odds"}, "--output: expected one of 'probability', 'logit', got 'odds'"),
    "an unknown word for gaps": ({"=missing": "ignore"}, "--missing: expected one of 'allow', 'raise', got 'ignore'"),
    "a background of other columns": ({"background": "wide.npy"}, "background: expected rows like the inputs'"),
    "a missing baseline": ({"baseline": "no.npy"}, "no.npy: there is no such file"),
    "a baseline of another shape": ({"baseline": "wide.npy"}, "baselines: shape (30, 8) does not broadcast"),
    "no steps": ({"=metric": "pc(steps=0)"}, "steps: expected a whole number of at least 1"),
    "an unknown device": ({"=device": "abacus"}, "device: expected a torch device"),
    "unknown returns": (
        {"=returns": "labels"},
        "--returns: expected one of 'logits', 'probabilities', 'values', got 'labels'",
    ),
    "an impossible level": ({"=level": "95"}, "level: expected a number between 0 and 1"),
}


@pytest.fixture(scope="module")
def wrong(tmp_path_factory, folder):
    own = tmp_path_factory.mktemp("wrong")
    bad_files(own, folder)
    return own


@pytest.mark.parametrize(("changed", "message"), WRONG.values(), ids=WRONG.keys())
def test_whatever_is_wrong_is_one_line_and_writes_nothing(folder, wrong, changed, message, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it would answer before the library does
    given = {
        "model": folder / "m.pt2",
        "inputs": folder / "x.npy",
        "out": wrong / "r.parquet",
        "report": wrong / "r.html",
    }
    for name, value in changed.items():
        given[name.removeprefix("=")] = value if name[0] == "=" else wrong / value.format(good=folder)
    own = given.pop("attributions", folder / "gradient.npy")
    before = sorted(wrong.rglob("*"))
    options = [word for name, value in given.items() for word in (f"--{name}", value)]
    found = invoke(*options, "--attributions", folder / "noise.npy", own)
    assert found.exit_code == 2, found.output
    assert message.format(good=folder, own=wrong) in found.stderr
    assert found.stderr.startswith("verax: ")
    assert found.stderr.count("\n") == 1
    assert "Traceback" not in found.output
    assert found.stdout == ""
    assert sorted(wrong.rglob("*")) == before


def test_outputs_are_checked_before_the_model_is_opened(folder, wrong, monkeypatch):
    monkeypatch.setattr("verax.Scorer", lambda *_, **__: pytest.fail("the model was opened"))
    command = ["--model", folder / "m.pt2", "--inputs", folder / "x.npy", "--attributions", folder / "noise.npy"]
    assert invoke(*command, "--out", wrong / "x.txt" / "r.parquet").exit_code == 2


def test_a_folder_without_rights(folder, tmp_path, monkeypatch):
    def refuse(dir):  # noqa: A002  # as tempfile calls it
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)  # who is root may write anywhere
    command = ["--model", folder / "m.pt2", "--inputs", folder / "x.npy", "--attributions", folder / "noise.npy"]
    found = invoke(*command, "--out", tmp_path / "new" / "r.parquet")
    assert found.exit_code == 2
    assert found.stderr.endswith(f"cannot be written, no rights in {tmp_path}.\n")
    assert not list(tmp_path.iterdir())


def test_both_files_are_written_or_none(folder, tmp_path, monkeypatch):
    def full(content: bytes) -> None:
        raise OSError("No space left on device")

    real = verax.core.files.whole_or_nothing

    @contextlib.contextmanager
    def whole_or_nothing(to):
        with real(to) as file:
            yield SimpleNamespace(write=full) if to.suffix == ".html" else file

    monkeypatch.setattr("verax.core.files.whole_or_nothing", whole_or_nothing)
    command = ["--model", folder / "m.pt2", "--inputs", folder / "x.npy", "--attributions", folder / "noise.npy"]
    found = invoke(*command, "--out", tmp_path / "r.parquet", "--report", tmp_path / "r.html", *SETTINGS)
    assert (found.exit_code, found.stderr) == (2, "verax: No space left on device\n")
    assert not list(tmp_path.iterdir())


def test_the_settings_are_those_of_compare(folder, tmp_path):
    command = ["--model", folder / "m.pt2", "--inputs", folder / "x.npy", "--attributions", folder / "noise.npy"]
    short = "infidelity(perturbation=baseline, subset=2, normalize=false, seed=3, samples=20)"
    ran(*command, "--metric", short, "--target", "1", "--out", tmp_path / "r.parquet")
    direct = expected(metrics=["infidelity"], perturbation="baseline", subset=2, normalize=False, seed=3)["infidelity"]
    table = scores(tmp_path / "r.parquet")["noise"]
    np.testing.assert_allclose(table["infidelity"], direct.value["noise"], rtol=1e-4)
    np.testing.assert_allclose(table["infidelity_se"], direct.standard_error["noise"], rtol=1e-4)


def test_only_monte_carlo_errors_are_standard_errors(folder, tmp_path):
    command = ["--model", folder / "m.pt2", "--inputs", folder / "x.npy", "--attributions", folder / "noise.npy"]
    ran(*command, "--metric", "sensitivity_n", "--metric", "infidelity", "--out", tmp_path / "r.parquet")
    columns = pl.read_parquet(tmp_path / "r.parquet").columns
    assert columns[3:] == ["sensitivity_n", "infidelity", "infidelity_se"]


def test_help_and_missing_options():
    found = RUN.invoke(app, ["evaluate", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert "--attributions" in found.output
    assert invoke("--model", "m.onnx").exit_code == 2


def command(folder):
    return ["--model", folder / "m.safetensors", "--inputs", folder / "x.npy", "--attributions", *paths(folder)]


@pytest.mark.parametrize(
    ("words", "replacement"),
    [
        ("nudge:epsilon=0.1", verax.replacement.Nudge(0.1)),
        ("toward:epsilon=0.5", verax.replacement.Toward(0.5)),
        ("marginal:draws=3,seed=1", verax.replacement.Marginal(draws=3, seed=1)),
        ("conditional", verax.replacement.Conditional()),
    ],
)
def test_replacements_are_those_of_evaluate(folder, tmp_path, words, replacement):
    out = tmp_path / "r.parquet"
    background = ["--background", folder / "x.npy"]
    ran(*command(folder), "--metric", "pc", "--replacement", words, *background, "--out", out, "--target", "1")
    direct = calls.evaluate(scorer(), X, ATTRIBUTIONS, ["pc"], target=1, replacement=replacement, background=X)
    for name, table in scores(out).items():
        np.testing.assert_allclose(table["pc"], direct["pc"].value[name], rtol=1e-4, atol=1e-6)


def test_a_second_replacement_asks_whether_the_ranking_survives(folder, tmp_path):
    several = ["--replacement", "baseline", "--replacement", "toward:epsilon=0.5", "--replacement", "nudge:epsilon=0.1"]
    found = ran(*command(folder), "--metric", "pc", *several, "--target", "1", "--report", tmp_path / "r.html")
    assert "under Toward(epsilon=0.5)" in found.output
    facts = json.loads(ran(*command(folder), "--metric", "pc", *several, "--target", "1", "--json").output)
    assert facts["replacement"] == "Baseline"
    assert [one["other"] for one in facts["ranking_stability"]] == ["Toward(epsilon=0.5)", "Nudge(epsilon=0.1)"]
    assert "Does the ranking survive another replacement?" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nudje", "--replacement: expected baseline, toward, "),
        ("nudge", "--replacement: nudge needs epsilon; say nudge:epsilon=NUMBER."),
        ("conditional", "--replacement: conditional takes rows of the training data; pass --background FILE as well."),
        ("blur:sigma=2", "replacement: Blur is for images"),
    ],
)
def test_a_replacement_that_cannot_be_is_refused(folder, words, said):
    found = invoke(*command(folder), "--metric", "pc", "--replacement", words)
    assert found.exit_code == 2
    assert said in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_adaptive_steps_and_limits(folder, tmp_path):
    out = tmp_path / "r.parquet"
    settings = ["--limits", "--metric", "pc(steps=adaptive, tolerance=0.001)", "--target", "1"]
    found = ran(*command(folder), *settings, "--out", out)
    assert "of what is possible" in found.output
    direct = calls.evaluate(scorer(), X, ATTRIBUTIONS, ["pc"], target=1, steps="adaptive", tolerance=0.001, limits=True)
    frame = pl.read_parquet(out).filter(pl.col("attribution") != REFERENCE)
    assert frame.columns == direct.to_frame().columns
    np.testing.assert_allclose(frame["pc"], direct.to_frame()["pc"], rtol=1e-4, atol=1e-6)
    wrong = invoke(*command(folder), "--limits", "--metric", "infidelity(samples=20)")
    assert (wrong.exit_code, "limits: known of metrics that weigh" in wrong.stderr) == (2, True)


def test_the_distance_from_the_training_data_is_told(folder):
    start = [*command(folder), "--metric", "pc", "--target", "1", "--distance"]
    found = json.loads(ran(*start, "--background", folder / "x.npy", "--json").output)
    assert {one["space"] for one in found["distance"]} == {"inputs"}
    assert [one["attribution"] for one in found["distance"]] == ["", *ATTRIBUTIONS, REFERENCE]
    wrong = invoke(*start)
    assert (wrong.exit_code, "--distance: it is measured from the training data" in wrong.stderr) == (2, True)


def test_methods_are_computed_beside_files(folder, tmp_path):
    start = ["--model", folder / "m.safetensors", "--inputs", folder / "x.npy", "--target", "1", "--metric", "pc"]
    words = ["--method", "kernelshap", "--method", "LimeTabular(samples=256)"]
    out = tmp_path / "r.parquet"
    ran(*start, *words, "--attributions", folder / "noise.npy", "--out", out)
    methods = {
        "KernelShap": verax.attribution.KernelShap(),
        "LimeTabular(samples=256)": verax.attribution.LimeTabular(samples=256),
    }
    given = {"noise": ATTRIBUTIONS["noise"], **methods}
    direct = verax.evaluate(verax.Problem(scorer(), X, target=1), given, ["pc"])["pc"].value
    found = scores(out)
    assert set(found) == set(given)
    for name, table in found.items():
        np.testing.assert_allclose(table["pc"], direct[name], rtol=1e-4, atol=1e-6)
    alone = json.loads(ran(*start, *words, "--json").stdout)
    assert {one["name"] for one in alone["metrics"]["pc"]["ranking"]} == {*methods, REFERENCE}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--attributions, --method: expected a file or a method, got neither."),
        (["--method", "Gradient", "--method", "gradient"], "--method: a second attribution called Gradient."),
    ],
)
def test_something_must_be_rated_and_once(folder, words, said):
    found = invoke("--model", folder / "m.safetensors", "--inputs", folder / "x.npy", *words)
    assert (found.exit_code, found.stderr) == (2, f"verax: {said}\n")


GONE = ["steps", "tolerance", "samples", "sigma", "subset", "perturbation", "effect", "normalize", "seed"]


@pytest.mark.parametrize("option", GONE)
def test_settings_of_metrics_are_no_options(folder, option):
    found = invoke(*command(folder), f"--{option}", "3")
    assert (found.exit_code, f"No such option: --{option}" in found.stderr) == (2, True)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (
            "infidelity(perturbation=salt)",
            "infidelity: perturbation: expected one of 'gaussian', 'baseline', got 'salt'",
        ),
        ("pc(steps=many)", "pc: steps: expected a whole number of at least 1, or \"adaptive\", got 'many'"),
    ],
)
def test_words_that_a_setting_does_not_know(word, said):
    """In a process of its own, whose types nobody else checks."""
    command = ["evaluate", "--model", "m.onnx", "--inputs", "x.npy", "--attributions", "a.npy", "--metric", word]
    found = subprocess.run([sys.executable, "-m", "verax", *command], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (2, f"verax: --metric: {said}.\n")


def test_open_problem_is_what_the_command_opens(folder, tmp_path):
    pd.DataFrame(X, columns=COLUMNS).to_csv(tmp_path / "x.csv", index=False)
    problem = verax.open_problem(
        folder / "m.safetensors", tmp_path / "x.csv", target="1", baselines="mean", background=tmp_path / "x.csv"
    )
    assert problem.names == tuple(COLUMNS)
    np.testing.assert_allclose(problem.baselines[0], X.mean(0), rtol=1e-5)
    np.testing.assert_allclose(problem.scores(), SKLEARN.predict_proba(X)[:, 1], rtol=1e-4)
    np.testing.assert_allclose(problem.on(X[:3]).scores(), problem.scores()[:3], rtol=1e-4)
    with pytest.raises(ValueError, match=r"^baselines: mean is one of the training data; pass background=FILE as"):
        verax.open_problem(folder / "m.safetensors", folder / "x.npy", baselines="mean")
