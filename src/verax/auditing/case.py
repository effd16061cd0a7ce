"""A case: a model so simple that the true explanation of its scores is known, and inputs to explain."""

from dataclasses import dataclass

from torch import Tensor

from verax.core.shapes import Float
from verax.metrics.base import Kind
from verax.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Truth:
    """The explanation that is true, and in which sense.

    Attributes:
        attribution: One number per input and feature; exactly 0 for features that have no say.
        says: What it is: "the gradient", "the Shapley values of replacing by the baseline".
        scale: Size of the neighbourhood of an input in which it is true; None where it is so in the limit of small
            ones.
    """

    attribution: Float[Tensor, "n features"]
    says: str
    scale: float | None = None


@dataclass(frozen=True, eq=False)
class Case:
    """A model whose true explanations are known.

    Attributes:
        name: What it is called in tables.
        summary: What the model does, one sentence.
        problem: The model and the rows to explain, in double precision.
        local: How the score moves near each input; None where that is no use.
        baseline: How the score came about on the way from the baseline; None where that is not known.
        left_out: Why a truth is None.
    """

    name: str
    summary: str
    problem: Problem
    local: Truth | None
    baseline: Truth | None
    left_out: str = ""

    def truth(self, kind: Kind) -> Truth | None:
        """The truth that metrics of a kind are judged by."""
        return self.local if kind == "local" else self.baseline
