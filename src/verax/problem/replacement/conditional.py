"""Conditional: removed features of a table become what the others make likely, under a Gaussian distribution."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from verax.core.arguments import checked_not_negative, settle
from verax.core.arrays import as_tensor
from verax.core.shapes import Bool, Float, Shaped
from verax.problem.replacement.base import Replacement, Rows


@dataclass(frozen=True, eq=False)
class Conditional(Replacement):
    """Removed features become their conditional mean given those that stay, for a Gaussian fitted to training data.

    ``E[x_S | x_K] = m_S + C_SK C_KK^-1 (x_K - m_K)``, with mean m and covariance C of the background: the row that
    stays as near to the data as a linear guess can. With everything removed it is the mean. For tables.

    Args:
        background: Rows to fit to; None for those of the call.
        ridge: Share of the mean variance that is added to each variance, for columns that depend on each other.

    Example: of two equal columns, one tells the other.
        >>> train = torch.randn(500, 1).repeat(1, 2)
        >>> rows = Rows(torch.tensor([[1.5, 1.5]]), torch.zeros(1, 2))
        >>> gone = Conditional(train).fill(rows, torch.tensor([[True, False]]))
        >>> bool((gone - 1.5).abs().max() < 0.01)
        True
    """

    background: Any = field(default=None, repr=False)
    ridge: float = 1e-6
    setwise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settle(self, ridge=checked_not_negative("ridge", self.ridge))
        if self.background is not None:
            settle(self, background=as_tensor("background", self.background))

    def fitted(self, background: Shaped[Tensor, "m *shape"] | None) -> "Conditional":
        """With rows to fit to, and not fitted yet: own rows may have changed since the last call."""
        return replace(self, background=background if self.background is None else self.background)

    def fill(self, rows: Rows, removed: Bool[Tensor, "b *#shape"] | None = None) -> Shaped[Tensor, "b *shape"]:
        """The conditional means, one small system of equations for each row."""
        if rows.values.ndim != 2 or rows.still is not None:
            shape = tuple(rows.values.shape)
            raise ValueError(f"replacement: Conditional is for tables of numbers without gaps, got shape {shape}.")
        if self.background is None:
            return self.fitted(rows.needed("Conditional")).fill(rows, removed)
        if self.background.shape[1:] != rows.values.shape[1:]:
            wanted, shape = tuple(rows.values.shape[1:]), tuple(self.background.shape)
            raise ValueError(f"background: expected rows of shape {wanted}, got shape {shape}.")
        mean, precision = (one.to(rows.values.device) for one in self._gaussian)
        gone = torch.ones_like(rows.values, dtype=torch.bool) if removed is None else removed.expand(rows.values.shape)
        mask, away = gone.double(), rows.values.double() - mean
        # in terms of the precision P: P_SS (x_S - m_S) = -P_SK (x_K - m_K); rows of what stays say that it stays
        system = mask[:, :, None] * precision * mask[:, None, :] + torch.diag_embed(1 - mask)
        right = -mask * ((away * (1 - mask)) @ precision)
        found = mean + torch.linalg.solve(system, right)
        return torch.where(gone, found.to(rows.values), rows.values)

    @cached_property
    def _gaussian(self) -> tuple[Float[Tensor, " d"], Float[Tensor, "d d"]]:
        """Mean and inverse covariance of the background, computed once for a call."""
        others = self.background.double()
        mean = others.mean(0)
        centred = others - mean
        covariance = centred.T @ centred / max(1, len(others) - 1)
        least = self.ridge * covariance.diagonal().mean().clamp(min=torch.finfo(torch.float64).tiny)
        identity = torch.eye(len(mean), dtype=torch.float64, device=others.device)
        return mean, torch.linalg.inv(covariance + least * identity)
