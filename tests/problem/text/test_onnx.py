"""A classifier of texts as a file: exported to ONNX, it gets the PC of the model that it was exported from."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import verax
from verax.metrics import PredictionChange
from verax.problem.text.example import small_classifier, small_tokenizer

transformers = pytest.importorskip("transformers")
onnxruntime = pytest.importorskip("onnxruntime")

TEXTS = ["the film was good and long", "bad", "good acting , bad story"]


class Logits(nn.Module):
    """Ids and mask by place, logits as they are: what an exporter takes."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        result: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        return result


def test_keywords_a_function_and_a_file_give_the_same_pc(tmp_path: Path) -> None:
    tokenizer = small_tokenizer(*TEXTS)
    bert = small_classifier(tokenizer)
    for weights in bert.parameters():
        weights.data *= 5  # untrained, it would hardly tell texts apart, and anything would agree
    masked, deleted = (
        verax.text.classification(bert, tokenizer, TEXTS, replace=replace, target=1, batch_size=5)
        for replace in ("mask", "delete")
    )
    session = exported(bert, masked.rows, tmp_path / "bert.onnx")

    def by_function(input_ids: Tensor, attention_mask: Tensor, **others: Tensor) -> Tensor:
        logits: Tensor = bert(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits

    def by_file(input_ids: Tensor, attention_mask: Tensor, **others: Tensor) -> Tensor:
        given = {"input_ids": np.asarray(input_ids), "attention_mask": np.asarray(attention_mask)}
        return torch.from_numpy(session.run(None, given)[0])

    attribution = {"a": np.random.default_rng(0).normal(size=masked.inputs.shape)}
    for problem in (masked, deleted):
        expected = PredictionChange()(problem, attribution).value["a"]
        assert expected.abs().max() > 1e-2
        for function in (by_function, by_file):
            other = problem.with_model(verax.Scorer(function, returns="logits"))
            result = PredictionChange()(other, attribution).value["a"]
            np.testing.assert_allclose(result, expected, atol=1e-5, rtol=0)


def exported(model: Any, inputs: Any, path: Path) -> Any:
    """A session on the file, for any number of rows and tokens."""
    names = ("input_ids", "attention_mask")
    example = (inputs.values[:2], inputs.model_kwargs["attention_mask"][:2])
    axes = {name: {0: "rows", 1: "tokens"} for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter that needs no further package
        torch.onnx.export(Logits(model).eval(), example, path, input_names=[*names], dynamic_axes=axes, dynamo=False)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
