"""Replacements: what a removed feature becomes. Its baseline, something on the way to it, or what the data hold."""

from verax.problem.replacement.base import (
    REPLACEMENTS,
    Own,
    Replacement,
    ReplacementLike,
    Rows,
    checked_replacement,
)
from verax.problem.replacement.blur import Blur
from verax.problem.replacement.conditional import Conditional
from verax.problem.replacement.marginal import Marginal
from verax.problem.replacement.noisy_linear import NoisyLinear
from verax.problem.replacement.toward import BASELINE, Baseline, Nudge, Toward

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
