"""Features that have no say: some that the model never reads, and some that only repeat what it reads."""

import torch
from torch import Tensor, nn

from verax.auditing.case import Case
from verax.auditing.known_truth.common import BACKGROUND_ROWS, fixed, normal_rows, table_case
from verax.auditing.known_truth.games import product_shares
from verax.core.shapes import Float

_WEIGHTS = (1.6, -1.2, 0.9, -0.6, 0.4, 0.25)
_SHIFTS = (0.4, -0.7, 0.9, -0.3)


class Bounded(nn.Module):
    """``w . tanh(x)`` of the first six features; the others are not read."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = fixed(*_WEIGHTS)

    def forward(self, rows: Float[Tensor, "n 10"]) -> Float[Tensor, " n"]:
        """One value per row."""
        return rows[:, :6].tanh() @ self.weights


def uninformative(inputs: int, seed: int) -> Case:
    """``w . tanh(x_{0..5})``; the truth of the four features that follow is 0."""
    x = normal_rows("uninformative", inputs, 10, seed)
    weights, bounded = torch.tensor(_WEIGHTS, dtype=torch.float64), x[:, :6].tanh()
    return table_case(
        "uninformative",
        "Six features add up, four are never read.",
        Bounded(),
        x,
        nn.functional.pad(weights * (1 - bounded**2), (0, 4)),
        nn.functional.pad(weights * bounded, (0, 4)),
        normal_rows("uninformative/background", BACKGROUND_ROWS, 10, seed),
    )


class TwoProducts(nn.Module):
    """``(x_0 + c_0)(x_1 + c_1) + (x_2 + c_2)(x_3 + c_3)``; the other features are not read."""

    def __init__(self) -> None:
        super().__init__()
        self.shifts = fixed(*_SHIFTS)

    def forward(self, rows: Float[Tensor, "n 8"]) -> Float[Tensor, " n"]:
        """One value per row."""
        factors = rows[:, :4] + self.shifts
        return factors[:, :2].prod(1) + factors[:, 2:].prod(1)


def duplicated(inputs: int, seed: int) -> Case:
    """Two products of two features each. Four further columns repeat these; the truth of the copies is 0."""
    x = normal_rows("duplicated", inputs, 4, seed)
    shifts = torch.tensor(_SHIFTS, dtype=torch.float64)
    p, q = x + shifts, shifts[None]
    shares = torch.cat((product_shares(p[:, :2], q[:, :2]), product_shares(p[:, 2:], q[:, 2:])), dim=1)
    return table_case(
        "duplicated",
        "Four features in two products, and a copy of each that is never read.",
        TwoProducts(),
        x.repeat(1, 2),
        nn.functional.pad(p[:, [1, 0, 3, 2]], (0, 4)),
        nn.functional.pad(shares, (0, 4)),
        normal_rows("duplicated/background", BACKGROUND_ROWS, 4, seed).repeat(1, 2),
    )
