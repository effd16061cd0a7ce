"""Texts: tokens, words and sentences as features of models of ``transformers``."""

from verax.text.continuation import ContinuationScore
from verax.text.problems import classification, embedded, generation, per_token
from verax.text.token_labels import TokenLabelScore
from verax.text.tokens import TextInputs

__all__ = [
    "ContinuationScore",
    "TextInputs",
    "TokenLabelScore",
    "classification",
    "embedded",
    "generation",
    "per_token",
]
