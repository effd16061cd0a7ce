"""A decision tree: flat nearly everywhere, so that only the explanation from the baseline is of use."""

import torch
from torch import Tensor, nn

from verax.auditing.case import Case, Truth
from verax.auditing.known_truth.common import BACKGROUND_ROWS, SHAPLEY, fixed, normal_rows
from verax.auditing.known_truth.games import product_shares
from verax.core.shapes import Float
from verax.problem.problem import Problem
from verax.scoring.scorer import Scorer

_FEATURES, _DEPTH, _TELLING = 6, 3, 3
_ASKED = (0, 1, 2, 3, 4, 5, 0)  # by question, level by level
_THRESHOLDS = (-0.3, 0.4, 0.2, -0.6, 0.5, -0.2, 0.8)
_LEAVES = (-2.0, 0.5, 1.3, 3.0, -1.1, 0.9, 1.7, -0.4)


def _met(
    rows: Float[Tensor, "n features"], thresholds: Float[Tensor, " questions"]
) -> Float[Tensor, "n leaves features"]:
    """Whether each feature is on the way to each leaf: 1 where it answers all its questions so, else 0."""
    met = rows.new_ones(len(rows), len(_LEAVES), rows.shape[1])
    for leaf in range(len(_LEAVES)):
        question = 0
        for level in reversed(range(_DEPTH)):
            right = leaf >> level & 1
            feature = _ASKED[question]
            met[:, leaf, feature] *= ((rows[:, feature] > thresholds[question]) == bool(right)).to(rows.dtype)
            question = 2 * question + 1 + right
    return met


class DecisionTree(nn.Module):
    """Three questions to one of eight leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.thresholds, self.leaves = fixed(*_THRESHOLDS), fixed(*_LEAVES)

    def forward(self, rows: Float[Tensor, "n 6"]) -> Float[Tensor, " n"]:
        """The value of each row's leaf."""
        return _met(rows, self.thresholds).prod(2) @ self.leaves


def _shares(x: Float[Tensor, "n features"]) -> Float[Tensor, "n features"]:
    """A tree is the sum over its leaves of value times the product of its features' answers: a sum of products."""
    thresholds = torch.tensor(_THRESHOLDS, dtype=torch.float64)
    present, absent = _met(x, thresholds), _met(torch.zeros_like(x[:1]), thresholds)
    shares = [value * product_shares(present[:, leaf], absent[:, leaf]) for leaf, value in enumerate(_LEAVES)]
    return torch.stack(shares).sum(0)


def decision_tree(inputs: int, seed: int) -> Case:
    """Three questions to one of eight leaves, and inputs in which at least three features have a say."""
    drawn = normal_rows("decision tree", 16 * inputs + 256, _FEATURES, seed)  # a sixth or so are such
    shares = _shares(drawn)
    telling = ((shares != 0).sum(1) >= _TELLING).nonzero()[:inputs, 0]
    background = normal_rows("decision tree/background", BACKGROUND_ROWS, _FEATURES, seed)
    return Case(
        "decision tree",
        "A tree of depth three on six features.",
        Problem(Scorer(DecisionTree(), returns="values"), drawn[telling], background=background),
        None,
        Truth(shares[telling], SHAPLEY),
        left_out="local: the gradient of a tree is 0 wherever it exists",
    )
