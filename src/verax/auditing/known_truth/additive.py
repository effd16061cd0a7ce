"""Models whose features add up: linear, waves, waves too fast for gradients, and features that are never read."""

from dataclasses import replace

import torch
from torch import nn

from verax.auditing.known_truth.base import Case, Formula, Truth, background_rows, double, normal_rows, table_case

_LINEAR = (2.0, -1.5, 1.2, -0.9, 0.7, -0.5, 0.3, 0.2)
_WAVES = (1.5, -1.1, 0.8, -0.6, 0.4, 0.3, -0.2, 0.1)
_SQUARES = (0.1, 0.2, -0.3, 0.4, -0.5, 0.6, 0.7, -0.8)
_TREND = (1.0, -0.8, 0.65, -0.5, 0.4, -0.3, 0.2, 0.1)
_PHASES = (0.3, 1.1, 2.0, 2.7, 3.5, 4.2, 5.1, 5.9)
_BOUNDED = (1.6, -1.2, 0.9, -0.6, 0.4, 0.25)
SCALE = 0.2  # of the truth of shattered gradients, and the period of the wave
_AMPLITUDE = 0.1  # the slopes of the wave reach 3.1
_SPEED = 2 * torch.pi / SCALE


def linear(inputs: int, seed: int) -> Case:
    """``w . x``; the gradient is ``w`` and the Shapley values are ``w x``."""
    x, weights = normal_rows("linear", inputs, 8, seed), double(_LINEAR)
    return table_case(
        "linear",
        "A weighted sum of eight features.",
        Formula(lambda formula, rows: rows @ formula.weights, weights=_LINEAR),
        x,
        weights.repeat(inputs, 1),
        weights * x,
        background_rows("linear", 8, seed),
    )


def additive(inputs: int, seed: int) -> Case:
    """``sum_i v_i sin(2 x_i) + u_i x_i^2``; a term is 0 at the baseline, so that it is its feature's Shapley value."""
    x, waves, squares = normal_rows("additive", inputs, 8, seed), double(_WAVES), double(_SQUARES)
    return table_case(
        "additive",
        "A sum of waves and parabolas, one of each per feature.",
        Formula(
            lambda formula, rows: (2 * rows).sin() @ formula.waves + rows**2 @ formula.squares,
            waves=_WAVES,
            squares=_SQUARES,
        ),
        x,
        2 * waves * (2 * x).cos() + 2 * squares * x,
        waves * (2 * x).sin() + squares * x**2,
        background_rows("additive", 8, seed),
    )


def shattered_gradients(inputs: int, seed: int) -> Case:
    """``sum_i w_i x_i + 0.1 sin(2 pi x_i / 0.2 + c_i)``.

    A move by 0.2, up or down, leaves the wave as it was: at that scale the slope is ``w``, exactly. So is the best
    straight line through Gaussian noise of that standard deviation, to nine digits. The gradient in the limit is
    something else.
    """
    x, weights, phases = normal_rows("shattered gradients", inputs, 8, seed), double(_TREND), double(_PHASES)
    case = table_case(
        "shattered gradients",
        "A weighted sum under a fast, small wave.",
        Formula(
            lambda formula, rows: rows @ formula.weights + _AMPLITUDE * (_SPEED * rows + formula.phases).sin().sum(1),
            weights=_TREND,
            phases=_PHASES,
        ),
        x,
        weights.repeat(inputs, 1),
        weights * x + _AMPLITUDE * ((_SPEED * x + phases).sin() - phases.sin()),
        background_rows("shattered gradients", 8, seed),
    )
    return replace(case, local=Truth(weights.repeat(inputs, 1), f"the slope over a move by {SCALE}", SCALE))


def uninformative(inputs: int, seed: int) -> Case:
    """``w . tanh(x_{0..5})``; the truth of the four features that follow is 0."""
    x, weights = normal_rows("uninformative", inputs, 10, seed), double(_BOUNDED)
    bounded = x[:, :6].tanh()
    return table_case(
        "uninformative",
        "Six features add up, four are never read.",
        Formula(lambda formula, rows: rows[:, :6].tanh() @ formula.weights, weights=_BOUNDED),
        x,
        nn.functional.pad(weights * (1 - bounded**2), (0, 4)),
        nn.functional.pad(weights * bounded, (0, 4)),
        background_rows("uninformative", 10, seed),
    )
