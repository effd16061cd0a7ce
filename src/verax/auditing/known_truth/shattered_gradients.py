"""Shattered gradients: a trend under a fast wave, so that the gradient says nothing of a neighbourhood of any size."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from verax.auditing.case import Case, Truth
from verax.auditing.known_truth.common import BACKGROUND_ROWS, fixed, normal_rows, table_case
from verax.core.shapes import Float

SCALE = 0.2  # of the truth, and the period of the wave
_WEIGHTS = (1.0, -0.8, 0.65, -0.5, 0.4, -0.3, 0.2, 0.1)
_PHASES = (0.3, 1.1, 2.0, 2.7, 3.5, 4.2, 5.1, 5.9)
_AMPLITUDE = 0.1  # the slopes of the wave reach 3.1
_SPEED = 2 * torch.pi / SCALE


class ShatteredGradients(nn.Module):
    """``sum_i w_i x_i + 0.1 sin(2 pi x_i / 0.2 + c_i)``."""

    def __init__(self) -> None:
        super().__init__()
        self.weights, self.phases = fixed(*_WEIGHTS), fixed(*_PHASES)

    def forward(self, rows: Float[Tensor, "n 8"]) -> Float[Tensor, " n"]:
        """One value per row."""
        return rows @ self.weights + _AMPLITUDE * (_SPEED * rows + self.phases).sin().sum(1)


def shattered_gradients(inputs: int, seed: int) -> Case:
    """``sum_i w_i x_i + 0.1 sin(2 pi x_i / 0.2 + c_i)``.

    A move by 0.2, up or down, leaves the wave as it was: at that scale the slope is ``w``, exactly. So is the best
    straight line through Gaussian noise of that standard deviation, to nine digits. The gradient in the limit is
    something else.
    """
    x = normal_rows("shattered gradients", inputs, len(_WEIGHTS), seed)
    weights, phases = (torch.tensor(one, dtype=torch.float64) for one in (_WEIGHTS, _PHASES))
    found = table_case(
        "shattered gradients",
        "A weighted sum under a fast, small wave.",
        ShatteredGradients(),
        x,
        weights.repeat(inputs, 1),
        weights * x + _AMPLITUDE * ((_SPEED * x + phases).sin() - phases.sin()),
        normal_rows("shattered gradients/background", BACKGROUND_ROWS, len(_WEIGHTS), seed),
    )
    return replace(found, local=Truth(weights.repeat(inputs, 1), f"the slope over a move by {SCALE}", SCALE))
