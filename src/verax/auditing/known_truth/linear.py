"""A linear model: the gradient is its weights, and every feature adds what it adds."""

import torch
from torch import Tensor, nn

from verax.auditing.case import Case
from verax.auditing.known_truth.common import BACKGROUND_ROWS, fixed, normal_rows, table_case
from verax.core.shapes import Float

_WEIGHTS = (2.0, -1.5, 1.2, -0.9, 0.7, -0.5, 0.3, 0.2)


class Linear(nn.Module):
    """``w . x``."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = fixed(*_WEIGHTS)

    def forward(self, rows: Float[Tensor, "n 8"]) -> Float[Tensor, " n"]:
        """One value per row."""
        return rows @ self.weights


def linear(inputs: int, seed: int) -> Case:
    """``w . x``; the gradient is ``w`` and the Shapley values are ``w x``."""
    x = normal_rows("linear", inputs, len(_WEIGHTS), seed)
    weights = torch.tensor(_WEIGHTS, dtype=torch.float64)
    return table_case(
        "linear",
        "A weighted sum of eight features.",
        Linear(),
        x,
        weights.repeat(inputs, 1),
        weights * x,
        normal_rows("linear/background", BACKGROUND_ROWS, len(_WEIGHTS), seed),
    )
