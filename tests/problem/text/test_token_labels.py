"""Token classification: the logits of one word follow its row through padding, deletion and any batch."""

from typing import Any

import pytest
import torch
from torch import Tensor

import verax
from verax.problem.text.example import small_tokenizer

transformers = pytest.importorskip("transformers")

TEXTS = ["anna lives in rome", "rome", "in rome lives old anna and in old rome"]
WORDS = ["rome", "rome", 4]


@pytest.fixture(scope="module", name="tokenizer")
def _tokenizer() -> Any:
    return small_tokenizer(*TEXTS)


@pytest.fixture(scope="module", name="tagger")
def _tagger(tokenizer: Any) -> Any:
    settings = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.BertConfig(vocab_size=len(tokenizer), num_labels=3, **settings)
        return transformers.BertForTokenClassification(config).eval()


def _logits(tokenizer: Any, tagger: Any, text: str, word: int) -> Tensor:
    encoded = tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        return tagger(**encoded).logits[0, encoded.word_to_tokens(0, word).start].clone()  # type: ignore[no-any-return]


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_score_is_that_of_the_word_in_question(tokenizer: Any, tagger: Any, side: str) -> None:
    tokenizer.padding_side = side
    settings = {"target": 2, "output": "logit", "batch_size": 1}
    problem = verax.text.classification(tagger, tokenizer, TEXTS, words=WORDS, **settings)
    tokenizer.padding_side = "right"
    ones = [[1.0] * len(row) for row in problem.rows.tokens]
    result = verax.evaluate(problem, {"ones": ones}, ["pc"])["pc"]
    for row, (text, word) in enumerate(zip(TEXTS, (3, 0, 4), strict=True)):
        assert float(result.morf["ones"][row, 0]) == pytest.approx(
            float(_logits(tokenizer, tagger, text, word)[2]), abs=1e-5
        )


def test_deletion_keeps_the_word_and_closes_the_gap(tokenizer: Any, tagger: Any) -> None:
    settings = {"replace": "delete", "target": 0, "output": "logit"}
    problem = verax.text.classification(tagger, tokenizer, [TEXTS[2]], words=[4], **settings)
    ones = [[1.0] * len(problem.rows.tokens[0])]
    result = verax.evaluate(problem, {"ones": ones}, ["pc"])["pc"]
    alone = float(_logits(tokenizer, tagger, "anna", 0)[0])
    assert float(result.morf["ones"][0, -1]) == pytest.approx(alone, abs=1e-5)


@pytest.mark.parametrize(
    ("texts", "words", "message"),
    [
        (TEXTS[2:], ["rome"], "2 times"),
        (TEXTS[:1], ["paris"], "no such word"),
        (TEXTS[:1], [4], "from 0 to 3, got 4"),
        (TEXTS, ["rome"], "one for each of 3 texts, got 1"),
    ],
)
def test_words_that_cannot_be_found_are_refused(
    tokenizer: Any, tagger: Any, texts: list[str], words: list[Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        verax.text.classification(tagger, tokenizer, texts, words=words)


def test_a_word_alone_cannot_be_explained_by_deletion(tokenizer: Any, tagger: Any) -> None:
    with pytest.raises(ValueError, match="no token beside the word"):
        verax.text.classification(tagger, tokenizer, ["rome"], words=["rome"], replace="delete")


def test_words_cannot_be_cut_off(tokenizer: Any, tagger: Any) -> None:
    with pytest.raises(ValueError, match="max_length: not supported with words"):
        verax.text.classification(tagger, tokenizer, TEXTS, words=WORDS, max_length=4)
