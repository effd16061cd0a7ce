"""Targets: numbers are columns, labels are text, and what could be either is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import calls
import verax
from verax.scoring.class_scores import ClassNumbers, checked_target, resolve_target

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
A = RNG.normal(size=(40, 3))
CLASSES = np.digitize(X[:, 0], [-0.5, 0.5])


def classifier(labels):
    return LogisticRegression().fit(X, np.asarray(labels)[CLASSES])


def columns(model, target):
    return calls.prediction_change(model, X, A, target=target).target


OTHER_NUMBERS = {
    "1, 2, 3": [1, 2, 3],
    "a gap": [0, 1, 3],
    "-1, 0, 1": [-1, 0, 1],
    "floats": [1.0, 2.0, 3.0],
    "text of numbers": ["1", "2", "3"],
    "0-based in another order, as text": ["10", "11", "9"],
}


@pytest.mark.parametrize("labels", OTHER_NUMBERS.values(), ids=OTHER_NUMBERS)
@pytest.mark.parametrize("target", [1, np.int64(1), [1] * 40, torch.ones(40, dtype=torch.int64)])
def test_a_bare_number_is_refused_where_labels_are_other_numbers(labels, target):
    first, second = sorted(labels)[:2]
    with pytest.raises(ValueError, match=rf"target: 1 may be a label .*label {first} is column 0, label {second} is"):
        columns(classifier(labels), target)


@pytest.mark.parametrize("labels", OTHER_NUMBERS.values(), ids=OTHER_NUMBERS)
def test_labels_as_text_follow_their_class(labels):
    model = classifier(labels)
    for column, label in enumerate(model.classes_.tolist()):
        result = calls.prediction_change(model, X, A, target=str(label))
        assert set(result.target) == {column}
        np.testing.assert_allclose(result.morf[:, 0], model.predict_proba(X)[:, column], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(columns(model, None), model.predict_proba(X).argmax(1))


def test_numbers_are_columns_where_labels_are_words_or_count_from_zero():
    for labels in (["low", "middle", "high"], [0, 1, 2], [0.0, 1.0, 2.0]):
        assert set(columns(classifier(labels), 1)) == {1}


KINDS = {
    "list": list,
    "tuple": tuple,
    "NumPy": np.array,
    "NumPy objects": lambda labels: np.array(labels, dtype=object),
    "pandas": pd.Series,
    "pandas categories": lambda labels: pd.Series(labels, dtype="category"),
    "polars": pl.Series,
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_one_label_per_row(kind):
    model = classifier(["<=50K", ">50K", "unknown"])
    labels = [[">50K", "<=50K"][row % 2] for row in range(40)]
    np.testing.assert_array_equal(columns(model, kind(labels)), [1, 0] * 20)
    assert set(columns(model, np.str_(">50K"))) == {1}


MODELS = {
    "pipeline": lambda y: make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y),
    "forest": lambda y: RandomForestClassifier(3, random_state=0).fit(X, y),
    "predict_proba": lambda y: verax.Scorer(
        LogisticRegression().fit(X, y).predict_proba, returns="probabilities", takes="numpy"
    ),
    "LightGBM": lambda y: pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=2, verbose=-1).fit(X, y),
    "torch, labels said": lambda y: verax.Scorer(nn.Linear(3, 2).double(), labels=[1, 2]),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.filterwarnings("ignore:All scores are saturated")
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_every_kind_of_model_that_knows_its_labels(make):
    model = make(1 + (CLASSES > 0))
    with pytest.raises(ValueError, match="label 1 is column 0, label 2 is column 1"):
        columns(model, 1)
    assert set(columns(model, "1")) == {0}
    assert set(columns(model, "2")) == {1}
    result = calls.explained(verax.attribution.Random(), model, X, target="2")
    assert result.shape == X.shape
    assert set(calls.compare(model, X, {"a": A}, ["pc"], target="2").evaluation["pc"].target) == {1}


def test_tune_takes_labels_and_goes_on_with_columns():
    pytest.importorskip("optuna")
    model = LogisticRegression().fit(X, 1 + (CLASSES > 0))
    settings = {"methods": ("lime", "random"), "trials": 3}
    result = calls.tune(model, X, target="2", **settings)
    expected = calls.tune(verax.Scorer(model.predict_proba, returns="probabilities", takes="numpy", labels="ab"), X,
                        target=1, **settings)  # fmt: skip
    assert result.table["dpc"].to_list() == expected.table["dpc"].to_list()


def test_what_is_wrong_with_labels_is_said():
    model = classifier(["low", "middle", "high"])
    with pytest.raises(ValueError, match="target: the model has no label 'tall'; its labels are high, low, middle"):
        columns(model, "tall")
    with pytest.raises(ValueError, match="target: the model has no label 'tall' in row 39"):
        columns(model, ["low"] * 39 + ["tall"])
    with pytest.raises(ValueError, match=r"target: expected one class per row, shape \(40,\), got shape \(2,\)"):
        columns(model, ["low", "high"])
    with pytest.raises(ValueError, match=r"target: got the label 'low', but the model does not know .*labels=\["):
        columns(nn.Linear(3, 2).double(), "low")
    with pytest.raises(ValueError, match=r"labels: the model has 2 classes, got 3 labels \(a, b, c\)"):
        columns(verax.Scorer(nn.Linear(3, 2).double(), labels="abc"), 1)


def test_columns_that_were_resolved_are_never_labels():
    predicted = torch.tensor([0, 0, 1])
    again = checked_target(ClassNumbers(torch.tensor([1, 0, 1])), 3)
    assert resolve_target(again, predicted, 2, labels=(1, 2)).tolist() == [1, 0, 1]


# One class for attributions and metrics


class Tie(nn.Module):
    """Logits that differ by less than single precision can tell of probabilities."""

    def forward(self, x):
        return torch.stack((x[:, 0] * 0, x[:, 0] * 0 + 1e-9), 1)


def test_attributions_and_metrics_agree_about_the_class_at_a_tie():
    x = torch.ones(3, 2)
    assert torch.softmax(Tie()(x), 1)[0].unique().numel() == 1  # a tie of probabilities
    for output in ("probability", "logit"):
        assert calls.prediction_change(Tie(), x, x, output=output).target.tolist() == [1, 1, 1]
    with verax.Scorer(Tie()).session(x, "torch", "logit", gradients=True) as session:
        assert session.tracked(session.clean_outputs(x, decide=True), None)[0].tolist() == [1, 1, 1]


@pytest.mark.parametrize("returns", ["logits", "probabilities"])
def test_the_class_does_not_depend_on_the_score_that_is_followed(returns):
    model = verax.Scorer(lambda x: torch.softmax(40 * x, 1), returns=returns)
    x = torch.tensor(X).float()
    result = [calls.prediction_change(model, x, x, output=output).target for output in ("probability", "logit")]
    assert torch.equal(*result)
    assert torch.equal(result[0], torch.softmax(40 * x, 1).argmax(1))
