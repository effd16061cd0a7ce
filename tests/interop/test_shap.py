"""Explanations of shap, the real ones and look-alikes."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import calls
from verax.interop.shap import from_explanation

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 4))
VALUES = RNG.normal(size=(20, 4, 3))


def explanation(values, data=X):
    return SimpleNamespace(values=values, data=data, base_values=np.zeros(len(values)))


def test_values_of_one_output():
    inputs, attributions = from_explanation(explanation(VALUES[..., 0]))
    np.testing.assert_array_equal(inputs, X)
    np.testing.assert_array_equal(attributions, VALUES[..., 0])


@pytest.mark.parametrize("target", [2, np.int64(2), np.full(20, 2), [2] * 20])
def test_the_class_is_picked(target):
    found = from_explanation(explanation(VALUES), target)
    np.testing.assert_array_equal(found.inputs, X)
    np.testing.assert_array_equal(found.attributions, VALUES[..., 2])


def test_a_class_for_each_row():
    target = RNG.integers(0, 3, 20)
    found = from_explanation(explanation(VALUES), target).attributions
    np.testing.assert_array_equal(found, np.stack([VALUES[row, :, one] for row, one in enumerate(target)]))


def test_images_with_and_without_classes():
    data, values = RNG.normal(size=(5, 6, 6, 3)), RNG.normal(size=(5, 6, 6, 3, 2))
    np.testing.assert_array_equal(from_explanation(explanation(values, data), 1).attributions, values[..., 1])
    np.testing.assert_array_equal(from_explanation(explanation(values[..., 0], data)).attributions, values[..., 0])


@pytest.mark.parametrize(("given", "wanted"), [(np.float32, np.float32), (np.int64, np.float64), (bool, np.float64)])
def test_data_become_floating_point_numbers(given, wanted):
    assert from_explanation(explanation(VALUES[..., 0], (3 * X).astype(given))).inputs.dtype == wanted


ERRORS = {
    "no explanation": (X, None, TypeError, "explanation: expected an object like shap.Explanation, got none of its"),
    "no data": (explanation(VALUES, None), 1, TypeError, "got none of its data"),
    "text": (explanation(VALUES, X.astype(str)), 1, TypeError, "expected data to hold numbers, got <U"),
    "one row": (explanation(VALUES[0], X[0]), 1, ValueError, r"got shape \(4,\); take a slice of one row"),
    "other rows": (explanation(VALUES[:3]), 1, ValueError, r"values of shape \(3, 4, 3\) do not fit data .*\(20, 4\)"),
    "no class": (explanation(VALUES), None, ValueError, "target: the values explain 3 classes; say which"),
    "class of one output": (explanation(VALUES[..., 0]), 1, ValueError, "target: .*leave target out"),
    "no such class": (explanation(VALUES), 3, ValueError, "target: expected a class number, one of 0 to 2.*got 3"),
    "too few classes": (explanation(VALUES), [1, 2], ValueError, "one for each of 20 rows; got"),
    "name of a class": (explanation(VALUES), "yes", TypeError, "target: expected a class number.*'yes'"),
}


@pytest.mark.parametrize(("given", "target", "error", "message"), ERRORS.values(), ids=ERRORS)
def test_errors(given, target, error, message):
    with pytest.raises(error, match=message):
        from_explanation(given, target)


LABELS = np.digitize(X[:, 0] - X[:, 1], [-0.5, 0.5])


@pytest.mark.filterwarnings("ignore")  # of shap's own imports
def test_explanations_of_the_real_package():
    shap = pytest.importorskip("shap")
    forest = RandomForestClassifier(n_estimators=5, random_state=0).fit(X, LABELS)
    target = forest.predict(X)
    made = shap.TreeExplainer(forest, X)(X, check_additivity=False)
    assert made.values.shape == (20, 4, 3)
    inputs, attributions = from_explanation(made, target)
    result = calls.evaluate(forest, inputs, {"shap": attributions, "not": -attributions}, ["pc"], target=target)["pc"]
    assert result.value["shap"].mean() > 0 > result.value["not"].mean()
    assert attributions.shape == inputs.shape == (20, 4)
    slice_of_one_class = from_explanation(made[..., 1])
    np.testing.assert_array_equal(slice_of_one_class.attributions, made.values[..., 1])

    binary = LogisticRegression().fit(X, LABELS > 0)
    inputs, attributions = from_explanation(shap.LinearExplainer(binary, X)(X))
    np.testing.assert_allclose(attributions, binary.coef_ * (X - X.mean(0)), rtol=0, atol=1e-6)


def test_what_comes_back_can_be_passed_on_whole():
    model = LogisticRegression().fit(X, np.arange(20) % 2)
    pair = from_explanation(explanation(VALUES), target=1)
    wanted = calls.prediction_change(model, X, VALUES[..., 1], target=1).value
    np.testing.assert_array_equal(calls.prediction_change(model, X, pair, target=1).value, wanted)
    found = calls.compare(model, X, {"shap": pair}, ["pc"], target=1)
    np.testing.assert_array_equal(found.evaluation["pc"].value["shap"], wanted)
