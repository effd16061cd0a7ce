"""Cases whose model is a formula of some features: sums of their effects, and products of several."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from verax.attribution.shapley import exact_shapley
from verax.auditing.known_truth.base import (
    Case,
    Formula,
    Truth,
    background_rows,
    double,
    known,
    normal_rows,
    pair_shares,
    product_shares,
    table_case,
)
from verax.core.shapes import Float

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


_ABSENT = (3.0, -2.2, 1.6, -1.1)
_PRESENT = (0.3, -0.24, 0.17, 0.1)


def pertinent_negatives(inputs: int, seed: int) -> Case:
    """``sum_i v_i exp(-x_i^2 / 2) + w . x_{4..7}``: what a feature says by being near its baseline counts most.

    After the unit of this name of XAI-Units (Lee et al. 2025).
    """
    x, absent, present = normal_rows("pertinent negatives", inputs, 8, seed), double(_ABSENT), double(_PRESENT)
    near = (-(x[:, :4] ** 2) / 2).exp()
    return table_case(
        "pertinent negatives",
        "Four features count by being absent, four add a little.",
        Formula(
            lambda formula, rows: (-(rows[:, :4] ** 2) / 2).exp() @ formula.absent + rows[:, 4:] @ formula.present,
            absent=_ABSENT,
            present=_PRESENT,
        ),
        x,
        torch.cat((-absent * x[:, :4] * near, present.expand(inputs, 4)), dim=1),
        torch.cat((absent * (near - 1), present * x[:, 4:]), dim=1),
        background_rows("pertinent negatives", 8, seed),
    )


_CLASSES = (1.4, 0.9, -0.7, 0.5)
_COMMON = (1.1, -0.8)


def uncertainty_aware(inputs: int, seed: int) -> Case:
    """``softmax_0(w_k x_k + u . x_{4, 5})`` of four classes: what is added to all of them changes nothing.

    After the unit of this name of XAI-Units (Lee et al. 2025). The truth of the two common features is 0.
    """

    def score(formula: Any, rows: Tensor) -> Tensor:
        common = rows[:, 4:] @ formula.common
        first: Tensor = (rows[:, :4] * formula.classes + common[:, None]).softmax(1)[:, 0]
        return first

    x, classes = normal_rows("uncertainty-aware", inputs, 6, seed), double(_CLASSES)
    logits = x[:, :4] * classes
    shares = logits.softmax(1)
    slopes = (double((1, 0, 0, 0)) - shares) * shares[:, :1] * classes
    kept = (torch.arange(16)[:, None] >> torch.arange(4)) % 2
    scores = (logits[:, None] * kept).softmax(2)[:, :, 0]
    return table_case(
        "uncertainty-aware",
        "The probability of one of four classes; two features are added to all four.",
        Formula(score, classes=_CLASSES, common=_COMMON),
        x,
        nn.functional.pad(slopes, (0, 2)),
        nn.functional.pad(exact_shapley(scores), (0, 2)),
        background_rows("uncertainty-aware", 6, seed),
    )


_SHIFTS = (0.5, -0.8, 0.3, -0.6, 0.9)
_WEIGHTS = (0.8, -0.5, 0.3)
_COPIED_SHIFTS = (0.4, -0.7, 0.9, -0.3)
_EFFECTS = (2.0, -1.4, 0.9, -0.6)
_CANCELLING = 3.0  # how steeply one feature takes another's effect away
_THRESHOLDS = (-0.5, 0.2, -0.3, 0.4, 0.7, 0.5, -0.2, 0.3)
_STEEPNESS = 4.0
_STRENGTHS = (2.0, 1.0, 1.5)
MARGIN = 0.05  # inputs are at least so far from the border of their linear region
_PAIRS, _UNITS = 4, 3  # units of a pair look in three directions: one of them is always on
_OUT = (1.5, -1.0, 0.7, -1.3, 0.9, 0.5, 1.1, 0.6, -0.8, -0.4, 1.2, -0.7)


def product(inputs: int, seed: int) -> Case:
    """``(x_0 + c_0)(x_1 + c_1) + (x_2 + c_2)(x_3 + c_3)(x_4 + c_4) + w . x_{5..7}``.

    A factor's slope is the product of the others; of the product itself each gets what Owen's integral says.
    """

    def score(formula: Any, rows: Tensor) -> Tensor:
        factors = rows[:, :5] + formula.shifts
        added: Tensor = factors[:, :2].prod(1) + factors[:, 2:].prod(1) + rows[:, 5:] @ formula.weights
        return added

    x, shifts, weights = normal_rows("product", inputs, 8, seed), double(_SHIFTS), double(_WEIGHTS)
    p, q = x[:, :5] + shifts, shifts[None]
    slopes = (p[:, 1], p[:, 0], p[:, 3] * p[:, 4], p[:, 2] * p[:, 4], p[:, 2] * p[:, 3])
    shares = (product_shares(p[:, :2], q[:, :2]), product_shares(p[:, 2:], q[:, 2:]), weights * x[:, 5:])
    return table_case(
        "product",
        "A product of two features, one of three, and three features that only add.",
        Formula(score, shifts=_SHIFTS, weights=_WEIGHTS),
        x,
        torch.cat((torch.stack(slopes, dim=1), weights.expand(inputs, 3)), dim=1),
        torch.cat(shares, dim=1),
        background_rows("product", 8, seed),
    )


def duplicated(inputs: int, seed: int) -> Case:
    """Two products of two features each. Four further columns repeat these; the truth of the copies is 0."""

    def score(formula: Any, rows: Tensor) -> Tensor:
        factors = rows[:, :4] + formula.shifts
        product: Tensor = factors[:, :2].prod(1) + factors[:, 2:].prod(1)
        return product

    x, shifts = normal_rows("duplicated", inputs, 4, seed), double(_COPIED_SHIFTS)
    p, q = x + shifts, shifts[None]
    shares = torch.cat((product_shares(p[:, :2], q[:, :2]), product_shares(p[:, 2:], q[:, 2:])), dim=1)
    return table_case(
        "duplicated",
        "Four features in two products, and a copy of each that is never read.",
        Formula(score, shifts=_COPIED_SHIFTS),
        x.repeat(1, 2),
        nn.functional.pad(p[:, [1, 0, 3, 2]], (0, 4)),
        nn.functional.pad(shares, (0, 4)),
        background_rows("duplicated", 4, seed).repeat(1, 2),
    )


def conflicting(inputs: int, seed: int) -> Case:
    """``sum_k w_k x_k (1 - sigmoid(3 x_{k+4}))``: the higher the second of a pair, the less remains of the first."""
    x, weights = normal_rows("conflicting", inputs, 8, seed), double(_EFFECTS)
    effects, left = x[:, :4], (-_CANCELLING * x[:, 4:]).sigmoid()
    absent = double([[0.0, 0.5]])  # the factors at the baseline
    pairs = [product_shares(torch.stack((effects[:, k], left[:, k]), dim=1), absent) for k in range(4)]
    shares = torch.stack(pairs, dim=2) * weights  # (n, two, four)
    slopes = (weights * left, -_CANCELLING * weights * effects * left * (1 - left))
    return table_case(
        "conflicting",
        "Four features have an effect, and a partner of each takes it away.",
        Formula(
            lambda formula, rows: (rows[:, :4] * (-_CANCELLING * rows[:, 4:]).sigmoid()) @ formula.weights,
            weights=_EFFECTS,
        ),
        x,
        torch.cat(slopes, dim=1),
        shares.flatten(1),
        background_rows("conflicting", 8, seed),
    )


def logic(inputs: int, seed: int) -> Case:
    """``2 (0 and 1 and 2) + (3 or 4 or 5) + 1.5 (6 and not 7)``, of truths ``sigmoid(4 (x - c))`` between 0 and 1.

    AND is the product of truths, NOT is 1 minus one, and OR is NOT (NOT AND NOT ...).
    """

    def score(formula: Any, rows: Tensor) -> Tensor:
        true = (_STEEPNESS * (rows - formula.thresholds)).sigmoid()
        parts = (true[:, :3].prod(1), 1 - (1 - true[:, 3:6]).prod(1), true[:, 6] * (1 - true[:, 7]))
        added: Tensor = torch.stack(parts, dim=1) @ formula.strengths
        return added

    x, thresholds = normal_rows("logic", inputs, 8, seed), double(_THRESHOLDS)
    # as factors of products, OR and NOT count from the other side
    sides = double((1, 1, 1, -1, -1, -1, 1, -1))
    signs = double((1, 1, 1, -1, -1, -1, 1, 1))
    p, q = ((_STEEPNESS * sides * (at - thresholds)).sigmoid() for at in (x, torch.zeros(1, 8).double()))
    shares, slopes = torch.zeros_like(x), torch.zeros_like(x)
    for strength, part in zip(_STRENGTHS, ([0, 1, 2], [3, 4, 5], [6, 7]), strict=True):
        shares[:, part] = strength * signs[part] * product_shares(p[:, part], q[:, part])
        grown = strength * signs[part] * p[:, part].prod(1, keepdim=True)
        slopes[:, part] = grown * _STEEPNESS * sides[part] * (1 - p[:, part])
    return table_case(
        "logic",
        "Three features in an AND, three in an OR, two in an AND NOT; each is more or less true.",
        Formula(score, thresholds=_THRESHOLDS, strengths=_STRENGTHS),
        x,
        slopes,
        shares,
        background_rows("logic", 8, seed),
    )


class PiecewiseLinear(nn.Module):
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
        self.outer.weight = known(double([_OUT]))

    def forward(self, rows: Float[Tensor, "n 8"]) -> Float[Tensor, " n"]:
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
        units, pair_features = slice(_UNITS * pair, _UNITS * (pair + 1)), slice(2 * pair, 2 * pair + 2)
        weight, bias = inner.weight[units, pair_features], inner.bias[units]
        return pair_shares(
            lambda two: (two @ weight.T + bias).relu() @ out[units], x[:, pair_features], torch.zeros(1, 2).double()
        )

    return table_case(
        "piecewise linear",
        "A network of twelve ReLUs, three to each pair of features.",
        network,
        x,
        (on * out) @ inner.weight,
        torch.cat([pair_of(pair) for pair in range(_PAIRS)], dim=1),
        background_rows("piecewise linear", 2 * _PAIRS, seed),
    )
