"""What every kind of model must hold to. A new adapter joins by being added to ``MODELS``."""

import functools
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

import calls
import verax

RNG = np.random.default_rng(0)
# numbers that float32 holds exactly, so that single and double precision see the same rows
X = RNG.normal(size=(40, 5)).astype(np.float32).astype(np.float64)
A = RNG.normal(size=(40, 5))
LABELS = {2: (X[:, 0] > 0).astype(int), 3: np.digitize(X[:, 0] - X[:, 1], [-0.6, 0.6])}
LOGISTIC = {classes: LogisticRegression().fit(X, labels) for classes, labels in LABELS.items()}


@dataclass
class Output:
    """What models of Hugging Face return."""

    logits: Tensor
    loss: None = None


class Carrier(nn.Module):
    def __init__(self, inner: nn.Module, wrap: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.inner, self.wrap = inner, wrap

    def forward(self, x: Tensor) -> Any:
        return self.wrap(self.inner(x))


def torch_copy(classes: int) -> nn.Module:
    module = nn.Linear(5, classes)
    logistic = LOGISTIC[classes]
    weight, bias = (np.stack((0 * one, one)) if classes == 2 else one for one in (logistic.coef_, logistic.intercept_))
    with torch.no_grad():
        module.weight.copy_(torch.tensor(weight.reshape(classes, 5)))
        module.bias.copy_(torch.tensor(bias.reshape(classes)))
    return module


def onnx_bytes(classes: int, dtype: Any, **options: Any) -> bytes:
    skl2onnx = pytest.importorskip("skl2onnx")
    found = skl2onnx.to_onnx(LOGISTIC[classes], X[:1].astype(dtype), options=options)
    return found.SerializeToString()


def session(classes: int, dtype: Any = np.float32, **options: Any) -> Any:
    runtime = pytest.importorskip("onnxruntime")
    return runtime.InferenceSession(onnx_bytes(classes, dtype, **options), providers=["CPUExecutionProvider"])


def onnx_path(classes: int) -> Any:
    pytest.importorskip("onnxruntime")
    path = Path(tempfile.mkdtemp()) / "model.onnx"
    path.write_bytes(onnx_bytes(classes, np.float32, zipmap=False))
    return path


def program(classes: int) -> Any:
    rows = {0: torch.export.Dim("batch")}
    return torch.export.export(torch_copy(classes), (torch.zeros(3, 5),), dynamic_shapes=(rows,))


def archive(classes: int) -> Any:
    path = Path(tempfile.mkdtemp()) / "model.pt2"
    torch.export.save(program(classes), path)
    return verax.Scorer(str(path), trust=True)


def frame() -> Any:
    return pytest.importorskip("pandas").DataFrame(X, columns=list("abcde"))


def xgboost_classifier(classes: int, data: Any) -> Any:
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=4, n_jobs=1).fit(data, LABELS[classes])


def lightgbm_classifier(classes: int, data: Any) -> Any:
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMClassifier(n_estimators=4, min_child_samples=3, n_jobs=1, verbose=-1).fit(data, LABELS[classes])


LINEAR: dict[str, Callable[[int], Any]] = {
    "torch": torch_copy,
    "object with logits": lambda classes: Carrier(torch_copy(classes), Output),
    "dict with logits": lambda classes: Carrier(torch_copy(classes), lambda scores: {"loss": None, "logits": scores}),
    "function that returns an object with logits": lambda classes: verax.Scorer(
        Carrier(torch_copy(classes), Output).float().forward, returns="logits", takes="torch"
    ),
    "exported program": program,
    ".pt2": archive,
    "scikit-learn": LOGISTIC.__getitem__,
    "scikit-learn on a frame": lambda classes: LogisticRegression().fit(frame(), LABELS[classes]),
    "ONNX": lambda classes: session(classes, zipmap=False),
    "ONNX double": lambda classes: session(classes, np.float64, zipmap=False),
    "ONNX maps": session,
    ".onnx": onnx_path,
}
TREES: dict[str, Callable[[int], Any]] = {
    "XGBoost": lambda classes: xgboost_classifier(classes, X),
    "XGBoost on a frame": lambda classes: xgboost_classifier(classes, frame()),
    "XGBoost booster": lambda classes: xgboost_classifier(classes, frame()).get_booster(),
    "LightGBM": lambda classes: lightgbm_classifier(classes, X),
    "LightGBM on a frame": lambda classes: lightgbm_classifier(classes, frame()),
    "LightGBM booster": lambda classes: lightgbm_classifier(classes, frame()).booster_,
}
MODELS = LINEAR | TREES
TAKES_DOUBLES_ONLY_AS_SINGLES = {"function that returns an object with logits"}
DIFFERENTIABLE = {"torch", "object with logits", "dict with logits", "exported program", ".pt2"}

every_model = pytest.mark.parametrize("name", MODELS)
every_count = pytest.mark.parametrize("classes", [2, 3])


@functools.cache
def model(name: str, classes: int) -> Any:
    return MODELS[name](classes)


def rows(name: str) -> Any:
    return X.astype(np.float32) if name in TAKES_DOUBLES_ONLY_AS_SINGLES else X


@every_count
@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("measure", [calls.prediction_change, calls.directed_prediction_change])
def test_copies_of_one_model_have_the_same_pc_and_dpc(name, classes, measure):
    wanted = measure(LOGISTIC[classes], X, A)
    found = measure(model(name, classes), rows(name), A)
    np.testing.assert_allclose(found.value, wanted.value, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.morf, wanted.morf, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(found.target, wanted.target)
    assert found.rows == wanted.rows


@every_count
@pytest.mark.parametrize("name", TREES)
def test_curves_of_trees_are_the_predictions_for_the_perturbed_rows(name, classes):
    tree = model(name.removesuffix(" booster") + " on a frame" if "booster" in name else name, classes)
    data = frame() if hasattr(tree, "feature_names_in_") else X
    result = calls.prediction_change(model(name, classes), X[:4], A[:4])
    wanted = tree.predict_proba(data[:4])
    np.testing.assert_array_equal(result.target, wanted.argmax(1))
    np.testing.assert_allclose(result.morf[:, 0], wanted.max(1), rtol=0, atol=1e-6)
    zeros = tree.predict_proba(data[:1] * 0)[0, result.target]
    np.testing.assert_allclose(result.morf[:, -1], zeros, rtol=0, atol=1e-6)


@every_model
@every_count
def test_batches_do_not_matter(name, classes):
    whole = calls.evaluate(model(name, classes), rows(name), A, samples=10)
    parts = calls.evaluate(model(name, classes), rows(name), A, samples=10, batch_size=7)
    for metric, result in whole.items():
        np.testing.assert_allclose(parts[metric].value, result.value, rtol=0, atol=1e-6)


@every_model
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_and_torch_inputs_give_the_same_in_their_own_kind_and_precision(name, dtype):
    if dtype is np.float64 and name in TAKES_DOUBLES_ONLY_AS_SINGLES:
        pytest.skip("a function gets what the user has")
    x = X.astype(dtype)
    array = calls.prediction_change(model(name, 3), x, A).value
    tensor = calls.prediction_change(model(name, 3), torch.tensor(x), torch.tensor(A)).value
    assert isinstance(array, np.ndarray)
    assert isinstance(tensor, Tensor)
    assert array.dtype == dtype == tensor.numpy().dtype
    np.testing.assert_array_equal(array, tensor.numpy())


@every_model
def test_inputs_are_left_alone(name):
    x, a = rows(name).copy(), A.copy()
    calls.prediction_change(model(name, 2), x, a)
    np.testing.assert_array_equal(x, rows(name))
    np.testing.assert_array_equal(a, A)


@every_model
@every_count
def test_one_row(name, classes):
    whole = calls.prediction_change(model(name, classes), rows(name), A).value
    one = calls.prediction_change(model(name, classes), rows(name)[3:4], A[3:4]).value
    np.testing.assert_allclose(one, whole[3:4], rtol=0, atol=1e-6)


@every_model
@every_count
def test_a_class_that_does_not_exist(name, classes):
    with pytest.raises(ValueError, match=f"target: class 7 .* the model has {classes} classes"):
        calls.prediction_change(model(name, classes), rows(name), A, target=7)


@every_model
def test_a_wrong_number_of_features_is_an_error(name):
    with pytest.raises(Exception, match=r"(?i)shape|features|size"):
        calls.prediction_change(model(name, 3), rows(name)[:, :4], A[:, :4])


@every_model
def test_gradient_methods_work_on_torch_and_are_refused_by_type_elsewhere(name):
    method = verax.attribution.Gradient()
    if name in DIFFERENTIABLE:
        found = method(verax.Problem(model(name, 3), X.astype(np.float32), target=1))
        wanted = method(verax.Problem(model("torch", 3), X.astype(np.float32), target=1))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)
        return
    with pytest.raises(TypeError, match=r"gradients cannot be taken.*LIME"):
        method(verax.Problem(model(name, 3), rows(name)))


@every_model
def test_methods_without_gradients_work_everywhere(name):
    found = verax.attribution.LimeTabular()(verax.Problem(model(name, 3), rows(name)[:3], background=rows(name)))
    assert found.shape == (3, 5)


@pytest.mark.parametrize("name", [name for name in MODELS if "function" not in name and name != ".pt2"])
def test_takes_is_for_functions(name):
    with pytest.raises(ValueError, match="takes: only for plain callables"):
        verax.Scorer(model(name, 3), takes="torch")


@pytest.mark.parametrize("name", [*TREES, "scikit-learn"])
def test_returns_cannot_be_said_otherwise_where_it_is_known(name):
    with pytest.raises(ValueError, match=r"returns: .* gives probabilities"):
        verax.Scorer(model(name, 3), returns="logits")


@pytest.mark.parametrize("wrap", [Output, lambda scores: {"logits": scores}], ids=["object", "dict"])
def test_logits_cannot_be_called_probabilities(wrap):
    scorer = verax.Scorer(Carrier(torch_copy(3), wrap), returns="probabilities")
    with pytest.raises(ValueError, match=r"returns: the model returns .* with logits"):
        calls.prediction_change(scorer, X, A)


def test_logits_of_every_token_are_refused():
    tagger = Carrier(torch_copy(3), lambda scores: Output(scores[:, None].expand(-1, 5, -1)))
    with pytest.raises(ValueError, match=r"model: for a batch of 40 rows it returned shape \(40, 5, 3\)"):
        calls.prediction_change(tagger, X, A)


def test_classifiers_with_several_outputs_are_refused():
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415

    forest = RandomForestClassifier(n_estimators=2).fit(X, np.stack((LABELS[2], LABELS[2]), axis=1))
    with pytest.raises(ValueError, match="model: RandomForestClassifier predicts 2 outputs"):
        calls.prediction_change(forest, X, A)


def test_a_classifier_fitted_on_a_frame_says_that_it_needs_pandas(monkeypatch):
    classifier = LogisticRegression().fit(frame(), LABELS[2])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"model: an estimator that was fitted on a data frame needs pandas: pip"):
        calls.prediction_change(classifier, X, A)


def boosted(objective: str, package: str) -> Any:
    library = pytest.importorskip(package)
    settings = {"objective": objective, "verbosity": 0 if package == "xgboost" else -1}
    if "multi" in objective:
        settings["num_class"] = 3
    labels = LABELS[3 if "multi" in objective else 2]
    if package == "xgboost":
        return library.train(settings, library.DMatrix(X, labels), num_boost_round=3)
    return library.train(settings, library.Dataset(X, labels), num_boost_round=3)


@pytest.mark.parametrize(
    ("package", "objective"),
    [("xgboost", "multi:softmax"), ("xgboost", "binary:hinge"), ("lightgbm", "multiclassova")],
)
def test_boosters_that_do_not_predict_class_scores_are_refused(package, objective):
    with pytest.raises(ValueError, match=f"model: this {package} booster has the objective {objective}; .*binary"):
        verax.Scorer(boosted(objective, package))


def test_a_booster_of_raw_scores_returns_logits():
    booster = boosted("binary:logitraw", "xgboost")
    assert json.loads(booster.save_config())["learner"]["objective"]["name"] == "binary:logitraw"
    found = calls.prediction_change(booster, X, A, target=1, output="logit")
    wanted = booster.predict(pytest.importorskip("xgboost").DMatrix(X))
    np.testing.assert_allclose(found.morf[:, 0], wanted, rtol=0, atol=1e-6)
