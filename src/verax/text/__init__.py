"""Texts: tokens, words and sentences as features of models of ``transformers``."""

from verax.text.continuation import ContinuationScore, continuation
from verax.text.embeddings import embedded, per_token
from verax.text.token_labels import TokenLabelScore, token_labels
from verax.text.tokens import TextInputs, tokenized

__all__ = [
    "ContinuationScore",
    "TextInputs",
    "TokenLabelScore",
    "continuation",
    "embedded",
    "per_token",
    "token_labels",
    "tokenized",
]
