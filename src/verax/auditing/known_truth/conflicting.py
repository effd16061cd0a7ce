"""Conflicting features: four that have an effect, and four that take it away again."""

import torch
from torch import Tensor, nn

from verax.auditing.case import Case
from verax.auditing.known_truth.common import BACKGROUND_ROWS, fixed, normal_rows, table_case
from verax.auditing.known_truth.games import product_shares
from verax.core.shapes import Float

_WEIGHTS = (2.0, -1.4, 0.9, -0.6)
_STEEPNESS = 3.0


class Conflicting(nn.Module):
    """``sum_k w_k x_k (1 - sigmoid(3 x_{k+4}))``."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = fixed(*_WEIGHTS)

    def forward(self, rows: Float[Tensor, "n 8"]) -> Float[Tensor, " n"]:
        """One value per row."""
        return (rows[:, :4] * (-_STEEPNESS * rows[:, 4:]).sigmoid()) @ self.weights


def conflicting(inputs: int, seed: int) -> Case:
    """``sum_k w_k x_k (1 - sigmoid(3 x_{k+4}))``: the higher the second of a pair, the less remains of the first."""
    x = normal_rows("conflicting", inputs, 8, seed)
    weights = torch.tensor(_WEIGHTS, dtype=torch.float64)
    effects, left = x[:, :4], (-_STEEPNESS * x[:, 4:]).sigmoid()
    absent = torch.tensor([[0.0, 0.5]], dtype=torch.float64)  # the factors at the baseline
    pairs = [product_shares(torch.stack((effects[:, k], left[:, k]), dim=1), absent) for k in range(4)]
    shares = torch.stack(pairs, dim=2) * weights  # (n, two, four)
    slopes = (weights * left, -_STEEPNESS * weights * effects * left * (1 - left))
    return table_case(
        "conflicting",
        "Four features have an effect, and a partner of each takes it away.",
        Conflicting(),
        x,
        torch.cat(slopes, dim=1),
        shares.flatten(1),
        normal_rows("conflicting/background", BACKGROUND_ROWS, 8, seed),
    )
