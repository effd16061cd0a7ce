"""Token classification: the class of one word of each text, and which tokens make it so."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from verax.core.shapes import Float, Int
from verax.scoring.scorer import Scorer
from verax.text.collate import DELETED, Trim
from verax.text.fixed import without
from verax.text.tokens import Replace, TextInputs, Unit, token_rows

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


def token_labels(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str],
    words: Sequence[str | int],
    *,
    unit: Unit = "token",
    replace: Replace | None = None,
) -> tuple[Scorer, TextInputs]:
    """A token-classification model and texts as model and inputs: the score is that of one word's class.

    The class is that of the word's first token, as is the custom for names of entities. The word itself can be removed
    like any other, but for ``replace="delete"``: where nothing is left, there is nothing to classify.

    Args:
        model: A model of ``transformers`` with one set of logits per token.
        tokenizer: Its tokenizer; a fast one, which knows where tokens come from.
        texts: The texts.
        words: The word in question of each: its number, from 0, or itself, where it stands in the text once.
        unit: What one feature is, a ``"token"``, ``"word"`` or ``"sentence"``.
        replace: What a removed token becomes, as in ``tokenized``.

    Example:
        >>> import transformers, verax.text
        >>> from verax.text.example import small_tokenizer
        >>> tokenizer = small_tokenizer("Anna lives in Rome")
        >>> settings = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        >>> config = transformers.BertConfig(vocab_size=len(tokenizer), num_labels=3, **settings)
        >>> bert = transformers.BertForTokenClassification(config).eval()
        >>> model, inputs = verax.text.token_labels(bert, tokenizer, ["Anna lives in Rome"], ["Rome"])
        >>> verax.prediction_change(model, inputs, {"random": torch.rand(1, 6)}, target=2).value["random"].shape
        torch.Size([1])
    """
    return Scorer(TokenLabelScore(model), returns="logits"), words_in_question(tokenizer, texts, words, unit, replace)


def words_in_question(
    tokenizer: Any, texts: Sequence[str], words: Sequence[str | int], unit: Unit, replace: Replace | None
) -> TextInputs:
    """Texts with one word of each marked, as ``TokenLabelScore`` takes them; arguments as in ``token_labels``."""
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError("tokenizer: words are found by a fast tokenizer, which knows where tokens come from.")
    listed, wanted = list(texts), list(words)
    if len(wanted) != len(listed):
        raise ValueError(f"words: expected one for each of {len(listed)} texts, found {len(wanted)}.")
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
        raise ValueError(f"words: row {row}: expected a number from 0 to {len(spans) - 1}, found {word}.")
    return int(encoded.word_to_tokens(row, word).start)
