"""CatBoost: numbers, words and gaps; two and three classes by name, and values; live, and from its own file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import calls
import verax
from verax.attribution import KernelShap, Occlusion, Random, TreeShap
from verax.cli import app
from verax.models import ModelFileError, open_model
from verax.scoring.adapters import adapt

catboost = pytest.importorskip("catboost", reason="catboost is not installed")
pd = pytest.importorskip("pandas", reason="pandas is not installed")
N = 80
SETTINGS = {"iterations": 6, "depth": 3, "verbose": False, "allow_writing_files": False, "thread_count": 1}
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "income": np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(40, 10, N)),
        "late": RNG.integers(0, 4, N),
        "town": RNG.choice(["Graz", "Wien", "unknown"], N),
        "zip": RNG.integers(1000, 1003, N),
    }
)
LIKING = np.nan_to_num(FRAME["income"], nan=45) + 8 * (FRAME["town"] == "Graz") + 6 * (FRAME["zip"] == 1001)
LABELS = {
    "two classes": np.where(LIKING > 45, "yes", "no"),
    "three classes": np.where(LIKING > 50, "high", np.where(LIKING > 42, "middle", "low")),
    "values": np.asarray(LIKING),
}


def fitted(kind: str, frame: Any = FRAME) -> Any:
    words = [name for name in ("town", "zip") if name in frame]
    model = catboost.CatBoostRegressor if kind == "values" else catboost.CatBoostClassifier
    return model(cat_features=words, **SETTINGS).fit(frame, LABELS[kind])


def predicted(model: Any, frame: Any) -> Any:
    return model.predict_proba(frame) if hasattr(model, "predict_proba") else model.predict(frame)[:, None]


@pytest.fixture(scope="module", params=LABELS)
def kind(request: Any) -> str:
    result: str = request.param
    return result


@pytest.fixture(scope="module")
def model(kind: str) -> Any:
    return fitted(kind)


def test_the_model_sees_the_very_rows_and_columns_go_by_name(kind: str, model: Any) -> None:
    scorer, inputs = verax.tables.encoded(model, FRAME[["zip", "town", "late", "income"]][:8], background=FRAME)
    assert inputs.names == tuple(FRAME.columns)
    assert inputs.codes.tolist() == [False, False, True, True]  # whole numbers that are categories to it
    target = None if kind == "values" else str(model.classes_[-1])
    result = calls.prediction_change(scorer, inputs, np.ones((8, 4)), target=target)
    np.testing.assert_allclose(result.morf[:, 0], predicted(model, FRAME[:8])[:, -1], rtol=1e-6)
    removed = scorer.adapter.frame(inputs.baselines[None]).iloc[0]
    assert removed["town"] in set(FRAME["town"])
    assert removed["zip"] in set(FRAME["zip"])


def test_methods_rank_and_tree_shap_adds_up(kind: str, model: Any) -> None:
    scorer, inputs = verax.tables.encoded(model, FRAME[:12], background=FRAME)
    result = calls.compare(scorer, inputs, {"shap": KernelShap(16), "trees": TreeShap(), "random": Random()}, ["pc"])
    assert result.pair("shap", "random", "pc").word == "better"
    raw = model.predict(FRAME[:12], prediction_type="RawFormulaVal").reshape(12, -1)[:, -1]
    last = None if kind == "values" else str(model.classes_[-1])
    left = raw - np.asarray(calls.explained(TreeShap(), scorer, inputs, target=last)).sum(
        1
    )  # the expected value, the same for all
    np.testing.assert_allclose(left, left[0], rtol=1e-9)


def test_a_study_of_live_models(kind: str, tmp_path: Path) -> None:
    frame = FRAME.astype({"zip": "category"})
    methods = [Occlusion(), TreeShap(), Random()]
    result = verax.run_study(
        models={"cat": fitted(kind, frame)},
        data=(frame[["town", "income", "zip", "late"]], LABELS[kind]),
        attributions=methods,
        metrics=["pc"],
        limit=4,
        examples=0,
        out=tmp_path,
    )
    assert set(result.to_frame()["method"]) == {"Occlusion", "TreeShap", "Random"}


def test_its_own_file_predicts_what_it_did(kind: str, model: Any, tmp_path: Path) -> None:
    model.save_model(str(tmp_path / "m.cbm"))
    opened = open_model(tmp_path / "m.cbm")
    assert opened.returns == ("values" if kind == "values" else "probabilities")
    scorer, inputs = verax.tables.encoded(opened.estimator, FRAME[:6], background=FRAME)  # type: ignore[attr-defined]
    rows = torch.from_numpy(np.asarray(inputs.values))
    np.testing.assert_allclose(
        np.asarray(scorer.adapter(rows, "numpy")).reshape(6, -1), predicted(model, FRAME[:6]), rtol=1e-6
    )


def test_the_command_line_prints_the_same_numbers(kind: str, model: Any, tmp_path: Path) -> None:
    model.save_model(str(tmp_path / "m.cbm"))
    given = pd.DataFrame(np.random.default_rng(1).normal(size=(6, 4)), columns=FRAME.columns)
    for name, frame in (("rows", FRAME[:6]), ("train", FRAME), ("given", given)):
        frame[["zip", "town", "income", "late"]].to_csv(tmp_path / f"{name}.csv", index=False)
    files = {"model": "m.cbm", "inputs": "rows.csv", "background": "train.csv", "attributions": "given.csv"}
    options = [word for name, file in files.items() for word in (f"--{name}", str(tmp_path / file))]
    done = CliRunner().invoke(app, ["evaluate", *options, "--metric", "pc", "--out", str(tmp_path / "scores.parquet")])
    assert done.exit_code == 0, done.output
    scorer, inputs = verax.tables.encoded(model, FRAME[:6], background=FRAME)
    expected = calls.prediction_change(scorer, inputs, given.to_numpy()).value
    np.testing.assert_allclose(pd.read_parquet(tmp_path / "scores.parquet")["pc"], expected, rtol=1e-9)


def test_plain_numbers_with_gaps_and_its_own_training() -> None:
    numbers = FRAME[["income", "late"]].astype(float)
    yes = (LABELS["two classes"] == "yes").astype(int)
    plain = catboost.CatBoost({"loss_function": "Logloss", **SETTINGS}).fit(numbers, yes)
    turned = numbers[["late", "income"]][:5]
    result = calls.prediction_change(plain, turned, np.ones((5, 2)), target=1, baselines=1.0)
    expected = plain.predict(numbers[:5], prediction_type="Probability")[:, 1]
    np.testing.assert_allclose(result.morf[:, 0], expected, rtol=1e-6)
    array = catboost.CatBoostRegressor(**SETTINGS).fit(numbers.to_numpy(), LABELS["values"])
    assert verax.Scorer(array).feature_names is None  # it numbers columns without names


def test_what_cannot_be_taken_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="CatBoostClassifier is not fitted; call fit first"):
        adapt(catboost.CatBoostClassifier(), None, None)
    ranks = catboost.CatBoost({"loss_function": "YetiRank", **SETTINGS})
    ranks.fit(catboost.Pool(FRAME[["late"]], LABELS["values"] > 45, group_id=np.arange(N) // 8))
    with pytest.raises(ValueError, match=r"loss function YetiRank.*; expected one of a classifier or a regressor"):
        adapt(ranks, None, None)
    with pytest.raises(TypeError, match=r"cannot score rows of numbers .*categories as text"):
        adapt(fitted("values"), None, None)(torch.ones(2, 4), "numpy")
    scorer, inputs = verax.tables.encoded(fitted("values"), FRAME[:4], background=FRAME)
    with pytest.raises(TypeError, match=r"shap cannot read splits by category \(column town\)"):
        calls.explained(TreeShap(interventional=True), scorer, inputs, background=inputs)
    (tmp_path / "odd.cbm").write_bytes(b"no model")
    with pytest.raises(ModelFileError, match=r"odd.cbm: cannot be opened as CatBoost model .*save_model\(path\)"):
        open_model(tmp_path / "odd.cbm")
