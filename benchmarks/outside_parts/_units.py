"""The eight units of XAI-Units (Lee et al.), models of known behaviour.

Written anew from their definitions (arXiv 2506.01059, FAccT 2025): formulas, and inputs drawn as theirs are. Slopes and
Shapley values are computed here; the attributions that the authors call true stand beside them.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import verax
from verax.attribution import KernelShap
from verax.auditing import Case, Truth
from verax.metrics import EffectCorrelation

INPUTS = 64
LARGE = 100.0  # by which an indicator switches a feature off
FACTOR = 10.0  # of a pertinent negative that is absent
Model = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Unit:
    """One of the units.

    Attributes:
        name: As its authors call it.
        model: From rows to the score.
        rows: What is explained.
        baseline: What stands for a feature that is absent.
        slopes: The gradient, or the slope over Gaussian noise; None where a corner has none.
        theirs: What its authors call true; None where they say nothing in numbers.
        switches: Features at the end that are 0 or 1 and are left as they are where slopes are rated.
        silent: Features at the end that must get nothing, of all that its authors say.
        returns: What the model returns.
    """

    name: str
    model: Model
    rows: Tensor
    baseline: Tensor
    slopes: Tensor | None
    theirs: Tensor | None
    switches: int = 0
    silent: int = 0
    returns: Any = "values"

    def problem(self, features: Any = "auto") -> verax.Problem:
        """The same as Verax takes it."""
        return verax.Problem(
            verax.Scorer(_Module(self.model), returns=self.returns),
            self.rows,
            features=features,
            baselines=self.baseline,
        )

    def shapley(self) -> Tensor:
        """From the scores of all sets."""
        return KernelShap(2 ** self.rows.shape[1])(self.problem())

    def cases(self, theirs: bool = False) -> list[Case]:
        """As slopes are rated, where there are some, and as contributions are."""
        name = f"{self.name}{' (their truth)' if theirs else ''}"
        found = []
        if self.slopes is not None and not theirs:
            kept = self.rows.shape[1] - self.switches
            groups = torch.arange(self.rows.shape[1])
            groups[kept:] = -1
            truth = Truth(self.slopes[:, :kept], "the slope")
            found.append(Case(f"{name}, slopes", "", self.problem(groups), truth, None))
        contributions = self.theirs if theirs else self.shapley()
        if contributions is not None:
            found.append(Case(name, "", self.problem(), None, Truth(contributions, "contributions")))
        return found


class _Module(nn.Module):
    """A formula as a module, so that methods may take gradients of it."""

    def __init__(self, formula: Model) -> None:
        super().__init__()
        self.formula = formula

    def forward(self, rows: Tensor) -> Tensor:
        """Score rows."""
        return self.formula(rows)


def units() -> list[Unit]:
    """All eight."""
    tables = (weighted, interacting, conflicting, pertinent_negatives, uncertainty_aware, shattered_gradients)
    made = (*tables, conjunction, disjunction)
    return [make(torch.Generator().manual_seed(number)) for number, make in enumerate(made)]


def weighted(lots: torch.Generator) -> Unit:
    """``w . x``."""
    rows, weights = _normal(lots, 5), _weights(lots, 5)
    return Unit(
        "continuous features", lambda x: x @ weights, rows, _zeros(rows), weights.expand_as(rows), rows * weights
    )


def interacting(lots: torch.Generator) -> Unit:
    """``sum_i (v_i if c_i else w_i) x_i + u_i c_i``: a switch chooses the weight of a feature."""
    x, on = _normal(lots, 3), _switches(lots, 3)
    off_weights, on_weights, own = (_weights(lots, 3) for _ in range(3))

    def model(rows: Tensor) -> Tensor:
        value, switch = rows[:, :3], rows[:, 3:]
        return (torch.where(switch > 0, on_weights, off_weights) * value + own * switch).sum(1)

    slopes = torch.where(on > 0, on_weights, off_weights)
    rows = torch.cat((x, on), dim=1)
    theirs = torch.cat((slopes * x, own * on), dim=1)
    return Unit("interacting features", model, rows, _zeros(rows), _with(slopes, 3), theirs, switches=3)


def conflicting(lots: torch.Generator) -> Unit:
    """``sum_i relu(w_i x_i - 100 c_i) - relu(-w_i x_i - 100 c_i)``: a switch takes a feature's effect away."""
    x, on, weights = _normal(lots, 4), _switches(lots, 4), _weights(lots, 4)
    on[on.bool().all(1), 0] = 0  # something is left to explain

    def model(rows: Tensor) -> Tensor:
        effect, switch = weights * rows[:, :4], LARGE * rows[:, 4:]
        return ((effect - switch).relu() - (-effect - switch).relu()).sum(1)

    rows = torch.cat((x, on), dim=1)
    theirs = torch.cat((weights * x, -weights * x * on), dim=1)
    return Unit("conflicting features", model, rows, _zeros(rows), _with(weights * (1 - on), 4), theirs, switches=4)


def pertinent_negatives(lots: torch.Generator) -> Unit:
    """``w . x`` and two features of which 0 counts ten times as much as 1: ``w (relu(2p - 1) + 10 relu(1 - 2p))``."""
    x, there, weights = _normal(lots, 3), _switches(lots, 2), _weights(lots, 5)

    def model(rows: Tensor) -> Tensor:
        side = 2 * rows[:, :2] - 1
        return (side.relu() + FACTOR * (-side).relu()) @ weights[:2] + rows[:, 2:] @ weights[2:]

    rows = torch.cat((there, x), dim=1)
    slopes = torch.cat((torch.where(there > 0, 2.0, -2 * FACTOR) * weights[:2], weights[2:].expand_as(x)), dim=1)
    theirs = rows * weights
    theirs[:, :2] = torch.where(there > 0, 1 - FACTOR, 0.0) * weights[:2]
    return Unit("pertinent negatives", model, rows, _zeros(rows), slopes, theirs)


def uncertainty_aware(lots: torch.Generator) -> Unit:
    """``softmax`` of four features, to each of which a fifth is added: that one must get nothing."""
    rows = _normal(lots, 5)

    def model(batch: Tensor) -> Tensor:
        return (batch[:, :4] + batch[:, 4:]).softmax(1)

    leaf = rows.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(model(leaf).amax(1).sum(), leaf)
    return Unit("uncertainty-aware", model, rows, _zeros(rows), slopes, None, silent=1, returns="probabilities")


def shattered_gradients(lots: torch.Generator) -> Unit:
    """``relu(w . x)`` with weights of 10,000 and more, for rows near the kink; slopes are those over the noise."""
    ratios = torch.tensor([1.0, -3, 4, 2, -2], dtype=torch.float64)
    weights = torch.where(ratios > 0, 1.0, -ratios.clamp(min=0).sum() / ratios.clamp(max=0).sum()) * 1e4
    rows = 0.05 * _normal(lots, 5)
    size = EffectCorrelation().sigma * float(weights.norm())
    share = 0.5 * (1 + torch.erf(rows @ weights / (size * math.sqrt(2))))  # of the noise above the kink
    return Unit(
        "shattered gradients", lambda x: (x @ weights).relu(), rows, _zeros(rows), share[:, None] * weights, None
    )


def conjunction(lots: torch.Generator) -> Unit:
    """AND of six features of -1 or 1, as a network of all corners has it; all at 1 are the baseline."""
    rows = _corners(lots, 6)
    full = (rows > 0).all(1, keepdim=True)
    missing = (rows < 0).double()
    theirs = torch.where(full, 2 / 6, -2 * missing / missing.sum(1, keepdim=True).clamp(min=1))
    model = _of_corners(6, lambda corner: torch.where((corner > 0).all(1), 1.0, -1.0))
    return Unit("boolean AND", model, rows, torch.where(full, -1.0, 1.0).double().expand_as(rows), None, theirs)


def disjunction(lots: torch.Generator) -> Unit:
    """OR of six features of -1 or 1; all at -1 are the baseline."""
    mirrored = conjunction(lots)
    assert mirrored.theirs is not None
    model = _of_corners(6, lambda corner: torch.where((corner > 0).any(1), 1.0, -1.0))
    return Unit("boolean OR", model, -mirrored.rows, -mirrored.baseline, None, -mirrored.theirs)


def _of_corners(features: int, value: Callable[[Tensor], Tensor]) -> Model:
    """``2 sum_c relu(+-relu(c . x) - (d - 1)) - 1`` over all corners: exact there, flat in between."""
    corners = torch.tensor(list(itertools.product((1.0, -1.0), repeat=features)), dtype=torch.float64)
    signs = value(corners).double()

    def model(rows: Tensor) -> Tensor:
        near = (rows @ corners.T).relu() * signs - (features - 1)
        return 2 * near.relu().sum(1) - 1

    return model


def _corners(lots: torch.Generator, features: int) -> Tensor:
    """Corners all different, as far as there are some."""
    every = torch.tensor(list(itertools.product((1.0, -1.0), repeat=features)), dtype=torch.float64)
    return every[torch.randperm(len(every), generator=lots)[:INPUTS]]


def _normal(lots: torch.Generator, features: int) -> Tensor:
    return torch.randn(INPUTS, features, generator=lots, dtype=torch.float64)


def _weights(lots: torch.Generator, features: int) -> Tensor:
    return 2 * torch.rand(features, generator=lots, dtype=torch.float64) - 1


def _switches(lots: torch.Generator, features: int) -> Tensor:
    return (torch.rand(INPUTS, features, generator=lots) < 0.5).double()  # as often 1 as 0


def _zeros(rows: Tensor) -> Tensor:
    return torch.zeros_like(rows)


def _with(slopes: Tensor, switches: int) -> Tensor:
    """Switches have no slope."""
    return nn.functional.pad(slopes, (0, switches))
