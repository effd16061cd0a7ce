"""Token classification: the class of one word of each text, and which tokens make it so."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from verax.core.shapes import Float, Int
from verax.problem.text.collate import DELETED, Trim
from verax.problem.text.fixed import without
from verax.problem.text.tokens import Replace, TextInputs, Unit, token_rows

_ASKED = "asked"  # the companion that marks the token in question, so that it moves with its row


class TokenLabelScore(nn.Module):
    """A token-classification model that answers with the logits of one token of each row.

    Args:
        model: A model of ``transformers`` with one set of logits per token, such as ``BertForTokenClassification``.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.config = model, model.config

    def get_input_embeddings(self) -> Any:
        """The embeddings of the model's tokens."""
        return self.model.get_input_embeddings()

    def forward(self, asked: Int[Tensor, "n length"], **given: Tensor) -> Float[Tensor, "n classes"]:
        """Logits of the marked token.

        Args:
            asked: 1 at the token in question, 0 elsewhere.
            given: What the model takes: ids or vectors, and the attention mask.
        """
        logits: Tensor = self.model(**given).logits
        return logits[torch.arange(len(logits), device=logits.device), asked.argmax(1)]


def words_in_question(
    tokenizer: Any, texts: Sequence[Any], words: Sequence[str | int], unit: Unit, replace: Replace | None
) -> TextInputs:
    """Texts with one word of each marked, as ``TokenLabelScore`` takes them; arguments as in ``classification``."""
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError("tokenizer: words are found by a fast tokenizer, which knows where tokens come from.")
    listed, wanted = list(texts), list(words)
    if len(wanted) != len(listed):
        raise ValueError(f"words: expected one for each of {len(listed)} texts, got {len(wanted)}.")
    inputs = token_rows(tokenizer, listed, unit, replace)
    encoded = tokenizer(listed, padding=True)
    places = [_place(encoded, row, listed[row], wanted[row]) for row in range(len(listed))]
    rows, asked = torch.arange(len(listed)), torch.zeros_like(inputs.values)
    asked[rows, places] = 1
    deleted = inputs.baselines == DELETED
    features = without(inputs.features, asked.bool()) if deleted else inputs.features
    if (features < 0).all(1).any():
        row = int((features < 0).all(1).nonzero()[0])
        raise ValueError(f"texts: row {row} has no token beside the word in question: {listed[row]!r}.")
    trim: Trim = inputs.collate  # type: ignore[assignment]  # of ``tokenized``
    return dataclasses.replace(
        inputs,
        features=features,
        alongside={**inputs.alongside, _ASKED: asked},
        collate=dataclasses.replace(trim, along=(*trim.along, _ASKED)),
    )


def _place(encoded: Any, row: int, text: str, word: str | int) -> int:
    """Where the first token of a word stands in its padded row."""
    spans: dict[int, tuple[int, int]] = {}
    for number in dict.fromkeys(one for one in encoded.word_ids(row) if one is not None):
        span = encoded.word_to_chars(row, number)
        spans[number] = (span.start, span.end)
    if isinstance(word, str):
        found = [number for number, (start, end) in spans.items() if text[start:end] == word]
        if len(found) != 1:
            times = "no such word" if not found else f"it {len(found)} times"
            raise ValueError(f"words: row {row}: {word!r}: found {times} in {text!r}; its number, from 0, says which.")
        word = found[0]
    if word not in spans:
        raise ValueError(f"words: row {row}: expected a number from 0 to {len(spans) - 1}, got {word}.")
    return int(encoded.word_to_tokens(row, word).start)
