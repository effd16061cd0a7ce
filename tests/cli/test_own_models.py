"""Models of every kind of file on the command line, and the dead ends that once were there: regressors, NaN, scales."""

import json
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from typer.testing import CliRunner, Result

import calls
import verax
from verax.cli import app
from verax.problem.inputs import Inputs

pytestmark = pytest.mark.filterwarnings("ignore:DPC ranks features by")  # of raw units, as files have them

skops = pytest.importorskip("skops.io", reason="needs the extra sklearn-files")

RUN = CliRunner()
COLUMNS = ["age", "income", "debt"]
RNG = np.random.default_rng(0)
TRAIN = RNG.normal([40.0, 30_000.0, 5.0], [10.0, 8_000.0, 2.0], size=(60, 3))
X = TRAIN[:10]
PRICES = TRAIN @ [2.0, 0.01, -20.0] + 7
GIVEN = {"slopes": np.broadcast_to([2.0, 0.01, -20.0], X.shape).copy(), "noise": RNG.normal(size=X.shape)}
HOLES = np.where(RNG.random(X.shape) < 0.3, np.nan, X)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    np.save(folder / "x.npy", X)
    np.save(folder / "holes.npy", HOLES)
    for name, values in GIVEN.items():
        np.save(folder / f"{name}.npy", values)
    pd.DataFrame(X, columns=COLUMNS)[COLUMNS[::-1]].to_csv(folder / "x.csv", index=False)
    pd.DataFrame(TRAIN, columns=COLUMNS).to_csv(folder / "train.csv", index=False)
    np.save(folder / "train.npy", TRAIN)
    return folder


def usual(options: Any, infidelity: str = "infidelity(samples=30)") -> list[str]:
    """The metrics of the command, with few draws, where none is named."""
    named = "--metric" in options
    return [] if named else [word for one in ("pc", "dpc", infidelity) for word in ("--metric", one)]


def run(folder: Path, model: str, *options: object, inputs: str = "x.npy") -> Result:
    files = ["--model", folder / model, "--inputs", folder / inputs]
    attributions = ["--attributions", *(folder / f"{name}.npy" for name in GIVEN)]
    return RUN.invoke(app, ["evaluate", *map(str, [*files, *attributions, *options, *usual(options), "--json"])])


def told(folder: Path, model: str, *options: object, inputs: str = "x.npy") -> dict[str, dict[str, float]]:
    """Means by metric and attribution."""
    found = run(folder, model, *options, inputs=inputs)
    assert found.exit_code == 0, found.output
    metrics = json.loads(found.stdout)["metrics"]
    return {name: {one["name"]: one["mean"] for one in metric["ranking"]} for name, metric in metrics.items()}


def wanted(model: Any, inputs: Any = X, **settings: Any) -> dict[str, dict[str, float]]:
    """The same in Python."""
    found = calls.compare(model, inputs, GIVEN, **{"samples": 30} | settings)
    return {name: {one.name: one.mean for one in found.ranking(name)} for name in found.metrics}


def same(found: dict[str, dict[str, float]], other: dict[str, dict[str, float]], rel: float = 1e-9) -> None:
    assert found.keys() == other.keys()
    for name, ranking in found.items():
        assert ranking == pytest.approx(other[name], rel=rel, abs=1e-9)


SCALED = ["--baselines", "mean", "--background"]  # what raw units need


def test_a_regressor_on_raw_scales(folder: Path) -> None:
    """The attribution of a linear regression is its slopes: Infidelity is 0, in the unit of the price."""
    model = LinearRegression().fit(pd.DataFrame(TRAIN, columns=COLUMNS), PRICES)
    skops.dump(model, folder / "prices.skops")
    metrics = usual((), "infidelity(sigma=std, normalize=false, samples=30)")
    found = told(folder, "prices.skops", *SCALED, folder / "train.npy", *metrics)
    same(found, wanted(model, baselines="mean", sigma="std", background=TRAIN, normalize=False))
    assert found["infidelity"]["slopes"] == pytest.approx(0, abs=1e-9)
    assert found["infidelity"]["noise"] > 1e6
    assert found["dpc"]["slopes"] != 0


def test_tables_go_by_the_names_that_the_model_knows(folder: Path) -> None:
    model = LinearRegression().fit(pd.DataFrame(TRAIN, columns=COLUMNS), PRICES)
    skops.dump(model, folder / "named.skops")
    for name, values in GIVEN.items():
        pd.DataFrame(values, columns=COLUMNS).to_csv(folder / f"{name}.csv", index=False)
    files = ["--model", folder / "named.skops", "--inputs", folder / "x.csv", "--metric", "pc", "--json"]
    options = ["--background", folder / "train.csv", "--baselines", "median"]
    by_name = RUN.invoke(app, ["evaluate", *map(str, [*files, *options, "--attributions", folder / "noise.csv"])])
    assert by_name.exit_code == 0, by_name.output
    ranking = json.loads(by_name.stdout)["metrics"]["pc"]["ranking"]
    found = next(one["mean"] for one in ranking if one["name"] == "noise")
    direct = wanted(model, baselines="median", background=TRAIN, metrics=["pc"])
    assert found == pytest.approx(direct["pc"]["noise"], rel=1e-9)


def boosters(folder: Path) -> dict[str, Any]:
    """Regressors in the files of their own libraries."""
    by_xgboost = xgboost.train({"max_depth": 2, "base_score": 0.0}, xgboost.DMatrix(TRAIN, PRICES), 5)
    by_lightgbm = lightgbm.train({"verbose": -1, "min_data_in_leaf": 5}, lightgbm.Dataset(TRAIN, PRICES), 5)
    by_xgboost.save_model(folder / "m.json")
    by_xgboost.save_model(folder / "m.ubj")
    by_lightgbm.save_model(folder / "m.txt")
    return {"m.json": by_xgboost, "m.ubj": by_xgboost, "m.txt": by_lightgbm}


@pytest.mark.parametrize("name", ["m.json", "m.ubj", "m.txt"])
def test_boosters_of_values_with_gaps(folder: Path, name: str) -> None:
    model = boosters(folder)[name]
    settings: dict[str, Any] = {"baselines": "median", "background": TRAIN, "metrics": ["pc", "dpc"]}
    options = ["--baselines", "median", "--background", folder / "train.npy", "--metric", "pc", "--metric", "dpc"]
    found = told(folder, name, *options, inputs="holes.npy")
    same(found, wanted(model, HOLES, **settings))
    assert abs(found["pc"]["noise"]) > 1e-3
    gone = told(folder, name, "--baselines", "missing", "--metric", "pc")
    same(gone, wanted(model, Inputs(X, baselines=np.nan), metrics=["pc"]))
    refused = run(folder, name, "--missing", "raise", inputs="holes.npy")
    assert refused.exit_code == 2
    assert "holes.npy: inputs: expected finite numbers, got nan in row" in refused.stderr


@pytest.mark.parametrize("name", ["m.json", "m.txt"])
def test_rows_for_another_booster(folder: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    boosters(folder)
    np.save(folder / "wide.npy", np.c_[X, X])
    found = run(folder, name, inputs="wide.npy")
    assert found.exit_code == 2
    assert found.stderr.startswith(f"verax: {folder}/wide.npy: {folder}/{name} cannot score rows of shape (6,): ")
    assert found.stderr.count("\n") == 1
    assert capfd.readouterr().err == ""  # of the library


def test_gaps_in_a_table_of_numbers(folder: Path) -> None:
    """A model of scikit-learn that takes NaN, with labels as text."""
    labels = np.where(np.median(PRICES) < PRICES, "dear", "cheap")
    train = pd.DataFrame(TRAIN, columns=COLUMNS).mask(RNG.random(TRAIN.shape) < 0.2)
    model = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5).fit(train, labels)
    skops.dump(model, folder / "gaps.skops")
    train.to_csv(folder / "gaps_train.csv", index=False)
    pd.DataFrame(HOLES, columns=COLUMNS).to_csv(folder / "holes.csv", index=False)
    options = ["--background", folder / "gaps_train.csv", "--target", "dear", "--metric", "pc"]
    found = told(folder, "gaps.skops", *options, inputs="holes.csv")
    problem = verax.tables.problem(model, pd.DataFrame(HOLES, columns=COLUMNS), background=train, target="dear")
    direct = verax.compare(problem, GIVEN, ["pc"])
    same(found, {"pc": {one.name: one.mean for one in direct.ranking("pc")}})
    with pytest.warns(UserWarning, match="baselines: outside what the data hold in age, income, debt"):
        zero = told(folder, "gaps.skops", *options, "--baselines", "0", inputs="holes.csv")
    assert zero != found
    other = told(folder, "gaps.skops", *options, "--target", "cheap", inputs="holes.csv")
    assert other["pc"]["noise"] == pytest.approx(-found["pc"]["noise"])


def test_missing_values_are_for_models_that_take_them(folder: Path) -> None:
    """Nobody knows of a program of torch whether it does: it can be said."""

    class Filling(torch.nn.Module):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return torch.nan_to_num(rows, nan=40.0).sum(1, keepdim=True)

    batch = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(Filling(), (torch.zeros(3, 3, dtype=torch.float64),), dynamic_shapes=batch)
    torch.export.save(program, folder / "filling.pt2")
    options = ["--trust-model", "--returns", "values", "--metric", "pc", "--background", folder / "train.npy"]
    options += ["--baselines", "mean"]
    refused = run(folder, "filling.pt2", *options, inputs="holes.npy")
    assert refused.exit_code == 2
    assert "if filling.pt2 takes missing values, say --missing allow." in refused.stderr
    found = told(folder, "filling.pt2", *options, "--missing", "allow", inputs="holes.npy")
    scorer = verax.Scorer(Filling(), returns="values")
    same(found, wanted(scorer, Inputs(HOLES, baselines="mean"), background=TRAIN, metrics=["pc"]))


def test_an_onnx_regressor_says_that_it_gives_values(folder: Path) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    pytest.importorskip("onnxruntime")
    model = LinearRegression().fit(TRAIN, PRICES)
    exported = skl2onnx.to_onnx(model, TRAIN[:1].astype(np.float32))
    (folder / "prices.onnx").write_bytes(exported.SerializeToString())
    options = [*SCALED, folder / "train.npy", "--returns", "values", "--metric", "pc"]
    found = told(folder, "prices.onnx", *options)
    same(found, wanted(model, baselines="mean", background=TRAIN, metrics=["pc"]), rel=1e-4)
    page = folder / "prices.html"
    assert run(folder, "prices.onnx", *options, "--report", page).exit_code == 0
    assert "the value" in page.read_text()


def test_what_is_followed_and_what_attributions_are(folder: Path) -> None:
    model = LogisticRegression(max_iter=1000).fit((TRAIN - TRAIN.mean(0)) / TRAIN.std(0), PRICES.mean() < PRICES)
    np.save(folder / "scaled.npy", (X - TRAIN.mean(0)) / TRAIN.std(0))
    skops.dump(model, folder / "classes.skops")
    inputs = np.load(folder / "scaled.npy")
    cases: list[tuple[list[str], dict[str, Any]]] = [
        (["--output", "logit"], {"output": "logit"}),
        (
            usual((), "infidelity(effect=sum, perturbation=baseline, samples=30)"),
            {"effect": "sum", "perturbation": "baseline"},
        ),
        (usual((), "infidelity(sigma=0.5, samples=30)"), {"sigma": 0.5}),
    ]
    for words, direct in cases:
        found = told(folder, "classes.skops", *words, "--target", "1", inputs="scaled.npy")
        same(found, wanted(model, inputs, target=1, **direct))
    refused = run(folder, "classes.skops", "--returns", "values", inputs="scaled.npy")
    assert refused.exit_code == 2
    assert "predict_proba gives probabilities" in refused.stderr


def test_groups_from_a_file(folder: Path) -> None:
    model = LinearRegression().fit(TRAIN, PRICES)
    skops.dump(model, folder / "plain.skops")
    np.save(folder / "groups.npy", np.array([0, 0, 1]))
    options = [*SCALED, folder / "train.npy", "--features", folder / "groups.npy", "--metric", "pc"]
    found = told(folder, "plain.skops", *options)
    same(found, wanted(model, features=[0, 0, 1], baselines="mean", background=TRAIN, metrics=["pc"]))


def test_the_model_is_opened_before_the_inputs_are_read(folder: Path) -> None:
    (folder / "none.skops").write_bytes(b"something else")
    for model in ("none.skops", "lost.txt", "m.pickle"):
        found = run(folder, model, inputs="lost.npy")
        assert found.exit_code == 2
        assert model in found.stderr
        assert "lost.npy" not in found.stderr
        assert found.stderr.count("\n") == 1
