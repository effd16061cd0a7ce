"""Baselines, and something on the way to them: replacements that look at nothing but an input and its baseline."""

from dataclasses import dataclass

import torch
from torch import Tensor

from verax.core.arguments import checked_positive, settle
from verax.core.shapes import Bool, Shaped
from verax.problem.replacement.base import Replacement, Rows


@dataclass(frozen=True)
class Baseline(Replacement):
    """A removed feature becomes its baseline: the paper's replacement, and the default.

    Example:
        >>> Baseline().fill(Rows(torch.tensor([[2.0, -3.0]]), torch.tensor([[0.0, 1.0]])))
        tensor([[0., 1.]])
    """

    def fill(self, rows: Rows, removed: Bool[Tensor, "b *#shape"] | None = None) -> Shaped[Tensor, "b *shape"]:
        """The baselines as they are."""
        return rows.baselines


BASELINE = Baseline()


@dataclass(frozen=True)
class Toward(Replacement):
    """A removed feature goes a part of the way to its baseline: ``x + epsilon (b - x)``.

    With ``epsilon=1`` this is ``Baseline``. Codes and missing values, which have no way to go, stay as they are.

    Args:
        epsilon: The part, above 0 and at most 1.

    Example:
        >>> Toward(0.25).fill(Rows(torch.tensor([[2.0, -3.0]]), torch.tensor([[0.0, 1.0]])))
        tensor([[ 1.5000, -2.0000]])
    """

    epsilon: float

    def __post_init__(self) -> None:
        settle(self, epsilon=checked_positive("epsilon", self.epsilon))
        if self.epsilon > 1:
            raise ValueError(f"epsilon: expected a part of the way, at most 1, got {self.epsilon}.")

    def fill(self, rows: Rows, removed: Bool[Tensor, "b *#shape"] | None = None) -> Shaped[Tensor, "b *shape"]:
        """Part of the way."""
        if self.epsilon == 1:
            return rows.baselines
        return _where_it_moves(rows, torch.lerp(_amounts(rows), rows.baselines, self.epsilon))


@dataclass(frozen=True)
class Nudge(Replacement):
    """A removed feature moves towards its baseline by a fixed amount, all alike: ``x + epsilon s sign(b - x)``.

    ``s`` is the standard deviation of the feature over the call's background, or 1 without one, which is right for
    standardised inputs. Nothing is clipped: a feature nearer to its baseline than that goes past it. Where ``x = b``
    nothing moves, nor do codes and missing values. As epsilon falls, the change of the score becomes that of its
    gradient: the only replacement here that is local. A tree is flat almost everywhere; there a small nudge changes
    nothing.

    Args:
        epsilon: The amount, in standard deviations.

    Example:
        >>> Nudge(0.5).fill(Rows(torch.tensor([[2.0, -3.0, 1.0]]), torch.tensor([[0.0, 1.0, 1.0]])))
        tensor([[ 1.5000, -2.5000,  1.0000]])
    """

    epsilon: float

    def __post_init__(self) -> None:
        settle(self, epsilon=checked_positive("epsilon", self.epsilon))

    def fill(self, rows: Rows, removed: Bool[Tensor, "b *#shape"] | None = None) -> Shaped[Tensor, "b *shape"]:
        """One small move each."""
        values = _amounts(rows)
        size = self.epsilon if rows.spread is None else self.epsilon * rows.spread.to(values)
        return _where_it_moves(rows, values + size * (rows.baselines - values).sign())


def _amounts(rows: Rows) -> Tensor:
    if not rows.values.is_floating_point():
        raise TypeError("replacement: whole numbers cannot go a part of the way; use verax.replacement.Baseline().")
    return rows.values


def _where_it_moves(rows: Rows, moved: Tensor) -> Tensor:
    return moved if rows.still is None else torch.where(rows.still, rows.values, moved)
