"""What cases share: keyed rows, constants as weights, and a table as a case."""

import torch
from torch import Tensor, nn

from verax.auditing.case import Case, Truth
from verax.core.noise import input_keys, normals
from verax.core.shapes import Float
from verax.problem.problem import Problem
from verax.scoring.scorer import Scorer

BACKGROUND_ROWS = 256
GRADIENT = "the gradient"
SHAPLEY = "the Shapley values of replacing by the baseline"


def normal_rows(purpose: str, count: int, size: int, seed: int) -> Float[Tensor, "{count} {size}"]:
    """Standard normal rows; the first rows are the same whatever their count."""
    keys = input_keys(torch.arange(count, dtype=torch.float64)[:, None], seed, f"case/{purpose}")
    return normals(keys, 0, 1, size, torch.float64)[:, 0]


def known(weight: Float[Tensor, "*shape"]) -> nn.Parameter:
    """A tensor as weights of a layer; made on the device "meta" before, a layer touches no random state."""
    return nn.Parameter(weight, requires_grad=False)


def fixed(*values: float) -> nn.Parameter:
    """Weights that are known, in double precision."""
    return known(torch.tensor(values, dtype=torch.float64))


def table_case(
    name: str,
    summary: str,
    module: nn.Module,
    rows: Float[Tensor, "n features"],
    gradient: Float[Tensor, "n features"],
    shapley: Float[Tensor, "n features"],
    background: Float[Tensor, "m features"],
) -> Case:
    """A table whose columns are the features, whose baseline is 0, and both of whose truths are known."""
    return Case(
        name,
        summary,
        Problem(Scorer(module, returns="values"), rows, background=background),
        Truth(gradient, GRADIENT),
        Truth(shapley, SHAPLEY),
    )
