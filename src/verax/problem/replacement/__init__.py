"""Replacements: what a removed feature becomes. Its baseline, something on the way to it, or what the data hold."""

from verax.problem.replacement.base import (
    BASELINE,
    REPLACEMENTS,
    Baseline,
    Nudge,
    Own,
    Replacement,
    ReplacementLike,
    Rows,
    Toward,
    checked_replacement,
)
from verax.problem.replacement.drawn import Conditional, Marginal
from verax.problem.replacement.images import Blur, NoisyLinear

__all__ = [
    "BASELINE",
    "REPLACEMENTS",
    "Baseline",
    "Blur",
    "Conditional",
    "Marginal",
    "NoisyLinear",
    "Nudge",
    "Own",
    "Replacement",
    "ReplacementLike",
    "Rows",
    "Toward",
    "checked_replacement",
]
