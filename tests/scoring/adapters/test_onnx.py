"""ONNX models: which input and output are used, precision, probability maps, and what is refused."""

import re
import sys

import numpy as np
import pytest
import torch
from sklearn.neural_network import MLPClassifier
from torch import nn

import calls
import verax
from verax.problem.inputs import Inputs
from verax.scoring.model_files.opening import file_hash

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
skl2onnx = pytest.importorskip("skl2onnx")

RNG = np.random.default_rng(1)
X = RNG.normal(size=(30, 4)).astype(np.float32)
A = RNG.normal(size=(30, 4))
WEIGHT = RNG.normal(size=(4, 3)).astype(np.float32)
LABELS = (X @ WEIGHT).argmax(1)
FLOAT, DOUBLE, STRING, INT64 = (getattr(onnx.TensorProto, name) for name in ("FLOAT", "DOUBLE", "STRING", "INT64"))


def graph(nodes, outputs, rows="batch", element=FLOAT, columns=4, inputs=1):
    """A session of hand-written nodes on input ``x``; outputs by name with their element type and shape."""
    names = ["x", *[f"x{place}" for place in range(1, inputs)]]
    made = onnx.helper.make_graph(
        nodes,
        "test",
        [onnx.helper.make_tensor_value_info(name, element, [rows, columns]) for name in names],
        [onnx.helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in outputs.items()],
        [onnx.numpy_helper.from_array(WEIGHT, "weight")],
    )
    model = onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    return runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def node(operator, inputs, outputs, **attributes):
    return onnx.helper.make_node(operator, inputs, outputs, **attributes)


def linear(name, **settings):
    return graph([node("MatMul", ["x", "weight"], [name])], {name: (FLOAT, ["batch", 3])}, **settings)


def torch_linear():
    module = nn.Linear(4, 3, bias=False)
    module.weight.data.copy_(torch.tensor(WEIGHT.T))
    return module


def check_is_linear(model):
    expected = calls.prediction_change(torch_linear(), X, A)
    result = calls.prediction_change(model, X, A)
    np.testing.assert_allclose(result.morf, expected.morf, rtol=0, atol=1e-5)


def test_an_output_called_logits_holds_logits():
    check_is_linear(linear("logits"))


def test_what_the_user_says_goes_before_values_and_names():
    check_is_linear(verax.Scorer(linear("output"), returns="logits"))
    with pytest.raises(ValueError, match=r"model: expected probabilities, got values from"):
        calls.prediction_change(verax.Scorer(linear("output"), returns="probabilities"), X, A)


def both(first, second):
    nodes = [node("MatMul", ["x", "weight"], [first]), node("Softmax", [first], [second], axis=1)]
    return graph(nodes, {first: (FLOAT, ["batch", 3]), second: (FLOAT, ["batch", 3])})


@pytest.mark.parametrize("returns", [None, "logits", "probabilities"])
def test_the_output_whose_name_says_what_it_is(returns):
    check_is_linear(verax.Scorer(both("logits", "probabilities"), returns=returns))


def test_outputs_that_do_not_say_what_they_are():
    session = both("first", "second")
    with pytest.raises(ValueError, match=r"model: several outputs .*first: tensor\(float\), second.*zipmap=False"):
        verax.Scorer(session)
    picked = verax.Scorer(lambda x: session.run(["second"], {"x": x})[0], returns="probabilities", takes="numpy")
    check_is_linear(picked)


def test_columns_of_zipmap_are_refused():
    mlp = MLPClassifier((3,), max_iter=5, random_state=0)
    with pytest.warns(UserWarning, match="converge"):
        mlp.fit(X, LABELS)
    made = skl2onnx.to_onnx(mlp, X[:1], options={"zipmap": "columns"})
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    with pytest.raises(ValueError, match="zipmap=False"):
        verax.Scorer(session)


def test_labels_alone_do_not_do():
    nodes = [node("MatMul", ["x", "weight"], ["scores"]), node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0)]
    with pytest.raises(ValueError, match=r"model: no output .*label: tensor\(int64\)"):
        verax.Scorer(graph(nodes, {"label": (INT64, ["batch"])}))


def test_one_binary_output():
    nodes = [node("ReduceSum", ["x"], ["total"], keepdims=0, noop_with_empty_axes=0)]
    nodes = [node("Constant", [], ["axis"], value=onnx.numpy_helper.from_array(np.array([1])))]
    nodes += [node("ReduceSum", ["x", "axis"], ["total"], keepdims=0), node("Sigmoid", ["total"], ["probability"])]
    result = calls.prediction_change(graph(nodes, {"probability": (FLOAT, ["batch"])}), X, A, target=1)
    np.testing.assert_allclose(result.morf[:, 0], 1 / (1 + np.exp(-X.sum(1))), rtol=0, atol=1e-6)


def test_double_precision_is_used_where_the_model_has_it():
    """Near 1e8 single precision cannot hold the differences."""
    shift = 1e8
    nodes = [
        node("Constant", [], ["shift"], value=onnx.numpy_helper.from_array(np.array(shift))),
        node("Sub", ["x", "shift"], ["logits"]),
    ]
    session = graph(nodes, {"logits": (DOUBLE, ["batch", 4])}, element=DOUBLE)
    x = shift + X.astype(np.float64)
    result = calls.prediction_change(session, x, A, target=0, baselines=shift, output="logit")
    np.testing.assert_allclose(result.morf[:, 0], X[:, 0], rtol=0, atol=1e-7)
    assert result.value.dtype == np.float64


def test_string_classes_of_probability_maps_are_in_scikit_learns_order():
    names = np.array(["wolf", "ant", "Bee"])[LABELS]
    mlp = MLPClassifier((3,), max_iter=300, random_state=0, learning_rate_init=0.05).fit(X, names)
    made = skl2onnx.to_onnx(mlp, X[:1], options={"zipmap": True})
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.get_outputs()[1].type.startswith("seq(map(string")
    for measure in (calls.prediction_change, calls.directed_prediction_change):
        expected, result = measure(mlp, X, A), measure(session, X, A)
        np.testing.assert_array_equal(result.target, expected.target)
        np.testing.assert_allclose(result.value, expected.value, rtol=0, atol=1e-5)


def test_copies_of_a_network_have_the_same_pc_and_dpc():
    mlp = MLPClassifier((8, 8), max_iter=300, random_state=0, learning_rate_init=0.05).fit(X, LABELS)
    layers = [nn.Linear(*weight.shape) for weight in mlp.coefs_]
    for layer, weight, bias in zip(layers, mlp.coefs_, mlp.intercepts_, strict=True):
        layer.weight.data, layer.bias.data = torch.tensor(weight.T).float(), torch.tensor(bias).float()
    copy = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    made = skl2onnx.to_onnx(mlp, X[:1], options={"zipmap": False})
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for measure in (calls.prediction_change, calls.directed_prediction_change):
        expected = measure(mlp, X, A)
        for model in (copy, session):
            np.testing.assert_allclose(measure(model, X, A).value, expected.value, rtol=0, atol=1e-5)


UNUSABLE = {
    "two inputs": (
        lambda: graph([node("Add", ["x", "x1"], ["logits"])], {"logits": (FLOAT, ["batch", 4])}, inputs=2),
        ValueError,
        r"model: the ONNX model has 2 inputs \(x, x1\).*verax.adapters.encoded",
    ),
    "text": (
        lambda: graph([node("Identity", ["x"], ["logits"])], {"logits": (STRING, ["batch", 4])}, element=STRING),
        TypeError,
        r"model: input x .* is a tensor\(string\), expected tensor\(float\)",
    ),
    "fixed batch": (
        lambda: linear("logits", rows=1),
        ValueError,
        r"model: input x .* fixed shape \[1, 4\]; export it with .* dynamic batch axis",
    ),
}


@pytest.mark.parametrize(("make", "error", "message"), UNUSABLE.values(), ids=UNUSABLE)
def test_models_that_do_not_fit_are_refused_before_any_work(make, error, message):
    with pytest.raises(error, match=message):
        verax.Scorer(make())


def test_rows_of_another_shape():
    with pytest.raises(ValueError, match=r"inputs: the ONNX model takes rows of shape \[4\], got rows of shape \[3\]"):
        calls.prediction_change(linear("logits"), X[:, :3], A[:, :3])


def test_scores_of_another_shape():
    nodes = [node("MatMul", ["x", "weight"], ["s"]), node("Transpose", ["s"], ["logits"], perm=[1, 0])]
    with pytest.raises(ValueError, match=r"model: for a batch of 30 rows it returned shape \(3, 30\)"):
        calls.prediction_change(graph(nodes, {"logits": (FLOAT, [3, "batch"])}), X, A)


def test_a_damaged_file(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"this is no model")
    with pytest.raises(ValueError, match=r"model: .*model\.onnx cannot be read as an ONNX model"):
        verax.Scorer(path)


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"model: .*model\.onnx needs onnxruntime: pip install 'verax\[onnx\]'"):
        verax.Scorer(path)


# What an output holds is decided by its values


def squashed(operator, name, **attributes):
    nodes = [node("MatMul", ["x", "weight"], ["raw"]), node(operator, ["raw"], [name], **attributes)]
    return graph(nodes, {name: (FLOAT, ["batch", 3])})


def test_logits_called_probabilities_are_taken_as_logits_and_it_is_said():
    scorer = verax.Scorer(linear("probabilities"))
    with pytest.warns(UserWarning, match=r"Output probabilities .* is taken to hold logits, by its values"):
        check_is_linear(scorer)
    check_is_linear(scorer)  # said once
    assert scorer.adapter.returns == "logits"


def test_probabilities_called_logits_are_taken_as_probabilities_and_it_is_said():
    with pytest.warns(UserWarning, match=r"Output logits .* is taken to hold probabilities, by its values"):
        check_is_linear(squashed("Softmax", "logits", axis=1))


def test_probabilities_without_a_name_need_no_word():
    check_is_linear(squashed("Softmax", "output", axis=1))


def test_one_number_in_the_unit_interval_is_said_to_be_a_probability():
    nodes = [node("Constant", [], ["axis"], value=onnx.numpy_helper.from_array(np.array([1])))]
    nodes += [node("ReduceSum", ["x", "axis"], ["total"], keepdims=0), node("Sigmoid", ["total"], ["variable"])]
    session = graph(nodes, {"variable": (FLOAT, ["batch"])})
    with pytest.warns(UserWarning, match=r"Output variable .* is taken to hold probabilities"):
        calls.prediction_change(session, X, A)


@pytest.mark.parametrize("name", ["probabilities", "output"])
def test_multi_label_outputs_are_refused_by_that_name(name):
    with pytest.raises(ValueError, match=r"values in \[0, 1\] whose rows do not sum to 1.*multi-label"):
        calls.prediction_change(squashed("Sigmoid", name), X, A)
    with pytest.raises(ValueError, match="A multi-label model"):
        calls.prediction_change(verax.Scorer(squashed("Sigmoid", name), returns="probabilities"), X, A)


def test_numeric_classes_of_probability_maps_are_labels():
    mlp = MLPClassifier((3,), max_iter=300, random_state=0, learning_rate_init=0.05).fit(X, LABELS + 1)
    made = skl2onnx.to_onnx(mlp, X[:1], options={"zipmap": True})
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    with pytest.raises(ValueError, match=r"target: 1 may be a label .* label 1 is column 0, label 2 is column 1"):
        calls.prediction_change(session, X, A, target=1)
    assert set(calls.prediction_change(session, X, A, target="1").target) == {0}


# Files run nothing and reach nothing outside their folder


def with_external_data(folder, location):
    tensor = onnx.TensorProto(name="weight", data_type=FLOAT, dims=[4, 3], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": "0", "length": str(WEIGHT.nbytes)}.items():
        tensor.external_data.add(key=key, value=value)
    made = onnx.helper.make_graph(
        [node("MatMul", ["x", "weight"], ["logits"])],
        "test",
        [onnx.helper.make_tensor_value_info("x", FLOAT, ["batch", 4])],
        [onnx.helper.make_tensor_value_info("logits", FLOAT, ["batch", 3])],
        [tensor],
    )
    model = onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_weights_beside_a_file_stay_in_its_folder(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for place in (tmp_path / "secret.bin", folder / "weights.bin"):
        place.write_bytes(WEIGHT.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    check_is_linear(with_external_data(folder, "weights.bin"))
    for location in ("../secret.bin", str(tmp_path / "secret.bin"), "link.bin", "./../secret.bin"):
        with pytest.raises(ValueError, match=r"model: .*model\.onnx cannot be read as an ONNX model"):
            verax.Scorer(with_external_data(folder, location))


@pytest.mark.parametrize("location", ["weights.bin", "below/w", "./weights.bin", "model.onnx.data", "w" * 200, "größe"])
def test_the_hash_of_a_file_covers_the_weights_that_it_names(tmp_path, location):
    (tmp_path / "below").mkdir()
    (tmp_path / "other.bin").write_bytes(b"1")
    path = with_external_data(tmp_path, location)
    hashes = []
    for weight in (WEIGHT, -WEIGHT):
        (tmp_path / location).write_bytes(weight.tobytes())
        hashes.append(file_hash(path))
    (tmp_path / "other.bin").write_bytes(b"2")  # which no tensor names
    assert file_hash(path) == hashes[1] != hashes[0]


def test_operators_of_a_library_are_not_known(tmp_path):
    made = onnx.helper.make_graph(
        [node("Evil", ["x"], ["logits"], domain="evil")],
        "test",
        [onnx.helper.make_tensor_value_info("x", FLOAT, ["batch", 4])],
        [onnx.helper.make_tensor_value_info("logits", FLOAT, ["batch", 3])],
    )
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("evil", 1)]
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.helper.make_model(made, opset_imports=opsets, ir_version=9).SerializeToString())
    with pytest.raises(ValueError, match=r"cannot be read as an ONNX model .*Evil"):
        verax.Scorer(path)


@pytest.mark.parametrize("kind", ["INT64", "INT32"])
def test_whole_number_inputs_are_refused_with_the_way_out(kind):
    nodes = [node("Cast", ["x"], ["cast"], to=FLOAT), node("MatMul", ["cast", "weight"], ["raw"])]
    nodes.append(node("Softmax", ["raw"], ["probabilities"]))
    element = getattr(onnx.TensorProto, kind)
    session = graph(nodes, {"probabilities": (FLOAT, ["batch", 3])}, element=element)
    with pytest.raises(TypeError, match=rf"input x of the ONNX model is a tensor\({kind.lower()}\)") as caught:
        verax.Scorer(session)
    advice = re.search(r"verax\.Scorer\(.*numpy\"\)", str(caught.value))
    scorer = eval(advice.group(), {"verax": verax, "session": session})  # noqa: S307
    ids = np.arange(12).reshape(3, 4)
    result = calls.prediction_change(scorer, Inputs(ids, baselines=0), np.ones((3, 4)), target=0).morf[:, 0]
    logits = ids @ WEIGHT
    expected = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(result, expected[:, 0] / expected.sum(1), rtol=1e-5)


def test_text_inputs_are_sent_to_encoded():
    session = graph([node("Identity", ["x"], ["y"])], {"y": (STRING, ["batch", 4])}, element=STRING)
    with pytest.raises(TypeError, match=r"tensor\(string\).*verax\.adapters\.encoded"):
        verax.Scorer(session)
