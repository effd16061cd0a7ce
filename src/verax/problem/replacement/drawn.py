"""Replacements drawn from the background: those of another row, or what the other features make likely."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from verax.core import noise
from verax.core.arguments import checked_count, checked_not_negative, checked_seed, settle
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
            row_shape, shape = tuple(rows.values.shape[1:]), tuple(self.background.shape)
            raise ValueError(f"background: expected rows of shape {row_shape}, got shape {shape}.")
        mean, precision = (part.to(rows.values.device) for part in self._gaussian)
        gone = torch.ones_like(rows.values, dtype=torch.bool) if removed is None else removed.expand(rows.values.shape)
        mask, away = gone.double(), rows.values.double() - mean
        # in terms of the precision P: P_SS (x_S - m_S) = -P_SK (x_K - m_K); rows of what stays say that it stays
        system = mask[:, :, None] * precision * mask[:, None, :] + torch.diag_embed(1 - mask)
        right = -mask * ((away * (1 - mask)) @ precision)
        expected = mean + torch.linalg.solve(system, right)
        return torch.where(gone, expected.to(rows.values), rows.values)

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


@dataclass(frozen=True, eq=False)
class Marginal(Replacement):
    """A removed feature becomes that of a row of training data; scores are means over several such rows.

    Each draw takes one row for all features of an input, whichever of them go, so that a set removes the same things
    wherever it occurs: the marginal expectation that SHAP calls interventional. Which rows are drawn depends on the
    seed and on the input alone. Scores carry the Monte-Carlo error of the draws.

    Args:
        background: Rows to draw from; None for those of the call.
        draws: Rows for each input.
        seed: Same seed, same rows.

    Example:
        >>> import torch, verax
        >>> model, x, train = torch.nn.Linear(4, 2), torch.randn(3, 4), torch.randn(50, 4)
        >>> found = verax.metrics.PredictionChange()(verax.Problem(model, x, replacement=Marginal(train, draws=8)), x)
        >>> found.standard_error.shape
        torch.Size([3])
    """

    background: Any = field(default=None, repr=False)
    draws: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        settle(self, draws=checked_count("draws", self.draws), seed=checked_seed(self.seed))
        if self.background is not None:
            settle(self, background=as_tensor("background", self.background))

    @property
    def repeats(self) -> int:
        """How many rows are drawn for each input."""
        return self.draws

    def fill(self, rows: Rows, removed: Bool[Tensor, "b *#shape"] | None = None) -> Shaped[Tensor, "b *shape"]:
        """A row of the background for each input."""
        others = rows.needed("Marginal") if self.background is None else self.background.to(rows.values)
        if others.shape[1:] != rows.values.shape[1:]:
            row_shape = tuple(rows.values.shape[1:])
            raise ValueError(f"background: expected rows of shape {row_shape}, got shape {tuple(others.shape)}.")
        if rows.keys is None:
            raise ValueError("rows: Marginal draws by the keys of rows, which have none.")
        share = noise.uniforms(rows.keys + self.seed, rows.draw, 1, 1)[:, 0, 0]
        return others[(share * len(others)).long().clamp(max=len(others) - 1)]
