"""Data frames: columns are found by name, wherever they are."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import calls
import verax
from verax.scoring.frames import column_order

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
NAMES = ["age", "debt", "income", "late payments"]
FRAME = pd.DataFrame(X, columns=NAMES)
LABELS = (X @ [2.0, -1.0, 0.5, 0.1] > 0).astype(int)
OTHER = [3, 1, 0, 2]
SHUFFLED = FRAME.iloc[:, OTHER]
A = X * [2.0, -1.0, 0.5, 0.1]
BASELINES = X.mean(0)
MEAN = pd.Series(BASELINES, index=NAMES)


def xgboost():
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=4, n_jobs=1).fit(FRAME, LABELS)


def lightgbm():
    library = pytest.importorskip("lightgbm")
    return library.LGBMClassifier(n_estimators=4, min_child_samples=3, n_jobs=1, verbose=-1).fit(FRAME, LABELS)


def logistic():
    return LogisticRegression().fit(FRAME, LABELS)


def module():
    torch.manual_seed(0)
    return nn.Linear(4, 2).double()


MODELS = {
    "scikit-learn": logistic,
    "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()).fit(FRAME, LABELS),
    "search": lambda: GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2).fit(FRAME, LABELS),
    "predict_proba": lambda: verax.Scorer(
        make_pipeline(StandardScaler(), LogisticRegression()).fit(FRAME, LABELS).predict_proba,
        returns="probabilities",
        takes="numpy",
    ),
    "XGBoost": xgboost,
    "XGBoost booster": lambda: xgboost().get_booster(),
    "LightGBM": lightgbm,
    "LightGBM booster": lambda: lightgbm().booster_,
    "torch, names said": lambda: verax.Scorer(module(), feature_names=NAMES),
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")


@every_model
def test_columns_in_another_order_score_the_same(make):
    model = make()
    expected = calls.prediction_change(model, X, A, target=1, baselines=BASELINES)
    frame_of_attributions = pd.DataFrame(A, columns=NAMES)
    given = {
        "frames": (SHUFFLED, frame_of_attributions, MEAN),
        "frames in a third order": (SHUFFLED, frame_of_attributions.iloc[:, ::-1], MEAN.iloc[::-1]),
        "arrays beside a frame": (SHUFFLED, A[:, OTHER], BASELINES[OTHER]),
        "tensors beside a frame": (SHUFFLED, torch.tensor(A[:, OTHER].copy()), torch.tensor(BASELINES[OTHER])),
        "polars": (pl.from_pandas(SHUFFLED), pl.from_pandas(frame_of_attributions), MEAN.iloc[::-1]),
        "the frame itself": (FRAME, A, BASELINES),
        "frames beside an array": (X, frame_of_attributions.iloc[:, OTHER], MEAN.iloc[OTHER]),
    }
    for name, (inputs, attributions, baselines) in given.items():
        result = calls.prediction_change(model, inputs, attributions, target=1, baselines=baselines)
        np.testing.assert_array_equal(result.value, expected.value, err_msg=name)
        np.testing.assert_array_equal(result.morf, expected.morf, err_msg=name)


MEASURES = {
    "evaluate": lambda *given: calls.evaluate(*given, ["pc"], target=1)["pc"].value["a"],
    "compare": lambda *given: calls.compare(*given, ["pc"], target=1).evaluation["pc"].value["a"],
    "dpc": lambda *given: calls.directed_prediction_change(*given, target=1).value["a"],
    "infidelity": lambda *given: calls.infidelity(*given, target=1, samples=30).value["a"],
}


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_every_function_finds_columns_by_name(measure):
    model = logistic()
    frames = {"a": pd.DataFrame(A, columns=NAMES), "b": A[:, OTHER]}
    arrays = {"a": A, "b": A}
    np.testing.assert_array_equal(measure(model, SHUFFLED, frames), measure(model, X, arrays))


def test_attributions_come_back_in_the_order_of_the_frame():
    model, method = logistic(), verax.attribution.LimeTabular(samples=64)
    expected = method(verax.Problem(model, X, background=X))
    result = method(verax.Problem(model, SHUFFLED, background=FRAME))
    np.testing.assert_array_equal(result, expected[:, OTHER])
    np.testing.assert_array_equal(method(verax.Problem(model, SHUFFLED, background=X[:, OTHER])), result)


def test_methods_inside_evaluate_see_the_models_order():
    model = verax.Scorer(module(), feature_names=NAMES)
    methods = {"gradient": verax.attribution.Gradient()}
    expected = calls.evaluate(model, X, methods, ["pc"])["pc"].value["gradient"]
    result = calls.evaluate(model, SHUFFLED, methods, ["pc"])["pc"].value["gradient"]
    np.testing.assert_array_equal(result, expected)


def test_groups_follow_their_columns():
    model, groups = logistic(), np.array([0, 1, 1, 2])
    expected = calls.prediction_change(model, X, A, features=groups)
    np.testing.assert_array_equal(
        calls.prediction_change(model, SHUFFLED, A[:, OTHER], features=groups[OTHER]).value, expected.value
    )
    by_name = pd.Series(groups, index=NAMES).iloc[::-1]
    result = calls.prediction_change(model, SHUFFLED, A[:, OTHER], features=by_name)
    np.testing.assert_array_equal(result.value, expected.value)


def test_tune_finds_columns_by_name():
    pytest.importorskip("optuna")
    model, settings = logistic(), {"methods": ("lime", "random"), "trials": 3}
    expected = calls.tune(model, X, background=X, **settings)
    result = calls.tune(model, SHUFFLED, background=FRAME, **settings)
    assert result.table["dpc"].to_list() == expected.table["dpc"].to_list()


@every_model
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_missing_and_unknown_columns_are_named(make, library):
    model = make()
    convert = (lambda frame: frame) if library == "pandas" else pl.from_pandas
    for label, frame in {
        "missing: debt": SHUFFLED.drop(columns="debt"),
        "unknown: colour": SHUFFLED.assign(colour=0.0),
        "missing: age; unknown: years": SHUFFLED.rename(columns={"age": "years"}),
    }.items():
        with pytest.raises(ValueError, match=f"inputs: expected the columns that the model knows, .*{label}"):
            calls.prediction_change(model, convert(frame), A)


def test_attributions_of_other_columns_than_the_inputs_are_refused():
    model = module()  # which knows no names
    good, bad = pd.DataFrame(A, columns=NAMES), pd.DataFrame(A, columns=["age", "debt", "income", "rent"])
    expected = calls.prediction_change(model, X, A).value
    np.testing.assert_array_equal(calls.prediction_change(model, FRAME, good.iloc[:, OTHER]).value, expected)
    with pytest.raises(ValueError, match=r"attributions\['a'\]: expected the columns that the inputs have, .*rent"):
        calls.prediction_change(model, FRAME, {"a": bad})


def test_a_column_that_comes_twice():
    with pytest.raises(ValueError, match="inputs: expected every column once, got more of age"):
        calls.prediction_change(logistic(), pd.concat([SHUFFLED, FRAME[["age"]]], axis=1), A)


def test_numbered_columns_are_plain_arrays():
    model = logistic()
    expected = calls.prediction_change(model, X, A).value
    np.testing.assert_array_equal(calls.prediction_change(model, pd.DataFrame(X), pd.DataFrame(A)).value, expected)


def test_a_pipeline_by_place_is_encoded_by_name():
    """A column transformer that was told places takes whatever is there."""
    from sklearn.compose import make_column_transformer  # noqa: PLC0415

    columns = make_column_transformer((StandardScaler(), [0, 1]), (StandardScaler(), [2, 3]))
    pipeline = make_pipeline(columns, LogisticRegression()).fit(FRAME, LABELS)
    expected = verax.adapters.encoded(pipeline, FRAME).inputs
    np.testing.assert_array_equal(verax.adapters.encoded(pipeline, SHUFFLED).inputs, expected)
    np.testing.assert_array_equal(verax.adapters.encoded(pipeline, SHUFFLED.assign(id=1)).inputs, expected)
    with pytest.raises(ValueError, match=r"frame: .*missing: debt"):
        verax.adapters.encoded(pipeline, SHUFFLED.drop(columns="debt"))


def test_there_and_back():
    order = column_order(NAMES, SHUFFLED)
    values = RNG.normal(size=(2, 5, 4))
    np.testing.assert_array_equal(order.back(order("x", values)), values)
    assert column_order(NAMES, FRAME).places is None
    assert order("baselines", 0.0) == 0.0
