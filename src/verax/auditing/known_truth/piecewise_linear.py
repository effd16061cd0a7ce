"""A piecewise-linear network whose regions are known: each unit reads one pair of features."""

import math

import torch
from torch import Tensor, nn

from verax.auditing.case import Case
from verax.auditing.known_truth.common import BACKGROUND_ROWS, known, normal_rows, table_case
from verax.auditing.known_truth.games import pair_shares
from verax.core.shapes import Float

MARGIN = 0.05  # inputs are at least so far from the border of their region
_PAIRS, _UNITS = 4, 3  # units of a pair look in three directions: one of them is always on
_OUT = (1.5, -1.0, 0.7, -1.3, 0.9, 0.5, 1.1, 0.6, -0.8, -0.4, 1.2, -0.7)


class PiecewiseLinear(nn.Module):
    """``v . relu(W x + c)``."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.zeros(_PAIRS * _UNITS, 2 * _PAIRS, dtype=torch.float64)
        for unit in range(_PAIRS * _UNITS):
            pair, way = divmod(unit, _UNITS)
            angle = 2 * math.pi * way / _UNITS + 0.1 + 0.4 * pair
            weight[unit, 2 * pair], weight[unit, 2 * pair + 1] = math.cos(angle), math.sin(angle)
        self.inner = nn.Linear(2 * _PAIRS, _PAIRS * _UNITS, device="meta")
        self.inner.weight = known(weight)
        self.inner.bias = known(0.3 + 0.05 * torch.arange(_PAIRS * _UNITS, dtype=torch.float64))
        self.outer = nn.Linear(_PAIRS * _UNITS, 1, bias=False, device="meta")
        self.outer.weight = known(torch.tensor([_OUT], dtype=torch.float64))

    def forward(self, rows: Float[Tensor, "n 8"]) -> Float[Tensor, " n"]:
        """One value per row."""
        return self.outer(self.inner(rows).relu()).flatten()  # type: ignore[no-any-return]


def piecewise_linear(inputs: int, seed: int) -> Case:
    """``v . relu(W x + c)``; in the region where a set of units is on, the gradient is the sum of their ``v_u W_u``."""
    network = PiecewiseLinear()
    inner, out = network.inner, network.outer.weight[0]
    drawn = normal_rows("piecewise linear", 8 * inputs + 64, 2 * _PAIRS, seed)  # more than half are far enough
    x = drawn[inner(drawn).abs().min(1).values > MARGIN][:inputs]
    on = (inner(x) > 0).double()

    def pair_of(pair: int) -> Float[Tensor, "n two"]:
        """Both Shapley values of one pair of features, whose units no other feature reads."""
        units, own = slice(_UNITS * pair, _UNITS * (pair + 1)), slice(2 * pair, 2 * pair + 2)
        weight, bias = inner.weight[units, own], inner.bias[units]
        return pair_shares(
            lambda two: (two @ weight.T + bias).relu() @ out[units], x[:, own], torch.zeros(1, 2).double()
        )

    return table_case(
        "piecewise linear",
        "A network of twelve ReLUs, three to each pair of features.",
        network,
        x,
        (on * out) @ inner.weight,
        torch.cat([pair_of(pair) for pair in range(_PAIRS)], dim=1),
        normal_rows("piecewise linear/background", BACKGROUND_ROWS, 2 * _PAIRS, seed),
    )
