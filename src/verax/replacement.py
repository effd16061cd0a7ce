"""Replacements: what a removed feature becomes. Its baseline, something on the way to it, or what the data hold."""

from verax.problem.replacement import (
    REPLACEMENTS,
    Baseline,
    Blur,
    Conditional,
    Marginal,
    NoisyLinear,
    Nudge,
    Own,
    Replacement,
    Rows,
    Toward,
)

__all__ = [
    "REPLACEMENTS",
    "Baseline",
    "Blur",
    "Conditional",
    "Marginal",
    "NoisyLinear",
    "Nudge",
    "Own",
    "Replacement",
    "Rows",
    "Toward",
]
