"""Products: features that count only together."""

import torch
from torch import Tensor, nn

from verax.auditing.case import Case
from verax.auditing.known_truth.common import BACKGROUND_ROWS, fixed, normal_rows, table_case
from verax.auditing.known_truth.games import product_shares
from verax.core.shapes import Float

_SHIFTS = (0.5, -0.8, 0.3, -0.6, 0.9)
_WEIGHTS = (0.8, -0.5, 0.3)


class Product(nn.Module):
    """A product of two factors, one of three, and three weighted features."""

    def __init__(self) -> None:
        super().__init__()
        self.shifts, self.weights = fixed(*_SHIFTS), fixed(*_WEIGHTS)

    def forward(self, rows: Float[Tensor, "n 8"]) -> Float[Tensor, " n"]:
        """One value per row."""
        factors = rows[:, :5] + self.shifts
        return factors[:, :2].prod(1) + factors[:, 2:].prod(1) + rows[:, 5:] @ self.weights


def product(inputs: int, seed: int) -> Case:
    """``(x_0 + c_0)(x_1 + c_1) + (x_2 + c_2)(x_3 + c_3)(x_4 + c_4) + w . x_{5..7}``.

    A factor's slope is the product of the others; of the product itself each gets what Owen's integral says.
    """
    x = normal_rows("product", inputs, 8, seed)
    shifts, weights = (torch.tensor(one, dtype=torch.float64) for one in (_SHIFTS, _WEIGHTS))
    p, q = x[:, :5] + shifts, shifts[None]
    slopes = (p[:, 1], p[:, 0], p[:, 3] * p[:, 4], p[:, 2] * p[:, 4], p[:, 2] * p[:, 3])
    shares = (product_shares(p[:, :2], q[:, :2]), product_shares(p[:, 2:], q[:, 2:]), weights * x[:, 5:])
    return table_case(
        "product",
        "A product of two features, one of three, and three features that only add.",
        Product(),
        x,
        torch.cat((torch.stack(slopes, dim=1), weights.expand(inputs, 3)), dim=1),
        torch.cat(shares, dim=1),
        normal_rows("product/background", BACKGROUND_ROWS, 8, seed),
    )
