"""An additive model that rises and falls: slopes change from input to input, contributions stay simple."""

import torch
from torch import Tensor, nn

from verax.auditing.case import Case
from verax.auditing.known_truth.common import BACKGROUND_ROWS, fixed, normal_rows, table_case
from verax.core.shapes import Float

_WAVES = (1.5, -1.1, 0.8, -0.6, 0.4, 0.3, -0.2, 0.1)
_SQUARES = (0.1, 0.2, -0.3, 0.4, -0.5, 0.6, 0.7, -0.8)


class Additive(nn.Module):
    """``sum_i v_i sin(2 x_i) + u_i x_i^2``."""

    def __init__(self) -> None:
        super().__init__()
        self.waves, self.squares = fixed(*_WAVES), fixed(*_SQUARES)

    def forward(self, rows: Float[Tensor, "n 8"]) -> Float[Tensor, " n"]:
        """One value per row."""
        return (2 * rows).sin() @ self.waves + rows**2 @ self.squares


def additive(inputs: int, seed: int) -> Case:
    """``sum_i v_i sin(2 x_i) + u_i x_i^2``; a term is 0 at the baseline, so that it is its feature's Shapley value."""
    x = normal_rows("additive", inputs, len(_WAVES), seed)
    waves, squares = (torch.tensor(one, dtype=torch.float64) for one in (_WAVES, _SQUARES))
    return table_case(
        "additive",
        "A sum of waves and parabolas, one of each per feature.",
        Additive(),
        x,
        2 * waves * (2 * x).cos() + 2 * squares * x,
        waves * (2 * x).sin() + squares * x**2,
        normal_rows("additive/background", BACKGROUND_ROWS, len(_WAVES), seed),
    )
