"""Replacements: what a removed feature becomes. Its baseline, something on the way to it, or what the data hold."""

from verax.problem.replacement import (
    BASELINE,
    REPLACEMENTS,
    Baseline,
    Blur,
    Conditional,
    Marginal,
    NoisyLinear,
    Nudge,
    Own,
    Replacement,
    ReplacementLike,
    Rows,
    Toward,
    checked_replacement,
)

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
