"""shap's explanation of a binary classifier is about class 1: every row is rated for that class, or the call raises."""

from typing import Any

import numpy as np
import pytest

import calls

shap = pytest.importorskip("shap", reason="needs the extra shap")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of shap's own imports


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any]:
    """A gradient boosting classifier of tumours, rows of both classes, and training rows."""
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415  # after the extra was looked for
    from sklearn.ensemble import GradientBoostingClassifier  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    model = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(x[:400], y[:400])
    return model, x[400:], x[:400]


@pytest.fixture(scope="module")
def explanation(data: Any) -> Any:
    model, x, _ = data
    return shap.TreeExplainer(model)(x)


def test_every_row_is_rated_with_the_right_sign(data: Any, explanation: Any) -> None:
    model, x, _ = data
    assert set(model.predict(x)) == {0, 1}
    wanted = calls.evaluate(model, x, {"shap": explanation.values}, ["pc"], target=1)["pc"].value["shap"]
    compared = calls.compare(model, x, {"shap": explanation}, ["pc"]).evaluation["pc"]
    np.testing.assert_array_equal(compared.value["shap"], wanted)
    assert (compared.target == 1).all()
    np.testing.assert_array_equal(calls.evaluate(model, x, explanation, ["pc"])["pc"].value, wanted)
    np.testing.assert_array_equal(calls.prediction_change(model, x, explanation).value, wanted)
    totals = calls.stream(model, x, {"shap": explanation}, ["pc"]).totals()
    assert totals["pc"].mean()["shap"].mean == pytest.approx(wanted.mean())
    batches = [(x[rows], {"shap": explanation[rows]}) for rows in (slice(0, 100), slice(100, 169))]
    assert calls.stream(model, batches, metrics=["pc"]).totals()["pc"].mean()["shap"].mean == pytest.approx(
        wanted.mean()
    )


def test_the_result_says_which_class_was_followed(data: Any, explanation: Any, tmp_path: Any) -> None:
    model, x, _ = data
    found = calls.compare(model, x, {"shap": explanation}, ["pc"])
    note = "shap: the explanation is of class 1, which is tracked for all inputs."
    about = "Model: GradientBoostingClassifier; tracked: probability of class 1; removed features: 0"
    found.save(tmp_path / "page.html")
    for shown in (repr(found), found._repr_html_(), repr(found.evaluation), repr(found.evaluation["pc"])):
        assert note in shown
        assert about in shown
    page = (tmp_path / "page.html").read_text()
    assert note in page
    assert "probability of class 1" in page
    assert "GradientBoostingClassifier" in page


def test_labels_name_the_class(data: Any) -> None:
    model, x, train = data
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    linear = LogisticRegression().fit(train, np.where(model.predict(train) == 1, "benign", "malignant"))
    found = calls.evaluate(linear, x, {"shap": shap.LinearExplainer(linear, train)(x)}, ["pc"])
    assert "the explanation is of class 1 (malignant)" in repr(found)
    assert (found["pc"].target == 1).all()
    wanted = calls.prediction_change(linear, x, linear.coef_ * (x - train.mean(0)), target="malignant").value
    np.testing.assert_allclose(found["pc"].value["shap"], wanted, atol=0.05)


def test_another_target_raises_and_names_both_classes(data: Any, explanation: Any) -> None:
    model, x, _ = data
    with pytest.raises(ValueError, match=r"target: expected .*\['shap'\] explains, class 1 in row 0 .*got class 0"):
        calls.compare(model, x, {"shap": explanation}, ["pc"], target=0)
    with pytest.raises(ValueError, match=r"target: expected the class that .* explains, class 1"):
        calls.compare(model, x, {"shap": explanation}, ["pc"], target=model.predict(x))
    same = calls.compare(model, x, {"shap": explanation}, ["pc"], target=1)
    assert (same.evaluation["pc"].target == 1).all()


def test_values_that_sum_to_nothing_known_raise_and_name_what_to_pass(data: Any, explanation: Any) -> None:
    model, x, _ = data
    scaled = shap.Explanation(3 * explanation.values, explanation.base_values, explanation.data)
    with pytest.raises(ValueError, match=r"attributions\['shap'\]: which class .* is not known.*target=1"):
        calls.compare(model, x, {"shap": scaled}, ["pc"])
    calls.compare(model, x, {"shap": scaled}, ["pc"], target=1)


def test_an_explanation_of_other_rows_is_told_by_its_shape(data: Any, explanation: Any) -> None:
    model, x, _ = data
    with pytest.raises(ValueError, match=r"shape \(169, 30\) does not fit inputs of shape \(5, 30\)"):
        calls.evaluate(model, x[:5], explanation, ["pc"])


def test_two_explanations_of_different_classes_raise(data: Any, explanation: Any) -> None:
    model, x, _ = data
    other = shap.Explanation(-explanation.values, -explanation.base_values, explanation.data)
    with pytest.raises(ValueError, match="attributions: one explains class 1 and other class 0 in row 0"):
        calls.compare(model, x, {"one": explanation, "other": other}, ["pc"])


def test_values_of_the_predicted_class_are_known_too(data: Any, explanation: Any) -> None:
    model, x, _ = data
    sign = 2 * model.predict(x) - 1
    predicted = shap.Explanation(sign[:, None] * explanation.values, sign * explanation.base_values, x)
    found = calls.evaluate(model, x, predicted, ["pc"])["pc"]
    np.testing.assert_array_equal(found.target, model.predict(x))
    wanted = calls.evaluate(model, x, explanation.values, ["pc"], target=1)["pc"]
    assert found.value.mean() == pytest.approx(wanted.value.mean(), abs=0.01)


def test_of_one_value_per_class_that_of_the_followed_class_is_taken(data: Any) -> None:
    model, x, train = data
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415

    forest = RandomForestClassifier(10, random_state=0).fit(train, model.predict(train))
    both = shap.TreeExplainer(forest)(x)
    assert both.values.shape == (*x.shape, 2)
    predicted = forest.predict(x)
    picked = np.where(predicted[:, None] == 1, both.values[..., 1], both.values[..., 0])
    for target in (None, predicted):
        found = calls.evaluate(forest, x, {"shap": both}, ["pc"], target=target)["pc"]
        np.testing.assert_array_equal(found.value["shap"], calls.evaluate(forest, x, picked, ["pc"])["pc"].value)
    sliced = calls.evaluate(forest, x, both[..., 0], ["pc"])["pc"]
    assert (sliced.target == 0).all()
    np.testing.assert_array_equal(sliced.value, calls.evaluate(forest, x, both, ["pc"], target=0)["pc"].value)


@pytest.mark.parametrize("package", ["xgboost", "lightgbm"])
def test_other_boosters(data: Any, package: str) -> None:
    model, x, train = data
    module = pytest.importorskip(package)
    quiet = {"verbose": -1} if package == "lightgbm" else {}
    kind = module.XGBClassifier if package == "xgboost" else module.LGBMClassifier
    boosted = kind(n_estimators=20, n_jobs=1, **quiet).fit(train, model.predict(train))
    made = shap.TreeExplainer(boosted)(x)
    found = calls.evaluate(boosted, x, made, ["pc"])["pc"]
    assert (found.target == 1).all()
    np.testing.assert_array_equal(found.value, calls.evaluate(boosted, x, made.values, ["pc"], target=1)["pc"].value)


def test_arrays_of_class_1_for_all_rows_give_a_warning_that_names_the_class(data: Any, explanation: Any) -> None:
    model, x, _ = data
    with pytest.warns(UserWarning, match=r"target: shap score below 0 for inputs predicted as class 0 .*target=\"1\""):
        wrong = calls.evaluate(model, x, {"shap": explanation.values}, ["pc"])["pc"].value["shap"]
    right = calls.evaluate(model, x, {"shap": explanation}, ["pc"])["pc"].value["shap"]
    zero = model.predict(x) == 0
    np.testing.assert_allclose(wrong[zero], -right[zero], atol=1e-6)
    assert right.mean() > wrong.mean() + 0.1


def test_arrays_of_the_predicted_class_beside_target_1_give_the_other_warning(data: Any, explanation: Any) -> None:
    model, x, _ = data
    sign = 2 * model.predict(x)[:, None] - 1
    with pytest.warns(UserWarning, match=r"predicted as class 0 .* leave target out"):
        calls.evaluate(model, x, sign * explanation.values, ["pc"], target=1)


@pytest.mark.filterwarnings("error:target")
@pytest.mark.parametrize("named", [True, False])
def test_an_explanation_whose_class_is_known_is_not_said_to_be_of_another(
    data: Any, explanation: Any, named: bool
) -> None:
    """However badly it scores: here it says the reverse of what the model does for inputs predicted as class 0."""
    model, x, _ = data
    sign = 2 * model.predict(x)[:, None] - 1
    sums = explanation.values.sum(1, keepdims=True)
    reverse = sign * explanation.values
    reverse += (sums - reverse.sum(1, keepdims=True)) * (np.arange(x.shape[1]) == reverse.shape[1] - 1)  # the class
    wrong = shap.Explanation(reverse, explanation.base_values, x)
    for target in (None, 1):
        found = calls.evaluate(model, x, {"shap": wrong} if named else wrong, ["pc"], target=target)
        assert (found["pc"].target == 1).all()


@pytest.mark.filterwarnings("error")
def test_right_attributions_and_random_ones_give_no_warning(data: Any, explanation: Any) -> None:
    model, x, _ = data
    calls.evaluate(model, x, explanation.values, ["pc"], target=1)
    sign = 2 * model.predict(x)[:, None] - 1
    calls.evaluate(model, x, {"right": sign * explanation.values, "wrong": -sign * explanation.values}, ["pc"])
    noise = np.random.default_rng(0).normal(size=(20, *x.shape))
    calls.evaluate(model, x, {str(number): one for number, one in enumerate(noise)}, ["pc"])
