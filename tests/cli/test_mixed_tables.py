"""Tables with categories and gaps on the command line: the numbers are those of ``verax.tables.problem`` in Python."""

import json
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from typer.testing import CliRunner, Result

import verax
from verax.cli import app
from verax.metrics import Infidelity, PredictionChange
from verax.scoring.raw_rows import FrameModel

skops = pytest.importorskip("skops.io", reason="needs the extra sklearn-files")

pytestmark = pytest.mark.filterwarnings(
    "ignore:DPC counts 0 for features that are categorical", "ignore:DPC ranks features by"
)
RUN = CliRunner()
RNG = np.random.default_rng(0)
SIZES = ["small", "medium", "large"]


def people(count: int) -> pd.DataFrame:
    """Numbers, categories with and without an order, and gaps in both kinds of columns."""
    town = np.array(["Graz", "Linz", "Wien", None], dtype=object)[RNG.choice(4, count, p=[0.2, 0.2, 0.5, 0.1])]
    age = np.where(RNG.random(count) < 0.1, np.nan, RNG.normal(45, 12, count).round())
    return pd.DataFrame(
        {"age": age, "town": town, "income": RNG.normal(30_000, 8_000, count), "size": RNG.choice(SIZES, count)}
    )


TRAIN, ROWS = people(80), people(12)
LABELS = np.where((TRAIN["town"] == "Wien") ^ (TRAIN["income"] > 30_000), "yes", "no")
GIVEN = pd.DataFrame(RNG.normal(size=ROWS.shape), columns=ROWS.columns)


def pipeline(gap: Any = np.nan) -> Any:
    """Numbers filled and scaled, towns one-hot, sizes in their order."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    encoders = make_column_transformer(
        (numbers, ["age", "income"]),
        (OneHotEncoder(handle_unknown="ignore"), ["town"]),
        (OrdinalEncoder(categories=[SIZES]), ["size"]),
    )
    return make_pipeline(encoders, LogisticRegression()).fit(learnt(TRAIN, gap), LABELS)


def learnt(frame: pd.DataFrame, gap: Any) -> pd.DataFrame:
    town = pd.Series([gap if pd.isna(one) else one for one in frame["town"]], dtype=object)
    return frame.assign(town=town)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    skops.dump(pipeline(), folder / "m.skops")
    shuffled = ["size", "income", "age", "town"]
    for name, frame in (("rows", ROWS), ("train", TRAIN), ("shap", GIVEN)):
        frame[shuffled if name != "train" else list(frame.columns)].to_csv(folder / f"{name}.csv", index=False)
        frame.to_parquet(folder / f"{name}.parquet", index=False)
    np.save(folder / "shap.npy", GIVEN[shuffled].to_numpy())
    return folder


def run(folder: Path, *arguments: object, command: str = "evaluate") -> Result:
    return RUN.invoke(app, [command, *(str(one) for one in arguments)], env={"COLUMNS": "200"})


def told(folder: Path, *arguments: object, model: str = "m.skops", suffix: str = ".csv", given: str = "") -> Any:
    """Means by metric as the command prints them."""
    files = ["--model", folder / model, "--inputs", folder / f"rows{suffix}", "--background", folder / f"train{suffix}"]
    attributions = folder / (given or f"shap{suffix}")
    few = [] if "--metric" in arguments else usual()
    found = run(folder, *files, "--attributions", attributions, *arguments, *few, "--json")
    assert found.exit_code == 0, found.output
    return means(json.loads(found.stdout)["metrics"])


def usual(settings: str = "") -> list[str]:
    """The metrics of the command, with few draws."""
    short = f"infidelity(samples=30, sigma=std{settings})"
    return ["--metric", "pc", "--metric", "dpc", "--metric", short]


def means(metrics: dict[str, Any]) -> dict[str, float]:
    """Of the one attribution, by metric; a random one is ranked beside it."""
    return {
        name: next(one["mean"] for one in metric["ranking"] if one["name"] == "shap")
        for name, metric in metrics.items()
    }


def wanted(model: Any, rows: Any = ROWS, train: Any = TRAIN, **settings: Any) -> dict[str, float]:
    """The same in Python."""
    metrics = settings.pop("metrics", ["pc", "dpc", Infidelity(samples=30, sigma="std")])
    problem = verax.tables.problem(model, rows, background=train, **settings)
    found = verax.compare(problem, {"shap": GIVEN[list(rows.columns)].to_numpy()}, metrics)
    return {name: result.mean()["shap"].mean for name, result in found.evaluation.items()}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_command_prints_what_python_gives(folder: Path, suffix: str) -> None:
    found = told(folder, "--target", "yes", suffix=suffix)
    assert found == pytest.approx(wanted(pipeline(), target="yes"), rel=1e-9)
    assert abs(found["pc"]) > 1e-3


def test_arrays_without_names_go_by_the_columns_of_the_inputs_file(folder: Path) -> None:
    with pytest.warns(
        UserWarning, match=r"shap.npy: has no names of columns, so they are taken in the order of .*rows"
    ):
        by_place = told(folder, "--metric", "pc", given="shap.npy")
    assert by_place == told(folder, "--metric", "pc")


def test_no_perturbed_row_lacks_a_category(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[pd.DataFrame] = []
    decode = FrameModel.frame

    def spied(self: FrameModel, rows: Any) -> Any:
        seen.append(decode(self, rows))
        return seen[-1]

    monkeypatch.setattr(FrameModel, "frame", spied)
    told(folder, *usual(", perturbation=baseline"))
    rows = pd.concat(seen)
    encoder = pipeline()[0].named_transformers_["onehotencoder"]
    assert len(rows) > 300
    assert (encoder.transform(rows[["town"]]).sum(axis=1) == 1).all()
    assert set(rows["size"]) == set(SIZES)


@pytest.mark.parametrize("gap", [np.nan, None], ids=["NaN", "None"])
def test_gaps_are_what_the_encoder_has_learnt(folder: Path, gap: Any) -> None:
    """An encoder tells None from NaN: the other one would be no category at all."""
    model = pipeline(gap)
    skops.dump(model, folder / "gap.skops")
    rows, train = (learnt(frame, gap) for frame in (ROWS, TRAIN))
    assert told(folder, model="gap.skops") == pytest.approx(wanted(model, rows, train), rel=1e-9)


def test_words_that_look_like_numbers_in_some_rows(tmp_path: Path) -> None:
    """Grades 1 and 2 of the rows are text, because grade A of the training data is."""
    train = pd.DataFrame({"grade": ["1", "2", "A"] * 10, "debt": np.arange(30.0)})
    model = make_pipeline(make_column_transformer((OneHotEncoder(), ["grade"])), LogisticRegression())
    skops.dump(model.fit(train, train["grade"] == "1"), tmp_path / "m.skops")
    rows = train[:2]
    for name, frame in (("rows", rows), ("train", train), ("shap", pd.DataFrame(np.eye(2), columns=rows.columns))):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    found = told(tmp_path, "--metric", "pc")
    problem = verax.tables.problem(model, rows, background=train)
    assert found["pc"] == pytest.approx(float(np.mean(PredictionChange()(problem, np.eye(2)).value)))


def boosted(kind: str) -> Any:
    """Models that take categories themselves."""
    few = {"n_estimators": 3, "max_depth": 2}
    models = {
        "scikit-learn": HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5),
        "XGBoost": xgboost.XGBClassifier(enable_categorical=True, **few),
        "LightGBM": lightgbm.LGBMClassifier(verbose=-1, min_child_samples=5, **few),
    }
    return models[kind]


@pytest.mark.parametrize("kind", ["scikit-learn", "XGBoost", "LightGBM"])
def test_models_that_take_categories_themselves(folder: Path, kind: str) -> None:
    dtypes = {"town": pd.CategoricalDtype(["Wien", "Graz", "Linz"]), "size": pd.CategoricalDtype(SIZES)}
    rows, train = (frame.astype(dtypes) for frame in (ROWS, TRAIN))
    model = boosted(kind).fit(train, (LABELS == "yes").astype(int))
    skops.dump(model, folder / f"{kind}.skops")
    assert told(folder, model=f"{kind}.skops") == pytest.approx(wanted(model, rows, train), rel=1e-6)


def test_baselines(folder: Path, tmp_path: Path) -> None:
    pd.DataFrame({"income": [20_000.0], "town": ["Linz"]}).to_csv(tmp_path / "one.csv", index=False)
    by_word = {word: told(folder, "--metric", "pc", "--baselines", word) for word in ("mean", "median", "mode")}
    for word, found in by_word.items():
        assert found == pytest.approx(wanted(pipeline(), baselines=word, metrics=["pc"]), rel=1e-9)
    named = {"income": 20_000.0, "town": "Linz"}
    found = told(folder, "--metric", "pc", "--baseline", tmp_path / "one.csv")
    assert found == pytest.approx(wanted(pipeline(), baselines=named, metrics=["pc"]), rel=1e-9)


def test_groups_of_columns(folder: Path, tmp_path: Path) -> None:
    pd.DataFrame([[0, 0, 1, -1]], columns=["age", "income", "town", "size"]).to_csv(tmp_path / "g.csv", index=False)
    found = told(folder, "--metric", "pc", "--features", tmp_path / "g.csv")
    mixed = verax.tables.problem(pipeline(), ROWS, background=TRAIN)
    grouped = verax.Problem(
        mixed.scorer,
        mixed.inputs.numpy(),
        features=np.array([0, 1, 0, -1]),
        baselines=mixed.baselines[0].numpy(),
        categorical=mixed.rows.codes,
    )
    direct = PredictionChange()(grouped, GIVEN.to_numpy())
    assert found["pc"] == pytest.approx(float(np.mean(direct.value)), rel=1e-9)
    assert direct.steps == 2


def test_tuning_on_a_mixed_table(folder: Path) -> None:
    pytest.importorskip("optuna", reason="needs the extra tune")
    files = ["--model", folder / "m.skops", "--inputs", folder / "rows.csv", "--background", folder / "train.csv"]
    settings = ["--methods", "Occlusion,Random", "--trials", "3", "--metric", "pc", "--target", "yes", "--json"]
    found = run(folder, *files, *settings, command="tune")
    assert found.exit_code == 0, found.output
    best = json.loads(found.stdout)
    assert best["configuration"].startswith("Occlusion")
    problem = verax.tables.problem(pipeline(), ROWS, background=TRAIN, target="yes")
    direct = verax.tune(problem, ["Occlusion", "Random"], trials=3, metric="pc")
    assert best["scores"]["pc"]["mean"] == pytest.approx(direct.score.mean, rel=1e-9)


UNUSABLE = {
    "a missing column": ({"inputs": "narrow.csv"}, [], "narrow.csv: expected the columns that the model was fitted on"),
    "a missing column of the background": ({"background": "narrow.csv"}, [], "fitted on; missing: town."),
    "gaps that were not wanted": ({}, ["--missing", "raise"], "rows.csv: expected a value in every row, missing"),
    "no category": ({}, ["--baselines", "0"], "--baselines: 0 is no category of town, size; say mean, median"),
    "no word": ({}, ["--baselines", "middle"], "--baselines: expected mean, median, mode, missing, a number"),
    "many baselines": ({}, ["--baselines", "train.csv"], "train.csv: expected one row, by the names of the columns"),
    "attributions of other columns": (
        {"attributions": "narrow.csv"},
        [],
        "narrow.csv: expected the columns of {folder}/rows.csv; missing town",
    ),
    "a model without gaps": ({"model": "strict.skops"}, [], "strict.skops cannot score rows of shape (4,): "),
    "an unknown label": ({}, ["--target", "perhaps"], "the model has no label 'perhaps'; its labels are no, yes"),
    "a model of numbers alone": (
        {"model": "numbers.json"},
        [],
        "rows.csv: expected numbers, not so in size, town; numbers.json takes numbers alone",
    ),
    "a file with code": ({"model": "code.skops"}, [], "code.skops is not opened, because it holds classes"),
    "a file with code, named": ({"model": "code.skops"}, [], "({module}.run_code)"),
}


def run_code(rows: Any) -> Any:
    """A function of somebody's own, in the place of one that does harm."""
    raise AssertionError("it ran")


@pytest.fixture(scope="module")
def wrong(folder: Path) -> Path:
    from sklearn.preprocessing import FunctionTransformer  # noqa: PLC0415

    ROWS.drop(columns="town").assign(age=1.0, size=1.0).to_csv(folder / "narrow.csv", index=False)
    encoders = make_column_transformer((OrdinalEncoder(), ["town", "size"]), remainder="passthrough")
    full = TRAIN.fillna({"town": "Graz", "age": 40.0})
    skops.dump(make_pipeline(encoders, GaussianNB()).fit(full, LABELS), folder / "strict.skops")
    booster = xgboost.train({}, xgboost.DMatrix(TRAIN[["age", "income"]].to_numpy(), np.arange(80)), 1)
    booster.save_model(folder / "numbers.json")
    skops.dump(make_pipeline(FunctionTransformer(run_code), pipeline()), folder / "code.skops")
    return folder


@pytest.mark.parametrize(("files", "options", "message"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_whatever_is_wrong_is_one_line(wrong: Path, files: dict[str, str], options: list[str], message: str) -> None:
    names = {"model": "m.skops", "inputs": "rows.csv", "background": "train.csv", "attributions": "shap.csv"} | files
    given = [word for name, file in names.items() for word in (f"--{name}", str(wrong / file))]
    own = [str(wrong / one) if one.endswith(".csv") else one for one in options]
    found = run(wrong, *given, *own)
    assert found.exit_code == 2, found.output
    assert message.format(folder=wrong, module=__name__) in found.stderr
    assert found.stderr.startswith("verax: ")
    assert found.stderr.count("\n") == 1
    assert found.stdout == ""


@pytest.fixture(name="numbered")
def _numbered(tmp_path: Path) -> Path:
    """Numbers alone, of which one column holds categories, with and without the label."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=40), "zip": rng.choice([1010, 8010, 4020], 40)})
    label = (frame["zip"] == 8010).astype(int)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.assign(label=label).to_csv(tmp_path / "labelled.csv", index=False)
    pd.DataFrame(np.ones((40, 2)), columns=["age", "zip"]).to_csv(tmp_path / "ones.csv", index=False)
    booster = lightgbm.LGBMClassifier(n_estimators=3, min_child_samples=1, verbose=-1)
    booster.fit(frame, label, categorical_feature=["zip"]).booster_.save_model(tmp_path / "m.txt")
    skops.dump(LogisticRegression().fit(frame, label), tmp_path / "named.skops")
    skops.dump(LogisticRegression().fit(frame.to_numpy(), label), tmp_path / "plain.skops")
    return tmp_path


def refused(folder: Path, model: str, rows: str, *further: object) -> Result:
    files = ("--model", folder / model, "--inputs", folder / rows, "--attributions", folder / "ones.csv")
    return run(folder, *files, "--metric", "pc", *further)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("m.txt", "unknown label; leave out what is no input, such as the label"),
        ("named.skops", "unknown label; leave out what is no input, such as the label"),
        ("plain.skops", "Its columns are age, zip, label; leave out what is no input"),
    ],
)
def test_a_table_that_still_holds_the_label_is_named(numbered: Path, model: str, message: str) -> None:
    found = refused(numbered, model, "labelled.csv")
    assert found.exit_code == 2
    assert message in " ".join(found.output.split())


def test_categories_of_lightgbm_are_named_and_become_others_that_exist(numbered: Path) -> None:
    found = refused(numbered, "m.txt", "rows.csv")
    assert found.exit_code == 2
    assert "--baselines: zip are categories to m.txt" in " ".join(found.output.split())
    typical = ("--baselines", "mean", "--background", numbered / "rows.csv")
    assert refused(numbered, "m.txt", "rows.csv", *typical).exit_code == 0
    rows = numbered / "rows.csv"
    problem = verax.open_problem(numbered / "m.txt", rows, background=rows, baselines="mean")
    assert problem.rows.codes == [False, True]
