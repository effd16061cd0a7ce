"""Studies of tables of one's own, from a CSV file to a report: classes by name, categories, gaps, values."""

from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import verax
from study.studies import HERE, ran, scores, spec, table
from verax.attribution import Gradient, IntegratedGradients, LimeTabular, Random, TreeShap
from verax.metrics import Infidelity, PredictionChange
from verax.paper.models.recipes import Recipe
from verax.scoring.model_files.saved import ModelFileError
from verax.study.in_memory import attributions_table
from verax.study.run import Finished
from verax.study.spec import StudySpec
from verax.study.store import StoreError
from verax.study.study import open_study

COUNT = 60
DRAWS = np.random.default_rng(0)
NUMBERS = DRAWS.normal(size=(COUNT, 3))
TOWNS = np.array(["Graz", "Linz", "Wien"])[DRAWS.integers(0, 3, COUNT)]
KINDS = np.array(["low", "mid", "high"])[np.digitize(NUMBERS[:, 0] + (TOWNS == "Wien"), [-0.2, 0.7])]
PRICES = 500 + 30 * NUMBERS[:, 0] - 10 * NUMBERS[:, 1]
LINEAR = {"name": "Line", "architecture": "linear"}
FEW = [{"method": "Gradient"}, {"method": "LimeTabular", "samples": 16}, {"method": "Random"}]
BLACK_BOX = [{"method": "Occlusion"}, {"method": "KernelShap", "samples": 16}, {"method": "Random"}]
MIXED = [{"method": "Gradient"}, {"method": "LimeTabular"}, *BLACK_BOX]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer epochs than such small data get."""
    monkeypatch.setattr("verax.paper.models.shipped.general_recipe", lambda *about: Recipe(40, 64, 0.1, 0.0))


def mixed(gaps: bool = True) -> pd.DataFrame:
    """Numbers, and a category; both with gaps."""
    frame = pd.DataFrame({"age": 40 + 9 * NUMBERS[:, 0], "income": 2000 * NUMBERS[:, 1], "town": TOWNS.astype(object)})
    if gaps:
        frame.loc[::7, "income"] = np.nan
        frame.loc[3::8, "town"] = np.nan
    return frame


def numbers() -> pd.DataFrame:
    return pd.DataFrame(NUMBERS, columns=["a", "b", "c"])


def data_file(folder: Path, frame: pd.DataFrame, label: Any) -> Path:
    path = folder / "homes.csv"
    frame.assign(label=label).to_csv(path, index=False)
    return path


def own(path: Path, *models: dict[str, Any], others: Any = FEW, label: str = "label", **settings: Any) -> StudySpec:
    asked = table(*(models or (LINEAR,)), others=others, name="file", path=str(path), label=label, limit=4, **settings)
    return spec(asked, examples=1, uncertainty={"inputs": 0})


def explained(found: Finished) -> Any:
    return next(iter(found.study.models.values()))


@pytest.mark.usefixtures("real_report")
def test_three_classes_by_name_with_categories_and_gaps(tmp_path: Path) -> None:
    """The whole way: a CSV file, a trained model, a report."""
    study = own(data_file(tmp_path, mixed(), KINDS), others=MIXED)
    found, lines = ran(study, tmp_path / "study")
    model = explained(found)
    assert model.dataset.class_names == ("high", "low", "mid")
    assert model.features.most == 3  # the columns of the table
    assert set(model.metrics["test"]) == {"auroc", "accuracy"}
    result = found.to_frame()
    assert set(result["method"].unique()) == {"Gradient", "Occlusion", "KernelShap", "Random"}
    assert "Line: left out, because categories cannot be moved a little: LIME" in lines
    assert result.null_count().sum_horizontal().item() == 0
    assert result.select(pl.col("pc", "infidelity").is_finite().all()).row(0) == (True, True)
    assert set(result["target"].unique()) <= {0, 1, 2}
    assert any("categories have no direction, so that DPC counts them 0: town" in line for line in lines)
    page = found.report.read_text(encoding="utf-8")
    assert "town = " in page
    assert "homes" in page
    assert ran(study, tmp_path / "study")[0].computed == 0


def test_no_perturbed_row_lacks_a_category(tmp_path: Path) -> None:
    """Whatever is removed, each town is one that exists; noise leaves towns alone. And the table is that of a call."""
    found, _ = ran(own(data_file(tmp_path, mixed(), KINDS), others=FEW[:1]), tmp_path / "study")
    model = explained(found)
    seen: list[torch.Tensor] = []
    model.module.register_forward_pre_hook(lambda module, rows: seen.append(rows[0].clone()))
    problem = model.problem(slice(0, 4), HERE, background=False)
    metrics = {"pc": "pc", "near": Infidelity(samples=20), "far": Infidelity(samples=20, perturbation="baseline")}
    verax.evaluate(problem, torch.rand(4, 6), metrics)
    towns = torch.cat(seen)[:, 2:]
    assert len(towns) > 100
    assert set(towns.unique().tolist()) == {0.0, 1.0}
    assert (towns.sum(1) == 1).all()
    wanted = PredictionChange()(problem, Gradient()(problem)).value
    stored = found.to_frame().filter(pl.col("method") == "Gradient")["pc"]
    np.testing.assert_allclose(stored.to_numpy(), wanted.numpy(), atol=1e-5)


@pytest.mark.usefixtures("real_report")
def test_a_regression(tmp_path: Path) -> None:
    """Scores are in the unit of the label: twice the label, twice the score."""
    found, _ = ran(own(data_file(tmp_path, numbers(), PRICES)), tmp_path / "study")
    model = explained(found)
    assert model.metrics["test"]["r2"] > 0.9
    assert scores(tmp_path / "study")["target"].unique().to_list() == [0]
    gradient = scores(tmp_path / "study").filter(pl.col("method") == "Gradient")
    weights = model.module.get_submodule("fc").weight.detach().norm()
    assert gradient["attribution_norm"].to_list() == pytest.approx([float(weights)] * 4)
    assert found.report.is_file()
    twice, _ = ran(own(data_file(tmp_path, numbers(), 2 * PRICES)), tmp_path / "twice")
    ratio = twice.to_frame()["pc"] / found.to_frame()["pc"]
    assert ratio.to_list() == pytest.approx([2.0] * len(ratio), rel=1e-3)


def test_a_regressor_that_knows_nothing_is_warned_of(tmp_path: Path) -> None:
    path = data_file(tmp_path, numbers(), DRAWS.normal(size=COUNT))
    _, lines = ran(own(path), tmp_path / "study")
    assert any(line.startswith("WARNING: Line is worse than predicting the mean: R^2 -") for line in lines)


UNUSABLE: dict[str, tuple[dict[str, Any], str]] = {
    "no label said": ({"label": None}, r"homes.csv: say which column is to be predicted, label = \"COLUMN\""),
    "no such column": ({"label": "lable"}, "label: expected .* got 'lable'; did you mean 'label'?"),
    "a label for the wrong task": ({"task": "regression"}, "got '.*'; say task = \"classification\""),
    "no such file": ({"path": "/none/homes.csv"}, "/none/homes.csv: there is no such file"),
}


@pytest.mark.parametrize(("wrong", "message"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_what_cannot_be_used_is_refused_before_any_work(wrong: dict[str, Any], message: str, tmp_path: Path) -> None:
    data = table(LINEAR, others=FEW, name="file", path=str(data_file(tmp_path, mixed(), KINDS)), label="label")
    asked = {key: value for key, value in {**data, **wrong}.items() if value is not None}
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        ran(spec(asked), tmp_path / "study")
    assert not (tmp_path / "study" / "models").exists()


def xgb(folder: Path) -> Path:
    model = xgboost.train({"objective": "reg:squarederror", "max_depth": 2}, xgboost.DMatrix(NUMBERS, PRICES), 20)
    model.save_model(folder / "own.json")
    return folder / "own.json"


def lgb(folder: Path) -> Path:
    settings = {"objective": "regression", "verbose": -1, "min_data_in_leaf": 5}
    lightgbm.train(settings, lightgbm.Dataset(NUMBERS, PRICES), 20).save_model(folder / "own.txt")
    return folder / "own.txt"


def onnx(folder: Path) -> Path:
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    model = LinearRegression().fit(NUMBERS, PRICES)
    (folder / "own.onnx").write_bytes(skl2onnx.to_onnx(model, NUMBERS[:1].astype(np.float32)).SerializeToString())
    return folder / "own.onnx"


def exported(folder: Path) -> Path:
    model, rows = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)), torch.zeros(2, 3)
    batch = torch.export.Dim("batch", min=1, max=1 << 16)
    torch.export.save(torch.export.export(model, (rows,), dynamic_shapes={"input": {0: batch}}), folder / "own.pt2")
    return folder / "own.pt2"


@pytest.mark.parametrize("make", [xgb, lgb, onnx, exported])
def test_a_regressor_from_a_file_of_another_library(make: Any, tmp_path: Path) -> None:
    """It gets the rows that it knows; gradient methods are left out by name where it has no gradients."""
    path = data_file(tmp_path, numbers(), PRICES)
    model = {"name": "Own", "path": str(make(tmp_path)), "trust": True}
    found, lines = ran(own(path, model), tmp_path / "study")
    methods = set(found.to_frame()["method"].unique())
    if make is exported:
        assert methods == {"Gradient", "LimeTabular", "Random"}
    else:
        assert methods == {"LimeTabular", "Random"}
        assert "Own: left out, because the model has no gradients: Gradient" in lines
        assert explained(found).metrics["test"]["r2"] > 0.5  # rows in their own units, or it would know nothing
    again, _ = ran(own(path, model), tmp_path / "study")
    assert again.computed == 0
    open_study(tmp_path / "study")


def pipeline() -> Any:
    amounts, towns = make_pipeline(SimpleImputer(), StandardScaler()), OneHotEncoder(handle_unknown="ignore")
    return make_pipeline(make_column_transformer((amounts, ["age", "income"]), (towns, ["town"])), LogisticRegression())


def test_a_pipeline_on_a_mixed_table_from_a_file(tmp_path: Path) -> None:
    io = pytest.importorskip("skops.io", reason="skops is not installed")
    frame = mixed()
    model = pipeline().fit(frame, KINDS)
    io.dump(model, tmp_path / "own.skops")
    given = {"name": "Own", "path": str(tmp_path / "own.skops")}
    study = own(data_file(tmp_path, frame, KINDS), given, others=BLACK_BOX)
    found, _ = ran(study, tmp_path / "study")
    own_model = explained(found)
    rows = own_model.rows[:4]
    result = found.to_frame().filter(pl.col("method") == "Random")
    predicted = [own_model.dataset.class_names[target] for target in result["target"]]
    assert predicted == model.predict(frame.iloc[rows]).tolist()
    assert own_model.metrics["test"]["accuracy"] > 0.5


UNUSABLE: dict[str, tuple[dict[str, Any], str]] = {
    "no file": ({"path": "none.onnx"}, r"Own: .*none.onnx: there is no such file|none.onnx: there is no such file"),
    "no model": ({"path": "homes.txt"}, "Own: .*cannot be opened as LightGBM model"),
    "no trust": ({"path": "own.pt2"}, "Own: .*not opened, because torch runs code.*trust = true"),
    "for classes": ({"path": "own.json", "returns": "probabilities"}, "Own: "),
}


@pytest.mark.parametrize(("wrong", "message"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_model_that_cannot_be_used_is_refused_before_any_work(
    wrong: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = data_file(tmp_path, numbers(), PRICES)
    (tmp_path / "homes.txt").write_text("no model")
    (tmp_path / "own.pt2").write_bytes(b"")
    xgb(tmp_path)
    model = {"name": "Own", **wrong, "path": str(tmp_path / wrong["path"])}
    with pytest.raises((ModelFileError, FileNotFoundError), match=message) as found:
        ran(own(path, LINEAR, model), tmp_path / "study")
    assert "\n" not in str(found.value)
    assert not (tmp_path / "study" / "models").exists()  # not even the other model was trained


def test_a_model_for_other_rows_is_refused(tmp_path: Path) -> None:
    model = {"name": "Own", "path": str(xgb(tmp_path))}
    four = data_file(tmp_path, numbers().assign(d=1.0), PRICES)
    with pytest.raises(ModelFileError, match=r"Own: cannot score the rows of homes.*shape \(4,\) \(a, b, c, d\)"):
        ran(own(four, model), tmp_path / "study")
    classes = data_file(tmp_path, numbers(), KINDS)
    with pytest.raises(ModelFileError, match="Own: predicts values, but the labels of homes are classes"):
        ran(own(classes, model), tmp_path / "study")
    words = data_file(tmp_path, mixed(gaps=False), PRICES)
    with pytest.raises(ModelFileError, match=r"Own: takes rows of numbers, but the table has categories \(town\)"):
        ran(own(words, model), tmp_path / "study")


class TestLive:
    """Objects of the running program."""

    METHODS = (LimeTabular(samples=16), Random())

    def test_several_models_of_several_kinds(self, tmp_path: Path) -> None:
        torch.manual_seed(0)
        line, net = LinearRegression().fit(NUMBERS, PRICES), torch.nn.Linear(3, 1)
        lines: list[str] = []
        found = verax.run_study(
            models={"line": line, "net": net},
            data=(NUMBERS, PRICES),
            attributions={"g": Gradient(), "ig": IntegratedGradients(points=4), "lime": LimeTabular(samples=16)},
            metrics=("pc", "dpc"),
            out=tmp_path,
            name="homes",
            log=lines.append,
        )
        result = found.to_frame()
        assert result.group_by("model").len().sort("model").rows() == [("line", 12), ("net", 36)]
        assert "line: left out, because the model has no gradients: Gradient, Integrated Gradients" in lines
        assert result["dataset"].unique().to_list() == ["homes"]
        assert {"pc", "dpc"} <= set(result.columns)
        assert found.report == tmp_path / "report.html"
        lime = result.filter(pl.col("model") == "line")
        scale = NUMBERS[found.study.models["line"].dataset.split.train].std(0)
        assert lime["attribution_norm"].to_list() == pytest.approx([np.linalg.norm(line.coef_ * scale)] * 12, rel=0.05)

    def test_trees_are_read_in_their_own_units(self, tmp_path: Path) -> None:
        """A study standardises inputs; what trees say of the rows themselves must come out."""
        pytest.importorskip("shap")
        tree = DecisionTreeRegressor(max_depth=3, random_state=0).fit(NUMBERS * 10, PRICES)
        lines: list[str] = []
        found = verax.run_study(
            models={"tree": tree, "line": LinearRegression().fit(NUMBERS * 10, PRICES)},
            data=(NUMBERS * 10, PRICES),
            attributions=[TreeShap(), Random()],
            metrics=["pc"],
            out=tmp_path,
            log=lines.append,
            examples=0,
        )
        assert "line: left out, because the model has no trees that can be read: Tree SHAP" in lines
        own = found.to_frame().filter(pl.col("model") == "tree", pl.col("configuration") == TreeShap().canonical)
        values = TreeShap()(verax.Problem(tree, NUMBERS[found.study.models["tree"].rows] * 10))
        assert own["attribution_norm"].to_list() == pytest.approx(np.linalg.norm(values, axis=1), rel=1e-5)

    def test_what_was_computed_is_found_again(self, tmp_path: Path) -> None:
        """By what the model computes, not by which object it is."""
        settings: dict[str, Any] = {"attributions": self.METHODS, "metrics": ["pc"], "out": tmp_path, "examples": 0}

        def run(target: Any) -> int:
            line = LinearRegression().fit(NUMBERS, target)
            return verax.run_study(models={"line": line}, data=(NUMBERS, PRICES), **settings).computed

        assert [run(PRICES), run(PRICES), run(PRICES + NUMBERS[:, 2])] == [1, 0, 1]
        with pytest.raises(StoreError, match=r"were objects of a Python program; run the program again"):
            open_study(tmp_path)

    @pytest.mark.parametrize("kind", ["pipeline", "own categories"])
    def test_a_frame_with_categories_and_gaps(self, kind: str, tmp_path: Path) -> None:
        frame = mixed() if kind == "pipeline" else mixed().astype({"town": "category"})
        model = (pipeline() if kind == "pipeline" else HistGradientBoostingClassifier(max_iter=5)).fit(frame, KINDS)
        found = verax.run_study(
            models={"pipe": model}, data=(frame, KINDS), attributions=["Random"], out=tmp_path, metrics=["pc"], limit=5
        )
        rows = found.study.models["pipe"].rows[:5]
        names = found.study.models["pipe"].dataset.class_names
        assert [names[place] for place in found.to_frame()["target"]] == model.predict(frame.iloc[rows]).tolist()

    def test_what_is_missing_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="out: say in which directory"):
            verax.run_study(models={"a": 1}, data=(NUMBERS, PRICES))
        with pytest.raises(ValueError, match="models, data: expected both"):
            verax.run_study(models={"a": 1}, out=tmp_path)
        with pytest.raises(ValueError, match="spec: it names its models and data"):
            verax.run_study("demo", tmp_path, models={"a": 1})
        with pytest.raises(TypeError, match=r"data: expected \(rows, labels\)"):
            verax.run_study(models={"a": 1}, data=NUMBERS, out=tmp_path)
        with pytest.raises(ValueError, match=r"attributions: expected .*got 'Gradent'; did you mean 'Gradient'"):
            verax.run_study(models={"a": 1}, data=(NUMBERS, PRICES), attributions=["Gradent"], out=tmp_path)
        with pytest.raises(TypeError, match=r"model: expected a torch.nn.Module"):
            verax.run_study(models={"a": 1}, data=(NUMBERS, PRICES), attributions=["Random"], out=tmp_path)

    @pytest.mark.parametrize("wrong", [{"x": NUMBERS}, NUMBERS, [NUMBERS]], ids=["named", "alone", "listed"])
    def test_attributions_that_are_computed_already_are_told_in_a_line(self, wrong: Any) -> None:
        """Asked of the module, because before ``run_study`` type checks speak, which only tests have."""
        label = r"attributions\['x'\]" if isinstance(wrong, dict) else "attributions"
        found = rf"^{label}: expected a method .*, got ndarray of shape \({COUNT}, 3\); .* go to verax\.compare\.$"
        with pytest.raises(TypeError, match=found):
            attributions_table(wrong)
