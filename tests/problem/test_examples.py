"""Small examples of what modules of this folder share among themselves."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from verax.problem.attributed import advice, plain_attributions
from verax.problem.baselines import baseline_words, must_choose, replaced, typical_row
from verax.problem.replacement import Nudge
from verax.problem.replacement.words import replacement_from, sayable
from verax.problem.text.collate import Trim
from verax.problem.text.continuation import beginning
from verax.problem.text.example import small_classifier, small_tokenizer
from verax.problem.text.tokens import text_pieces, tokenized, without


def test_text_tokens_text_pieces():
    tokenizer = small_tokenizer("a good film")
    assert text_pieces(tokenizer, tokenizer(["a  Good film"]), ["a  Good film"]) == (("", "a", "  Good", " film", ""),)


def test_text_tokens_tokenized():
    rows = tokenized(small_tokenizer("a good film"), ["a good film", "good"])
    assert (rows.tokens[1], rows.features.tolist()) == (
        ("[CLS]", "good", "[SEP]"),
        [[-1, 0, 1, 2, -1], [-1, 0, -1, -1, -1]],
    )


def test_text_tokens_without():
    assert without(torch.tensor([[-1, 0, 1, 1, 2]]), torch.tensor([[False, True, False, True, False]])).tolist() == [
        [-1, -1, 0, -1, 1]
    ]


def test_text_example_small_tokenizer():
    assert small_tokenizer("a good film")("good film")["input_ids"] == [2, 6, 7, 3]


def test_text_example_small_classifier():
    assert small_classifier(small_tokenizer("a good film")).config.id2label == {0: "negative", 1: "positive"}


def test_text_continuation_beginning():
    assert beginning(torch.tensor([[5, 6, 7, 8], [5, 6, 9, 8]]), torch.ones(2, 4, dtype=torch.bool), most=4) == 2


def test_text_collate_trim():
    rows, others = Trim(pad=0)(torch.tensor([[7, -1, 8, 0]]), {"attention_mask": torch.tensor([[1, 1, 1, 0]])})
    assert (rows.tolist(), others["attention_mask"].tolist()) == ([[7, 8]], [[1, 1]])


def test_replacement_words_replacement_from():
    assert (
        repr((replacement_from("nudge:epsilon=0.1"), replacement_from("conditional")))
        == "(Nudge(epsilon=0.1), Conditional(ridge=1e-06, draws=0, seed=0))"
    )
    # as metrics are written, and as in tables
    assert replacement_from("nudge(epsilon=0.1)") == replacement_from("Nudge(epsilon=0.1)") == Nudge(0.1)
    with pytest.raises(ValueError, match=re.escape("replacement: nudge needs epsilon; say nudge:epsilon=NUMBER.")):
        replacement_from("nudge")


def test_replacement_words_sayable():
    assert (sayable()["blur"], sayable()["noisy_linear"], "own" in sayable()) == (
        "blur:sigma=NUMBER",
        "noisy_linear",
        False,
    )


def test_baselines_typical_row():
    rows = torch.tensor([[1.0, 3.0], [2.0, 3.0], [6.0, torch.nan]])
    assert (
        repr((typical_row("mean", rows, rows), typical_row("mode", rows, rows)))
        == "(tensor([3., 3.]), tensor([1., 3.]))"
    )


def test_baselines_replaced():
    x, b = torch.tensor([[0.1, 0.2]]), torch.tensor([[0.3, 0.4]])
    assert repr(replaced(x, b, torch.tensor([[True, False]]), chosen=must_choose(x, b))) == "tensor([[0.3000, 0.2000]])"


def test_baselines_baseline_words():
    assert (baseline_words("mean"), baseline_words(0.5), baseline_words(torch.ones(3))) == (
        "mean of the background",
        "0.5",
        "given values",
    )


def test_attributed_plain_attributions():
    explanation = SimpleNamespace(values=np.zeros((5, 3)), base_values=np.zeros(5))  # or explainer(x)
    assert plain_attributions({"shap": explanation, "captum": (torch.zeros(5, 3),)})["shap"].shape == (5, 3)


def test_attributed_advice():
    assert (
        advice((5, 3, 2), (5, 3)).rpartition("; ")[2]
        == "if embeddings of tokens, verax.text.per_token(attributions) makes one number per token"
    )
