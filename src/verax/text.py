"""Texts: tokens, words and sentences as features of models of ``transformers``."""

from verax.problem.text.continuation import ContinuationScore
from verax.problem.text.problems import TokenLabelScore, classification, embedded, generation, per_token
from verax.problem.text.tokens import TextInputs

__all__ = [
    "ContinuationScore",
    "TextInputs",
    "TokenLabelScore",
    "classification",
    "embedded",
    "generation",
    "per_token",
]
