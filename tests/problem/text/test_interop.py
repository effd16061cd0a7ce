"""Token attributions of other libraries: Captum's layers, shap's explanations of texts, inseq's matrices."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import captum.attr
import numpy as np
import pytest
import torch
from torch import Tensor

import verax
from verax.metrics import PredictionChange
from verax.problem.text.example import small_classifier, small_tokenizer

transformers = pytest.importorskip("transformers")

TEXTS = ["the film was good", "bad", "a bad end and a good story"]
HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "evaluate-token-attributions.md"


@pytest.fixture(scope="module", name="tokenizer")
def _tokenizer() -> Any:
    return small_tokenizer(*TEXTS)


@pytest.fixture(scope="module", name="bert")
def _bert(tokenizer: Any) -> Any:
    model = small_classifier(tokenizer)
    for weights in model.parameters():
        weights.data *= 5  # untrained, it would hardly tell texts apart
    return model


def test_layer_integrated_gradients_of_captum_are_ours(tokenizer: Any, bert: Any) -> None:
    problem = verax.text.classification(bert, tokenizer, TEXTS, target=1)
    inputs = problem.rows

    def log_odds(ids: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = bert(input_ids=ids, attention_mask=mask).logits
        return logits[:, 1] - logits[:, 0]

    baseline = torch.where(inputs.features >= 0, inputs.baselines, inputs.values)
    layer = captum.attr.LayerIntegratedGradients(log_odds, bert.get_input_embeddings())
    beside = (inputs.model_kwargs["attention_mask"],)
    theirs = layer.attribute(inputs.values, baseline, n_steps=32, additional_forward_args=beside)
    method = verax.attribution.IntegratedGradients(points=32)
    ours = method(verax.text.embedded(problem))
    assert ours.abs().max() > 1e-3
    torch.testing.assert_close(verax.text.per_token(ours), theirs.sum(-1).float(), atol=1e-6, rtol=1e-4)


def test_explanations_of_texts_are_taken_as_shap_gives_them(tokenizer: Any, bert: Any) -> None:
    shap = pytest.importorskip("shap")
    problem = verax.text.classification(bert, tokenizer, TEXTS, target=1)
    full = torch.rand(problem.inputs.shape, generator=torch.Generator().manual_seed(0))
    rows = np.empty(len(TEXTS), dtype=object)
    for row, there in enumerate(problem.rows.present):
        rows[row] = np.stack([np.zeros(int(there.sum())), full[row][there].numpy()], axis=1)
    explanation = shap.Explanation(rows, base_values=np.zeros((len(TEXTS), 2)), data=problem.rows.tokens)
    expected = PredictionChange()(problem, {"it": full}).value["it"]
    one = explanation[:, :, 1]
    for given in (one, one.values, explanation):
        result = PredictionChange()(problem, {"it": given}).value["it"]
        torch.testing.assert_close(result, expected, atol=1e-6, rtol=0)
    predicted = problem.on(TEXTS, target=problem.predicted)
    first = predicted.predicted == 0
    assert (PredictionChange()(predicted, {"it": explanation}).value["it"][first] == 0).all()  # zeros explain class 0


@pytest.mark.parametrize("pairs", [False, True])
def test_matrices_of_inseq_become_numbers_of_prompt_tokens(tokenizer: Any, pairs: bool) -> None:
    """With the function that the how-to shows; objects as inseq's ``attribute`` returns them."""
    prompts, follow = ["the film was good", "bad"], ["a good story", "end"]
    settings = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32, "vocab_size": len(tokenizer)}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**settings)).eval()
    problem = verax.text.generation(model, tokenizer, prompts, follow)
    generator = torch.Generator().manual_seed(0)
    outputs, expected = [], []
    for prompt, answer in zip(prompts, follow, strict=True):
        given, steps = len(prompt.split()), len(answer.split())
        matrix = torch.rand(given, steps, generator=generator)
        expected.append(matrix.sum(1))
        later = torch.full((steps, steps), torch.nan)  # nothing is known about tokens before they are there
        whole = None if pairs else torch.cat((matrix, later))
        outputs.append(Sequence(source_attributions=matrix if pairs else None, target_attributions=whole, start=given))
    of_prompts = shown_function("of_prompts")
    result = of_prompts(SimpleNamespace(sequence_attributions=outputs))
    for row, numbers in enumerate(expected):
        torch.testing.assert_close(result[row], numbers)
    assert PredictionChange()(problem, {"inseq": result}).value["inseq"].shape == (2,)
    first = of_prompts(SimpleNamespace(sequence_attributions=outputs), step=0)
    assert [len(row) for row in first] == [4, 1]


def test_numbers_of_a_prompt_may_count_its_special_tokens(tokenizer: Any) -> None:
    """As inseq gives them where a tokenizer adds some; what they say of special tokens does not count."""
    settings = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32, "vocab_size": len(tokenizer)}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**settings)).eval()
    problem = verax.text.generation(model, tokenizer, ["the film was good", "bad"], ["a good story", "end"])
    plain = [[1.0, 4.0, 2.0, 3.0], [1.0]]
    special = [[9.0, *row, 9.0] for row in plain]
    result = PredictionChange()(problem, {"plain": plain, "special": special}).value
    assert torch.equal(result["plain"], result["special"])
    with pytest.raises(ValueError, match="row 0 has 5 numbers, and the text 9 tokens with special ones"):
        PredictionChange()(problem, {"it": [row[1:] for row in special]})


class Sequence:
    """What inseq holds for one text."""

    def __init__(self, source_attributions: Tensor | None, target_attributions: Tensor | None, start: int) -> None:
        self.source_attributions, self.target_attributions = source_attributions, target_attributions
        self.attr_pos_start = start

    def aggregate(self) -> "Sequence":
        return self


def shown_function(name: str) -> Any:
    """A function of the page."""
    (source,) = re.findall(rf"^```python\n(def {name}(?:.*\n)*?)^```$", HOW_TO.read_text("utf-8"), flags=re.MULTILINE)
    made: dict[str, Any] = {}
    exec(source, made)  # noqa: S102
    return made[name]
