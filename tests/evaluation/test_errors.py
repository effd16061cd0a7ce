"""Bad arguments and bad models: what is raised, what the message says, and that the model is left alone."""

import jaxtyping
import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from torch import nn

import calls
import verax
from verax.metrics import DirectedPredictionChange, Infidelity, PredictionChange, SensitivityN

N, D = 3, 4
X = torch.arange(1.0, 1 + N * D).reshape(N, D) / 10
A = -X
IMAGES = torch.arange(1.0, 1 + N * 2 * 4 * 4).reshape(N, 2, 4, 4) / 100
nan, inf = float("nan"), float("inf")


class Counting(nn.Module):
    """Three classes; counts how often it is called."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return x.flatten(1)[:, :3]


def changed(values, row, element, to):
    values = values.clone()
    values[row, element] = to
    return values


def returning(make, returns="logits"):
    """A model that answers a batch with ``make(batch)``."""
    return verax.Scorer(make, returns=returns)


def nan_in_row(row):
    return lambda x: torch.where((x == X[row]).all(1, keepdim=True), nan, x[:, :2])


def nan_where_row_was_perturbed(row):
    """NaN for rows that share some but not all elements with one input."""
    return lambda x: torch.where(((x == X[row]).any(1) & (x != X[row]).any(1))[:, None], nan, x[:, :2])


pc, dpc, infidelity, evaluate = (
    calls.prediction_change,
    calls.directed_prediction_change,
    calls.infidelity,
    calls.evaluate,
)

# name: (function, arguments that differ from a good call, error, what the message says)
BAD_ARGUMENTS = {
    "attributions: too few columns": (
        pc,
        {"attributions": A[:, :3]},
        ValueError,
        r"attributions: shape \(3, 3\).*inputs of shape \(3, 4\).*expected \(3, 4\).*stack \(K, 3, 4\)",
    ),
    "attributions: too few rows": (dpc, {"attributions": A[:2]}, ValueError, r"attributions: shape \(2, 4\).*\(3, 4\)"),
    "attributions: one row only": (pc, {"attributions": A[0]}, ValueError, r"attributions: shape \(4,\).*\(3, 4\)"),
    "attributions: a number": (pc, {"attributions": 1.0}, ValueError, r"attributions: shape \(\).*\(3, 4\)"),
    "attributions: stack of wrong rows": (
        infidelity,
        {"attributions": torch.zeros(5, 2, 4)},
        ValueError,
        r"attributions: shape \(5, 2, 4\).*\(3, 4\)",
    ),
    "attributions: empty stack": (
        pc,
        {"attributions": torch.zeros(0, 3, 4)},
        ValueError,
        r"attributions: shape \(0, 3, 4\).*stack \(K, 3, 4\)",
    ),
    "attributions: wrong shape in a dict": (
        evaluate,
        {"attributions": {"good": A, "bad": A[:, :2]}},
        ValueError,
        r"attributions\['bad'\]: shape \(3, 2\).*\(3, 4\)",
    ),
    "attributions: stack in a dict": (
        pc,
        {"attributions": {"stacked": A[None]}},
        ValueError,
        r"attributions\['stacked'\]: shape \(1, 3, 4\).*expected \(3, 4\); of several",
    ),
    "attributions: image without a row axis": (
        pc,
        {"inputs": IMAGES, "attributions": IMAGES[0]},
        ValueError,
        r"attributions: shape \(2, 4, 4\).*\(3, 2, 4, 4\) or \(3, 1, 4, 4\) or \(3, 4, 4\)",
    ),
    "attributions: channels missing where elements are features": (
        pc,
        {"inputs": IMAGES, "attributions": IMAGES[:, 0], "features": "element"},
        ValueError,
        r"attributions: shape \(3, 4, 4\).*expected \(3, 2, 4, 4\)",
    ),
    "attributions: empty dict": (evaluate, {"attributions": {}}, ValueError, "attributions: .*empty dict"),
    "attributions: NaN": (
        pc,
        {"attributions": changed(A, 1, 2, nan)},
        ValueError,
        r"attributions: .*finite.*nan in row 1 \(element 2\)",
    ),
    "attributions: infinite": (
        dpc,
        {"attributions": changed(A, 2, 0, -inf)},
        ValueError,
        "attributions: .*finite.*-inf in row 2",
    ),
    "attributions: NaN in a stack": (
        infidelity,
        {"attributions": torch.stack((A, changed(A, 2, 1, nan)))},
        ValueError,
        r"attributions\[1\]: .*nan in row 2",
    ),
    "attributions: infinite in a dict": (
        evaluate,
        {"attributions": {"ig": A, "lime": changed(A, 0, 3, inf)}},
        ValueError,
        r"attributions\['lime'\]: .*inf in row 0",
    ),
    "attributions: complex": (pc, {"attributions": A + 0j}, TypeError, "attributions: .*real.*complex"),
    "attributions: bool": (pc, {"attributions": A > 0}, TypeError, "attributions: .*real numbers.*bool"),
    "attributions: words": (pc, {"attributions": "saliency"}, TypeError, "attributions: .*array.*str"),
    "attributions: None": (pc, {"attributions": None}, TypeError, "attributions: .*array.*NoneType"),
    "inputs: NaN": (pc, {"inputs": changed(X, 1, 3, nan)}, ValueError, r"inputs: .*finite.*nan in row 1 \(element 3\)"),
    "inputs: infinite": (infidelity, {"inputs": changed(X, 0, 0, inf)}, ValueError, "inputs: .*finite.*inf in row 0"),
    "inputs: integers": (pc, {"inputs": X.long()}, TypeError, "inputs: .*floating-point.*int64"),
    "inputs: NumPy integers": (evaluate, {"inputs": X.long().numpy()}, TypeError, "inputs: .*floating-point.*int64"),
    "inputs: one axis": (pc, {"inputs": X[0], "attributions": A[0]}, ValueError, r"inputs: .*\(N, \.\.\.\).*\(4,\)"),
    "inputs: no rows": (dpc, {"inputs": X[:0], "attributions": A[:0]}, ValueError, r"inputs: .*one row.*\(0, 4\)"),
    "inputs: no columns": (pc, {"inputs": X[:, :0], "attributions": A[:, :0]}, ValueError, r"inputs: .*\(3, 0\)"),
    "inputs: words": (pc, {"inputs": [["a", "b"]]}, TypeError, "inputs: .*array of numbers.*list"),
    "target: float": (pc, {"target": 1.0}, TypeError, "target: .*class number.*float"),
    "target: float per row": (pc, {"target": [0.0, 1.0, 1.0]}, TypeError, "target: .*class number.*float64"),
    "target: bool": (dpc, {"target": True}, TypeError, "target: .*class number.*bool"),
    "target: too short": (pc, {"target": [0, 1]}, ValueError, r"target: .*\(3,\).*\(2,\)"),
    "target: two axes": (
        infidelity,
        {"target": torch.zeros(3, 1, dtype=torch.long)},
        ValueError,
        r"target: .*\(3,\).*\(3, 1\)",
    ),
    "target: negative": (pc, {"target": -1}, ValueError, "target: class -1"),
    "target: negative in a row": (pc, {"target": [0, 1, -2]}, ValueError, "target: class -2 in row 2"),
    "target: word": (pc, {"target": "cat"}, ValueError, "target: got the label 'cat', but the model does not know"),
    "steps: zero": (pc, {"steps": 0}, ValueError, "steps: .*at least 1, got 0"),
    "steps: negative": (dpc, {"steps": -1}, ValueError, "steps: .*at least 1, got -1"),
    "steps: fraction": (pc, {"steps": 2.5}, ValueError, "steps: .*whole number.*2.5"),
    "steps: True": (evaluate, {"steps": True}, ValueError, "steps: .*whole number.*True"),
    "steps: of a metric": (PredictionChange, {"steps": 0}, ValueError, "steps: .*at least 1, got 0"),
    "order: literal is for DPC": (pc, {"order": "literal"}, ValueError, "order: .*'signed', 'magnitude'.*'literal'"),
    "order: unknown": (dpc, {"order": "random"}, ValueError, "order: .*'magnitude', 'signed', 'literal'.*'random'"),
    "order: of a metric": (DirectedPredictionChange, {"order": "sign"}, ValueError, "order: .*'signed'.*'sign'"),
    "curve: unknown": (PredictionChange, {"curve": "area"}, ValueError, "curve: .*'increments'.*'area'"),
    "output: unknown": (
        pc,
        {"output": "score"},
        ValueError,
        "output: expected one of 'probability', 'logit', got 'score'",
    ),
    "features: unknown word": (pc, {"features": "superpixel"}, ValueError, "features: .*\"pixel\".*'superpixel'"),
    "features: pixels of a table": (pc, {"features": "pixel"}, ValueError, r'features: "pixel" needs.*\(4,\)'),
    "features: wrong shape": (
        dpc,
        {"features": torch.zeros(5, dtype=torch.long)},
        ValueError,
        r"features: .*shape \(5,\).*\(3, 4\).*expected one of \(4,\), \(3, 4\)",
    ),
    "features: map for too few inputs": (
        pc,
        {"inputs": IMAGES, "attributions": IMAGES, "features": torch.zeros(2, 4, 4, 4, dtype=torch.long)},
        ValueError,
        r"features: .*shape \(2, 4, 4, 4\).*\(3, 2, 4, 4\).*\(4, 4\)",
    ),
    "features: float map": (pc, {"features": torch.zeros(4)}, TypeError, "features: .*whole numbers.*float32"),
    "features: bool map": (pc, {"features": np.array([True] * 4)}, TypeError, "features: .*whole numbers.*bool"),
    "features: None": (infidelity, {"features": None}, TypeError, 'features: .*"pixel".*None'),
    "features: list of words": (pc, {"features": list("abcd")}, TypeError, "features: "),
    "baselines: NaN": (pc, {"baselines": nan}, ValueError, "baselines: .*finite.*NaN"),
    "baselines: infinite in an array": (dpc, {"baselines": [0.0, 0.0, inf, 0.0]}, ValueError, "baselines: .*finite"),
    "baselines: do not broadcast": (
        pc,
        {"baselines": torch.zeros(3)},
        ValueError,
        r"baselines: shape \(3,\).*broadcast.*\(3, 4\)",
    ),
    "baselines: more rows than inputs": (
        pc,
        {"baselines": torch.zeros(2, 3, 4)},
        ValueError,
        r"baselines: .*\(2, 3, 4",
    ),
    "baselines: word": (pc, {"baselines": "middle"}, ValueError, "baselines: .*a number, an array or one of.*'middle'"),
    "baselines: mean of nothing": (pc, {"baselines": "mean"}, ValueError, "baselines: .*pass background=train_inputs"),
    "features: nothing to remove": (pc, {"features": [-1, -1, -1, -1]}, ValueError, "features: negative .* no other"),
    "sigma: std of nothing": (infidelity, {"sigma": "std"}, ValueError, "sigma: .*pass background=train_inputs"),
    "sigma: too few": (infidelity, {"sigma": [1.0, 2.0]}, ValueError, "sigma: .*4 of them.*got 2"),
    "baselines: None": (evaluate, {"baselines": None}, TypeError, "baselines: .*number or an array.*None"),
    "sigma: zero": (infidelity, {"sigma": 0}, ValueError, "sigma: .*positive.*0"),
    "sigma: negative": (evaluate, {"sigma": -0.2}, ValueError, "sigma: .*positive.*-0.2"),
    "sigma: NaN": (infidelity, {"sigma": nan}, ValueError, "sigma: .*finite.*nan"),
    "sigma: infinite": (Infidelity, {"sigma": inf}, ValueError, "sigma: .*finite.*inf"),
    "sigma: word": (Infidelity, {"sigma": "0.2"}, ValueError, "sigma: .*positive.*'0.2'"),
    "samples: zero": (infidelity, {"samples": 0}, ValueError, "samples: .*at least 1, got 0"),
    "samples: of Sensitivity-N": (SensitivityN, {"samples": 0.5}, ValueError, "samples: .*whole number.*0.5"),
    "subset: zero": (infidelity, {"subset": 0}, ValueError, "subset: .*at least 1, got 0"),
    "subset: too many": (infidelity, {"subset": 5}, ValueError, "subset: .*5 features.*only 4"),
    "subset: more than the groups": (
        infidelity,
        {"subset": 3, "features": [0, 0, 1, 1]},
        ValueError,
        "subset: .*only 2",
    ),
    "perturbation: unknown": (infidelity, {"perturbation": "blur"}, ValueError, "perturbation: .*'gaussian'.*'blur'"),
    "seed: fraction": (infidelity, {"seed": 0.5}, ValueError, "seed: .*whole number.*0.5"),
    "seed: text": (evaluate, {"seed": "0"}, ValueError, "seed: .*whole number.*'0'"),
    "seed: bool": (SensitivityN, {"seed": True}, ValueError, "seed: .*whole number.*True"),
    "normalize: number": (infidelity, {"normalize": 1}, ValueError, "normalize: .*True or False.*1"),
    "normalize: word": (Infidelity, {"normalize": "yes"}, ValueError, "normalize: .*True or False.*'yes'"),
    "sizes: empty": (SensitivityN, {"sizes": ()}, ValueError, r"sizes: .*tuple.*\(\)"),
    "sizes: zero": (SensitivityN, {"sizes": (1, 0)}, ValueError, "sizes: .*at least 1, got 0"),
    "sizes: more than the features": (
        evaluate,
        {"metrics": [SensitivityN(sizes=(1, 5))]},
        ValueError,
        "sizes: .*5 features.*only 4",
    ),
    "batch_size: zero": (pc, {"batch_size": 0}, ValueError, "batch_size: .*at least 1.*0"),
    "batch_size: fraction": (evaluate, {"batch_size": 0.5}, ValueError, "batch_size: .*whole number.*0.5"),
    "batch_size: True": (verax.Scorer, {"batch_size": True}, ValueError, "batch_size: .*whole number.*True"),
    "device: unknown": (pc, {"device": "abacus"}, ValueError, "device: .*abacus"),
    "device: unknown to a Scorer": (verax.Scorer, {"device": "abacus"}, ValueError, "device: .*abacus"),
    "metrics: unknown name": (evaluate, {"metrics": ["pc", "auc"]}, ValueError, "metrics: .*pc, dpc.*'auc'"),
    "metrics: unknown name in a dict": (evaluate, {"metrics": {"mine": "auc"}}, ValueError, "metrics: .*'auc'"),
    "metrics: a class": (evaluate, {"metrics": [PredictionChange]}, ValueError, "metrics: .*object.*class"),
    "metrics: empty list": (evaluate, {"metrics": []}, ValueError, r"metrics: .*list.*got \[\]"),
    "metrics: empty dict": (evaluate, {"metrics": {}}, ValueError, r"metrics: .*dict.*got \{\}"),
    "metrics: plain string": (evaluate, {"metrics": "pc"}, ValueError, "metrics: .*list.*'pc'"),
    "metrics: one object": (evaluate, {"metrics": PredictionChange()}, ValueError, "metrics: .*list.*PredictionChange"),
    "model: a number": (pc, {"model": 7}, TypeError, r"model: .*torch\.nn\.Module.*callable.*int"),
    "model: None": (evaluate, {"model": None}, TypeError, "model: .*NoneType"),
    "model: plain callable": (
        pc,
        {"model": lambda x: x},
        ValueError,
        r'model: .*what it returns.*verax\.Scorer\(model, returns="logits"\)',
    ),
    "model: unfitted regressor": (pc, {"model": LinearRegression()}, ValueError, "LinearRegression is not fitted"),
    "model: classifier without probabilities": (
        pc,
        {"model": LinearSVC()},
        TypeError,
        "model: LinearSVC has no predict_proba.*decision function",
    ),
    "model: unfitted classifier": (
        dpc,
        {"model": LogisticRegression()},
        ValueError,
        "model: LogisticRegression is not fitted.*fit",
    ),
    "model: unfitted pipeline": (
        infidelity,
        {"model": make_pipeline(StandardScaler(), LogisticRegression())},
        ValueError,
        "model: Pipeline is not fitted",
    ),
    "model: Scorer of a Scorer": (
        verax.Scorer,
        {"model": verax.Scorer(nn.Linear(4, 2))},
        TypeError,
        r"model: already a verax\.Scorer",
    ),
    "returns: typo": (
        verax.Scorer,
        {"returns": "logit"},
        ValueError,
        "returns: expected one of 'logits', 'probabilities', 'values', got 'logit'",
    ),
    "returns: logits of a scikit-learn classifier": (
        verax.Scorer,
        {"model": LogisticRegression().fit(X, [0, 1, 1]), "returns": "logits"},
        ValueError,
        "returns: LogisticRegression.predict_proba gives probabilities",
    ),
    "takes: typo": (
        verax.Scorer,
        {"model": abs, "returns": "logits", "takes": "np"},
        ValueError,
        "takes: expected one of 'torch', 'numpy', got 'np'",
    ),
    "takes: for a module": (verax.Scorer, {"takes": "numpy"}, ValueError, "takes: only for plain callables"),
}

# found from the model's first answer: the number of classes is not known before
BAD_OUTPUTS = {
    "target: beyond the classes": (pc, {"target": 3}, ValueError, "target: class 3 does not exist.*3 classes, 0 to 2"),
    "target: beyond the classes in a row": (
        infidelity,
        {"target": [0, 7, 8]},
        ValueError,
        "target: class 7 in row 1 .*0 to 2",
    ),
    "target: beyond one binary output": (
        pc,
        {"model": returning(lambda x: x[:, 0]), "target": torch.tensor([0, 1, 2])},
        ValueError,
        "target: class 2 in row 2 .*2 classes, 0 to 1",
    ),
    "rows missing": (
        pc,
        {"model": returning(lambda x: x[1:, :2])},
        ValueError,
        r"model: .*batch of 3 rows.*\(2, 2\).*expected \(3, classes\)",
    ),
    "one row for the whole batch": (
        dpc,
        {"model": returning(lambda x: x[:1, :2])},
        ValueError,
        r"model: .*3 rows.*\(1, 2\)",
    ),
    "a number": (pc, {"model": returning(lambda x: x.sum())}, ValueError, r"model: .*3 rows.*shape \(\)"),
    "three axes": (
        infidelity,
        {"model": returning(lambda x: x[..., None])},
        ValueError,
        r"model: .*\(3, 4, 1\).*\(3, classes\)",
    ),
    "no classes": (pc, {"model": returning(lambda x: x[:, :0])}, ValueError, r"model: .*\(3, 0\)"),
    "labels": (pc, {"model": returning(lambda x: x.argmax(1))}, TypeError, "model: .*floating-point.*int64.*labels"),
    "tuple": (pc, {"model": returning(lambda x: (x, x))}, TypeError, "model: .*array of class scores.*tuple"),
    "dict": (
        evaluate,
        {"model": returning(lambda x: {"logits": x})},
        TypeError,
        "model: .*array of class scores.*dict",
    ),
    "None": (pc, {"model": returning(lambda x: None)}, TypeError, "model: .*array of class scores.*NoneType"),
    "list of tensors": (pc, {"model": returning(lambda x: [x, x])}, TypeError, "model: .*array of class scores.*list"),
    "NaN for an input": (
        pc,
        {"model": returning(nan_in_row(1))},
        ValueError,
        "model: .*finite.*nan.*unperturbed input 1",
    ),
    "NaN for an input in a later batch": (
        pc,
        {"model": returning(nan_in_row(2)), "batch_size": 1},
        ValueError,
        "model: .*finite.*nan.*unperturbed input 2",
    ),
    "NaN for a perturbed row": (
        pc,
        {"model": returning(nan_where_row_was_perturbed(1))},
        ValueError,
        "model: .*finite.*nan.*perturbed copy of the input 1",
    ),
    "NaN for a perturbed row among many features": (
        dpc,
        {
            "model": returning(lambda x: torch.where((x == 0).any(1) & (x[:, -1] == 2), nan, x[:, 1])),
            "inputs": torch.ones(N, 70) + torch.tensor([[0.0], [0.0], [1.0]]),
            "attributions": torch.ones(N, 70),
        },
        ValueError,
        "model: .*finite.*nan.*perturbed copy of the input 2",
    ),
    "NaN for a draw": (
        infidelity,
        {"model": returning(nan_where_row_was_perturbed(2)), "subset": 2},
        ValueError,
        "model: .*finite.*nan.*perturbed copy of the input 2",
    ),
    "probabilities above 1": (
        pc,
        {"model": returning(lambda x: 1 + x[:, :2], "probabilities")},
        ValueError,
        r'model: expected probabilities.*1\.1 to 2.*returns="logits"',
    ),
    "probabilities below 0": (
        evaluate,
        {"model": returning(lambda x: -x[:, 0], "probabilities")},
        ValueError,
        "model: expected probabilities.*from -0.9 to -0.1",
    ),
}


@pytest.fixture(autouse=True)
def _without_type_checks(monkeypatch):
    """As users run it: the checks that conftest switches on would answer before the library does."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def call(function, arguments, model):
    good = {
        verax.Scorer: {"model": model},
        pc: {"model": model, "inputs": X, "attributions": A},
        dpc: {"model": model, "inputs": X, "attributions": A},
        infidelity: {"model": model, "inputs": X, "attributions": A, "samples": 8},
        evaluate: {"model": model, "inputs": X, "attributions": A, "samples": 8},
    }
    return function(**good.get(function, {}) | arguments)


def table(cases):
    return pytest.mark.parametrize(("function", "arguments", "error", "message"), cases.values(), ids=cases)


@table(BAD_ARGUMENTS | BAD_OUTPUTS)
def test_error_names_the_argument_what_was_found_and_what_is_wanted(function, arguments, error, message):
    with pytest.raises(error, match=message):
        call(function, arguments, Counting())


# labels are known when a model has run
@table({name: case for name, case in BAD_ARGUMENTS.items() if "model" not in case[1]})
def test_a_bad_argument_is_found_before_the_model_runs(function, arguments, error, message):
    model = Counting()
    with pytest.raises(error):
        call(function, arguments, model)
    assert model.calls == 0


def test_a_target_beyond_the_classes_is_found_from_the_unperturbed_inputs_alone():
    model = Counting()
    with pytest.raises(ValueError, match="target"):
        calls.prediction_change(model, X, A, target=3)
    assert model.calls == 1


def test_the_good_calls_that_the_cases_differ_from_are_good():
    for function in (pc, dpc, infidelity, evaluate, verax.Scorer):
        call(function, {}, Counting())


UNUSABLE = {  # what compare, evaluate and stream raise for, with the metrics and settings of the call
    "unknown metric": (["sparsity"], {}, "metrics: expected"),
    "subset": ([Infidelity(subset=9)], {}, "subset: "),
    "sigma": (["infidelity"], {"sigma": "std"}, "sigma: "),
    "direction": (["dpc"], {"replacement": verax.replacement.Conditional(background=X)}, "no direction"),
    "adaptive": (["pc"], {"replacement": verax.replacement.Marginal(X), "steps": "adaptive"}, "adaptive steps are for"),
    "no background": (["pc"], {"replacement": verax.replacement.Conditional()}, "pass background=train_inputs"),
    "output": (["pc"], {"output": "margin"}, "output: "),
    "batch size": (["pc"], {"batch_size": 0}, "batch_size: "),
}


@pytest.mark.parametrize("call", [calls.compare, calls.evaluate])
@pytest.mark.parametrize("case", UNUSABLE)
def test_a_call_that_cannot_be_measured_is_refused_before_methods_are_computed(call, case):
    metrics, settings, message = UNUSABLE[case]
    model = Counting()
    with pytest.raises(ValueError, match=message):
        call(model, X, {"occlusion": verax.attribution.Occlusion(), "x": X}, metrics, **settings)
    assert model.calls == 0


def test_other_replacements_that_make_no_difference_are_refused_before_methods_are_computed():
    model = Counting()
    others = [verax.replacement.Toward(0.5)]
    with pytest.raises(ValueError, match="replacements: infidelity do not depend"):
        calls.compare(model, X, {"occlusion": verax.attribution.Occlusion()}, ["infidelity"], replacements=others)
    assert model.calls == 0


def test_other_attributions_are_checked_before_methods_are_computed():
    model = Counting()
    with pytest.raises(ValueError, match=r"attributions\['x'\]: shape"):
        calls.compare(model, X, {"occlusion": verax.attribution.Occlusion(), "x": X[:, :2]})
    assert model.calls == 0
