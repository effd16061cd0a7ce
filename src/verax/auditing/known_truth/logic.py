"""Logic: AND, OR and AND NOT of features that are more or less true."""

import torch
from torch import Tensor, nn

from verax.auditing.case import Case
from verax.auditing.known_truth.common import BACKGROUND_ROWS, fixed, normal_rows, table_case
from verax.auditing.known_truth.games import product_shares
from verax.core.shapes import Float

_THRESHOLDS = (-0.5, 0.2, -0.3, 0.4, 0.7, 0.5, -0.2, 0.3)
_STEEPNESS = 4.0
_STRENGTHS = (2.0, 1.0, 1.5)


class Logic(nn.Module):
    """``2 (0 and 1 and 2) + (3 or 4 or 5) + 1.5 (6 and not 7)``, of truths between 0 and 1."""

    def __init__(self) -> None:
        super().__init__()
        self.thresholds, self.strengths = fixed(*_THRESHOLDS), fixed(*_STRENGTHS)

    def forward(self, rows: Float[Tensor, "n 8"]) -> Float[Tensor, " n"]:
        """One value per row."""
        true = (_STEEPNESS * (rows - self.thresholds)).sigmoid()
        every = true[:, :3].prod(1)
        some = 1 - (1 - true[:, 3:6]).prod(1)
        first_only = true[:, 6] * (1 - true[:, 7])
        return torch.stack((every, some, first_only), dim=1) @ self.strengths


def logic(inputs: int, seed: int) -> Case:
    """AND is the product of truths ``sigmoid(4 (x - c))``, NOT is 1 minus one, and OR is NOT (NOT AND NOT ...)."""
    x = normal_rows("logic", inputs, 8, seed)
    thresholds = torch.tensor(_THRESHOLDS, dtype=torch.float64)
    # as factors of products, OR and NOT count from the other side
    sides = torch.tensor((1, 1, 1, -1, -1, -1, 1, -1), dtype=torch.float64)
    signs = torch.tensor((1, 1, 1, -1, -1, -1, 1, 1), dtype=torch.float64)
    p, q = ((_STEEPNESS * sides * (at - thresholds)).sigmoid() for at in (x, torch.zeros(1, 8).double()))
    shares, slopes = torch.zeros_like(x), torch.zeros_like(x)
    for strength, part in zip(_STRENGTHS, ([0, 1, 2], [3, 4, 5], [6, 7]), strict=True):
        shares[:, part] = strength * signs[part] * product_shares(p[:, part], q[:, part])
        grown = strength * signs[part] * p[:, part].prod(1, keepdim=True)
        slopes[:, part] = grown * _STEEPNESS * sides[part] * (1 - p[:, part])
    return table_case(
        "logic",
        "Three features in an AND, three in an OR, two in an AND NOT; each is more or less true.",
        Logic(),
        x,
        slopes,
        shares,
        normal_rows("logic/background", BACKGROUND_ROWS, 8, seed),
    )
