"""ONNX models, run by ONNX Runtime."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from verax.core.arrays import ArrayKind
from verax.core.packages import optional_package
from verax.core.warn import warn
from verax.scoring.adapters.base import Returns, as_numpy
from verax.scoring.output_checks import are_probabilities, in_unit_interval

_FLOATS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
_MAPS = "seq(map("  # scikit-learn exports may return one dict of probabilities per row


@dataclass
class OnnxModel:
    """An ONNX Runtime session with one batch as input, of which one output is read."""

    session: Any  # the session
    entry: Any  # description of the input, from the session
    output: str  # name of the output that is read
    returns: Returns  # what that output holds; a guess from its name until it is decided
    decided: bool  # whether the user said it, or the first rows did
    module: None = None
    labels: Sequence[Any] | None = None  # the classes, where the model names them: known after the first rows

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        expected, got = self.entry.shape[1:], list(batch.shape[1:])
        if len(expected) != len(got) or any(isinstance(w, int) and w != f for w, f in zip(expected, got, strict=True)):
            raise ValueError(f"inputs: the ONNX model takes rows of shape {expected}, got rows of shape {got}.")
        array = as_numpy(batch).astype(_FLOATS[self.entry.type], copy=False)
        (scores,) = self.session.run([self.output], {self.entry.name: array})
        if isinstance(scores, list):  # one dict per row
            self.labels = sorted(scores[0])  # as scikit-learn sorts them
            scores = np.array([[row[label] for label in self.labels] for row in scores], dtype=np.float32)
        if not self.decided:
            self._decide(torch.as_tensor(scores).float())
        return scores

    def _decide(self, scores: Tensor) -> None:
        """Find out by the values what an output holds; say so where its name says otherwise, or nothing."""
        table = scores.reshape(len(scores), -1)
        inside = in_unit_interval(table)
        if inside and not are_probabilities(table):
            raise ValueError(
                f"model: output {self.output} of the ONNX model has values in [0, 1] whose rows do not sum to 1: "
                "neither probabilities of classes nor clearly logits. A multi-label model has to be scored one label "
                'at a time; otherwise say what it returns: verax.Scorer(path, returns="logits"), or "values".'
            )
        name = self.output.lower()
        single = table.shape[1] == 1
        named: Returns | None = "logits" if "logit" in name else "probabilities" if "prob" in name else None
        returns: Returns = "probabilities" if inside else "logits"
        if inside and single and named is not None:  # one number in [0, 1] may be either
            returns = named
        if returns != named and (named is not None or single or returns == "logits"):
            warn(
                f"Output {self.output} of the ONNX model is taken to hold {returns}, by its values for the first rows. "
                'If that is wrong, say what it returns: verax.Scorer(path, returns="logits"), "probabilities", or '
                '"values" for a regressor.',
            )
        self.returns, self.decided = returns, True


def is_session(model: object) -> bool:
    """Tell an ONNX Runtime session without importing ONNX Runtime."""
    return all(hasattr(model, name) for name in ("get_inputs", "get_outputs", "run"))


def load_session(path: Path) -> Any:
    """Open a file with ONNX Runtime, on as many threads as torch may use."""
    runtime = optional_package("onnxruntime", "verax[onnx]", f"model: {path}")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    state = runtime.capi.onnxruntime_pybind11_state
    damage = (state.Fail, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf, state.NotImplemented)
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except damage as error:
        raise ValueError(f"model: {path} cannot be read as an ONNX model ({error}).") from error


def adapt_session(session: Any, returns: Returns | None) -> OnnxModel:
    inputs = session.get_inputs()
    if len(inputs) != 1:
        names = ", ".join(argument.name for argument in inputs)
        raise ValueError(
            f"model: the ONNX model has {len(inputs)} inputs ({names}); expected one, a batch of all features. "
            "Export the part of a pipeline that follows its column transformer; see verax.adapters.encoded."
        )
    (entry,) = inputs
    if entry.type not in _FLOATS:
        raise TypeError(
            f"model: input {entry.name} of the ONNX model is a {entry.type}, expected {', '.join(_FLOATS)}."
            + _way_out(session, entry)
        )
    if not entry.shape or isinstance(entry.shape[0], int):
        raise ValueError(
            f"model: input {entry.name} of the ONNX model has the fixed shape {entry.shape}; "
            "export it with a first axis of any length (a dynamic batch axis)."
        )
    output = _chosen(session.get_outputs(), returns, entry.name)
    named: Returns = "logits" if "logit" in output.lower() else "probabilities"
    return OnnxModel(session, entry, output, returns or named, decided=returns is not None)


def _way_out(session: Any, entry: Any) -> str:
    """How to score a model of whole numbers all the same; empty for texts and truth values."""
    kind = entry.type.removeprefix("tensor(").removesuffix(")")
    if not kind.startswith(("int", "uint")):
        return " Export the part of the model that follows its encoders; see verax.adapters.encoded."
    output = session.get_outputs()[-1].name
    return (
        " Wrap it, and say verax.Problem(scorer, rows, categorical=True, baselines=...): "
        f'verax.Scorer(lambda x: session.run(["{output}"], {{"{entry.name}": x.astype("{kind}")}})[0], '
        'returns="probabilities", takes="numpy"), where session = onnxruntime.InferenceSession(path).'
    )


def _chosen(outputs: list[Any], returns: Returns | None, entry: str) -> str:
    """The only output with floating-point numbers, or else the one whose name says what it is."""
    scores: list[str] = [output.name for output in outputs if output.type in _FLOATS or output.type.startswith(_MAPS)]
    listed = ", ".join(f"{output.name}: {output.type}" for output in outputs)
    if not scores:
        raise ValueError(f"model: no output of the ONNX model holds class scores ({listed}); labels do not do.")
    if len(scores) == 1:
        return scores[0]
    words = {"probabilities": ["prob"], "logits": ["logit"], "values": ["value", "variable"], None: ["prob", "logit"]}
    for word in words[returns]:
        named = [name for name in scores if word in name.lower()]
        if len(named) == 1:
            return named[0]
    raise ValueError(
        f"model: several outputs of the ONNX model may be its scores ({listed}) and no single one is called "
        "probabilities or logits (values, of a regressor). Export scikit-learn models with zipmap=False, or "
        f'pick one: verax.Scorer(lambda x: session.run(["{scores[0]}"], {{"{entry}": x}})[0], returns=..., '
        'takes="numpy").'
    )
