"""What a case of known truth is, and what these cases share: rows, models with fixed weights, Shapley values."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from verax.core.noise import input_keys, normals
from verax.core.shapes import Float
from verax.metrics.base import Kind
from verax.problem.problem import Problem
from verax.scoring.scorer import Scorer

BACKGROUND_ROWS = 256
GRADIENT = "the gradient"
SHAPLEY = "the Shapley values of replacing by the baseline"


@dataclass(frozen=True, eq=False)
class Truth:
    """The explanation that is true, and in which sense.

    Attributes:
        attribution: One number per input and feature; exactly 0 for features without influence.
        says: What it is: "the gradient", "the Shapley values of replacing by the baseline".
        scale: Size of the neighbourhood of an input in which it is true; None for the limit of small neighbourhoods.
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
        local: How the score moves near each input; None where it is not defined or of no use.
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


class Formula(nn.Module):
    """A function of its weights and a batch of rows. Weights are not trained."""

    def __init__(self, function: Callable[[Any, Tensor], Tensor], **weights: tuple[float, ...]) -> None:
        super().__init__()
        self.function = function
        for name, values in weights.items():
            self.register_parameter(name, known(double(values)))

    def forward(self, rows: Float[Tensor, "n *shape"]) -> Float[Tensor, " n"]:
        return self.function(self, rows)


def double(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def known(weight: Float[Tensor, "*shape"]) -> nn.Parameter:
    """Weights of a layer that was made on the device "meta", so that it touches no random state."""
    return nn.Parameter(weight, requires_grad=False)


def normal_rows(purpose: str, count: int, size: int, seed: int) -> Float[Tensor, "{count} {size}"]:
    """Standard normal rows; the first rows are the same whatever their count."""
    keys = input_keys(torch.arange(count, dtype=torch.float64)[:, None], seed, f"case/{purpose}")
    return normals(keys, 0, 1, size, torch.float64)[:, 0]


def background_rows(name: str, size: int, seed: int) -> Float[Tensor, "m {size}"]:
    return normal_rows(f"{name}/background", BACKGROUND_ROWS, size, seed)


def table_case(
    name: str,
    summary: str,
    module: nn.Module,
    rows: Float[Tensor, "n features"],
    gradient: Float[Tensor, "n features"],
    shapley: Float[Tensor, "n features"],
    background: Float[Tensor, "m features"],
) -> Case:
    """A case whose features are columns, whose baseline is 0, and both of whose truths are known."""
    problem = Problem(Scorer(module, returns="values"), rows, background=background)
    return Case(name, summary, problem, Truth(gradient, GRADIENT), Truth(shapley, SHAPLEY))


def product_shares(
    present: Float[Tensor, "n factors"], absent: Float[Tensor, "#n factors"]
) -> Float[Tensor, "n factors"]:
    """Shapley values of a product in which every factor is one of two numbers.

    The Shapley value is the integral of the game's multilinear extension along the diagonal (Owen 1972), here
    ``(p_i - q_i) * integral_0^1 prod_{j != i} (q_j + t (p_j - q_j)) dt``: a polynomial, which Gauss's rule integrates
    exactly. ``present`` holds each factor with its feature there, ``p``, ``absent`` with its feature replaced, ``q``.

    Example: a product of two is shared in halves where both replacements are 0.
        >>> product_shares(torch.tensor([[2.0, 3.0]]).double(), torch.zeros(1, 2).double())
        tensor([[3., 3.]], dtype=torch.float64)
    """
    factors = present.shape[1]
    points, weights = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(factors // 2 + 1))
    change = present - absent
    between = absent[:, None] + (points[:, None] + 1) / 2 * change[:, None]  # (n, points, factors)
    others = [between[:, :, torch.arange(factors) != factor].prod(2) @ weights / 2 for factor in range(factors)]
    return change * torch.stack(others, dim=1)


def pair_shares(
    game: Callable[[Float[Tensor, "n two"]], Float[Tensor, " n"]],
    present: Float[Tensor, "n two"],
    absent: Float[Tensor, "#n two"],
) -> Float[Tensor, "n two"]:
    """Shapley values of any function of two features: the mean over the two orders in which they come."""
    absent = absent.expand_as(present)
    first = game(torch.stack((present[:, 0], absent[:, 1]), dim=1))
    second = game(torch.stack((absent[:, 0], present[:, 1]), dim=1))
    both, none = game(present), game(absent)
    return torch.stack((first - none + both - second, second - none + both - first), dim=1) / 2
