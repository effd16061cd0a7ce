"""Every kind of model: torch modules, scikit-learn classifiers, callables on torch or NumPy arrays."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from torch import nn

import calls
import verax

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 5))
A = RNG.standard_normal((60, 5))
LABELS = (X @ [2.0, -1.0, 0.5, 0.0, 1.0] + 0.3 * RNG.standard_normal(60) > 0).astype(int)
LOGISTIC = LogisticRegression().fit(X, LABELS)
WEIGHT, BIAS = LOGISTIC.coef_[0], LOGISTIC.intercept_[0]


def as_module(outputs):
    module = nn.Linear(5, outputs, dtype=torch.float64)
    with torch.no_grad():
        module.weight.copy_(torch.tensor(WEIGHT if outputs == 1 else np.stack((0 * WEIGHT, WEIGHT))))
        module.bias.copy_(torch.tensor([BIAS] if outputs == 1 else [0, BIAS]))
    return module


def numpy_logit(x):
    assert isinstance(x, np.ndarray)
    return x @ WEIGHT + BIAS


def torch_probabilities(x):
    assert isinstance(x, torch.Tensor)
    logit = x @ torch.tensor(WEIGHT) + BIAS
    return torch.stack((torch.sigmoid(-logit), torch.sigmoid(logit)), dim=1)


SAME_MODEL = {
    "scikit-learn": LOGISTIC,
    "scikit-learn in a Scorer": verax.Scorer(LOGISTIC),
    "scikit-learn, returns said": verax.Scorer(LOGISTIC, returns="probabilities"),
    "module with one logit": verax.Scorer(as_module(1), returns="logits"),
    "module with two logits": as_module(2),
    "module with probabilities": verax.Scorer(nn.Sequential(as_module(1), nn.Sigmoid()), returns="probabilities"),
    "numpy callable": verax.Scorer(numpy_logit, returns="logits", takes="numpy"),
    "torch callable": verax.Scorer(torch_probabilities, returns="probabilities", takes="torch"),
    "predict_proba": verax.Scorer(LOGISTIC.predict_proba, returns="probabilities", takes="numpy"),
    "decision_function": verax.Scorer(LOGISTIC.decision_function, returns="logits", takes="numpy"),
}
same_model = pytest.mark.parametrize("model", SAME_MODEL.values(), ids=SAME_MODEL)


@same_model
@pytest.mark.parametrize("measure", [calls.prediction_change, calls.directed_prediction_change])
def test_one_logistic_model_scores_the_same_however_it_is_given(model, measure):
    expected = measure(as_module(2), torch.tensor(X), torch.tensor(A))
    result = measure(model, X, A)
    np.testing.assert_allclose(result.value, expected.value, rtol=0, atol=1e-6)
    np.testing.assert_allclose(result.morf, expected.morf, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(result.target, expected.target)
    assert result.rows == expected.rows


@same_model
def test_one_logistic_model_has_the_same_infidelity_however_it_is_given(model):
    expected = calls.infidelity(as_module(2), torch.tensor(X), torch.tensor(A), samples=20)
    np.testing.assert_allclose(calls.infidelity(model, X, A, samples=20).value, expected.value, rtol=0, atol=1e-6)


@same_model
@pytest.mark.parametrize(("convert", "kind"), [(np.asarray, np.ndarray), (torch.tensor, torch.Tensor)])
def test_results_are_the_kind_of_array_that_the_inputs_are(model, convert, kind):
    outcome = calls.evaluate(model, convert(X), convert(A), samples=20)
    for result in outcome.values():
        assert isinstance(result.value, kind)
        assert isinstance(result.target, kind)
        assert result.value.shape == (60,)
    assert isinstance(outcome["pc"].morf, kind)
    assert isinstance(outcome["infidelity"].standard_error, kind)


def test_inputs_decide_the_kind_whatever_the_attributions_are():
    model = as_module(2)
    assert isinstance(calls.prediction_change(model, X, torch.tensor(A)).value, np.ndarray)
    assert isinstance(calls.prediction_change(model, torch.tensor(X), A).value, torch.Tensor)


def test_lists_count_as_numpy():
    result = calls.prediction_change(as_module(2), X[:3].tolist(), A[:3].tolist())
    np.testing.assert_array_equal(result.value, calls.prediction_change(as_module(2), X[:3], A[:3]).value)


@pytest.mark.parametrize("view", [np.flipud, np.asfortranarray, np.copy])
def test_reversed_fortran_and_read_only_arrays(view):
    x, a = view(X[:6]), view(A[:6])
    x.flags.writeable = a.flags.writeable = False
    expected = calls.prediction_change(LOGISTIC, x.copy(order="C"), a.copy(order="C")).value
    np.testing.assert_array_equal(calls.prediction_change(LOGISTIC, x, a).value, expected)


def test_stacks_and_dicts_in_both_kinds():
    for convert, kind in ((np.asarray, np.ndarray), (torch.tensor, torch.Tensor)):
        single = calls.prediction_change(LOGISTIC, convert(X), convert(A)).value
        stack = calls.prediction_change(LOGISTIC, convert(X), convert(np.stack((A, X)))).value
        named = calls.prediction_change(LOGISTIC, convert(X), {"a": convert(A), "x": convert(X)}).value
        assert isinstance(stack, kind)
        assert stack.shape == (2, 60)
        assert list(named) == ["a", "x"]
        np.testing.assert_array_equal(stack[0], single)
        np.testing.assert_array_equal(named["a"], single)
        np.testing.assert_array_equal(named["x"], stack[1])


@pytest.mark.parametrize(
    "classifier",
    [
        RandomForestClassifier(n_estimators=5, random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(), RandomForestClassifier(n_estimators=5, random_state=0)),
    ],
    ids=["forest", "pipeline", "pipeline of a forest"],
)
def test_scikit_learn_curves_are_predict_proba_of_the_perturbed_rows(classifier):
    labels = np.digitize(X[:, 0] - X[:, 1], [-0.7, 0.7])
    classifier.fit(X, labels)
    x, a = X[:4], A[:4]
    result = calls.prediction_change(classifier, x, a)
    probability = classifier.predict_proba(x)
    np.testing.assert_array_equal(result.target, probability.argmax(1))
    for row in range(4):
        removed = x[row].copy()
        expected = [probability[row].max()]
        for feature in np.argsort(-a[row], kind="stable"):
            removed[feature] = 0.0
            expected.append(classifier.predict_proba(removed[None])[0, result.target[row]])
        np.testing.assert_allclose(result.morf[row], expected, rtol=0, atol=1e-12)


def test_classes_of_a_scikit_learn_classifier_are_counted_in_its_own_order():
    named = LogisticRegression().fit(X, np.where(LABELS == 1, "yes", "no"))
    result = calls.prediction_change(named, X, A, target=list(named.classes_).index("yes"))
    np.testing.assert_allclose(result.morf[:, 0], LOGISTIC.predict_proba(X)[:, 1], rtol=0, atol=1e-6)


def test_decision_function_that_the_message_for_classifiers_without_probabilities_proposes():
    machine = LinearSVC().fit(X, LABELS)
    scorer = verax.Scorer(machine.decision_function, returns="logits", takes="numpy")
    result = calls.prediction_change(scorer, torch.tensor(X), torch.tensor(A), target=1, output="logit")
    np.testing.assert_allclose(result.morf[:, 0], machine.decision_function(X))


@pytest.mark.parametrize(("convert", "kind"), [(np.asarray, np.ndarray), (torch.tensor, torch.Tensor)])
def test_a_callable_gets_the_kind_of_the_inputs_unless_it_says_what_it_takes(convert, kind):
    kinds = []

    def model(x):
        kinds.append(type(x))
        return x[:, 0]

    calls.prediction_change(verax.Scorer(model, returns="logits"), convert(X), convert(A))
    assert set(kinds) == {kind}
    for takes, expected in (("numpy", np.ndarray), ("torch", torch.Tensor)):
        kinds.clear()
        calls.prediction_change(verax.Scorer(model, returns="logits", takes=takes), convert(X), convert(A))
        assert set(kinds) == {expected}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_callable_gets_the_precision_of_the_inputs(dtype):
    dtypes = set()

    def model(x):
        dtypes.add(x.dtype)
        return x[:, 0]

    calls.prediction_change(verax.Scorer(model, returns="logits"), X.astype(dtype), A)
    assert dtypes == {np.dtype(dtype)}


def test_a_callable_may_return_a_list():
    scorer = verax.Scorer(lambda x: [[float(row[0]), 0.0] for row in x], returns="logits")
    result = calls.prediction_change(scorer, X[:3], A[:3], target=0, output="logit")
    np.testing.assert_allclose(result.morf[:, 0], X[:3, 0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("model", [LOGISTIC, SAME_MODEL["predict_proba"]], ids=["scikit-learn", "NumPy callable"])
def test_numpy_models_take_bfloat16_inputs(model):
    x = torch.tensor(X).bfloat16()
    result = calls.prediction_change(model, x, A)
    expected = calls.prediction_change(model, x.double(), A)
    torch.testing.assert_close(result.value.double(), expected.value, rtol=0, atol=1e-5)


def note_of(model, x, error):
    with pytest.raises(error) as caught:
        calls.prediction_change(verax.Scorer(model, returns="logits"), x, A)
    return " ".join(getattr(caught.value, "__notes__", []))


def test_a_torch_callable_on_numpy_inputs_is_told_what_to_say():
    note = note_of(torch.sigmoid, X, TypeError)
    assert "called with a numpy batch" in note
    assert 'verax.Scorer(model, returns="logits", takes="torch")' in note


def test_a_numpy_callable_on_torch_inputs_is_told_what_to_say():
    note = note_of(lambda x: x.astype("float32"), torch.tensor(X), AttributeError)
    assert "called with a torch batch" in note
    assert 'verax.Scorer(model, returns="logits", takes="numpy")' in note


def test_errors_that_have_nothing_to_do_with_arrays_get_no_note():
    def broken(x):
        raise KeyError("no such column")

    assert note_of(broken, X, KeyError) == ""


class Shifted:
    """An adapter of one's own: it satisfies the protocol and derives from nothing."""

    def __init__(self, module, returns="logits"):
        self.module, self.returns, self.kinds = module, returns, []

    def __call__(self, batch, kind):
        self.kinds.append(kind)
        return self.module(batch)


def test_an_adapter_of_ones_own_is_taken_as_it_is():
    module, x = nn.Linear(4, 3), torch.randn(5, 4)
    adapter = Shifted(module)
    result = calls.evaluate(verax.Scorer(adapter), x, x, ["pc", "dpc"])
    expected = calls.evaluate(module, x, x, ["pc", "dpc"])
    assert torch.equal(result["dpc"].value, expected["dpc"].value)
    assert set(adapter.kinds) == {"torch"}
    gradient = verax.attribution.Gradient()
    assert torch.equal(
        *(gradient(verax.Problem(each, x)) for each in (adapter, module))
    )  # through the module that it holds
    calls.prediction_change(adapter, x.numpy(), x.numpy())
    assert adapter.kinds[-1] == "numpy"


def test_an_adapter_says_itself_what_it_returns_and_takes():
    with pytest.raises(ValueError, match="returns: the adapter says 'logits'; leave returns out"):
        verax.Scorer(Shifted(nn.Linear(4, 3)), returns="probabilities")
    with pytest.raises(ValueError, match="takes: only for plain callables"):
        verax.Scorer(Shifted(nn.Linear(4, 3)), takes="numpy")
    with pytest.raises(ValueError, match=r'model: expected an adapter whose returns is "logits" or .*odds'):
        verax.Scorer(Shifted(nn.Linear(4, 3), returns="odds"))
