"""Replacements drawn from the background: those of another row, or what the other features make likely."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from verax.core import noise
from verax.core.arguments import checked_count, checked_not_negative, checked_seed, settle
from verax.core.arrays import as_tensor
from verax.core.shapes import Bool, Float, Shaped
from verax.problem.replacement.base import Replacement, Rows


@dataclass(frozen=True, eq=False)
class Conditional(Replacement):
    """Removed features become what those that stay make likely, for a Gaussian fitted to training data.

    ``E[x_S | x_K] = m_S + C_SK C_KK^-1 (x_K - m_K)``, with mean m and covariance C of the background: the row that
    stays as near to the data as a linear guess can. With everything removed it is the mean. For tables.

    By default this one mean row is scored: ``f(E[x])``, which is the expected score ``E[f(x)]`` of linear models alone.
    On a sum of nonlinear functions, Shapley values of one are 0.44 to 0.88 away from those of the other, relative to
    their size (``docs/outside.md``). With ``draws``, rows are drawn from the conditional Gaussian, and scores are means
    over them: the expected score, with the Monte-Carlo error of the draws.

    Args:
        background: Rows to fit to; None for those of the call.
        ridge: Share of the mean variance that is added to each variance, for columns that depend on each other.
        draws: Rows drawn for each set; 0 for the mean row.
        seed: Same seed, same draws; they depend on it and on the input alone.

    Example: of two equal columns, one tells the other.
        >>> train = torch.randn(500, 1).repeat(1, 2)
        >>> rows = Rows(torch.tensor([[1.5, 1.5]]), torch.zeros(1, 2))
        >>> gone = Conditional(train).fill(rows, torch.tensor([[True, False]]))
        >>> bool((gone - 1.5).abs().max() < 0.01)
        True
    """

    background: Any = field(default=None, repr=False)
    ridge: float = 1e-6
    draws: int = 0
    seed: int = 0
    setwise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settle(self, ridge=checked_not_negative("ridge", self.ridge))
        settle(self, draws=checked_count("draws", self.draws, least=0), seed=checked_seed(self.seed))
        _settle_background(self)

    def fitted(self, background: Shaped[Tensor, "m *shape"] | None) -> "Conditional":
        """With rows to fit to, and not fitted yet: its rows may have changed since the last call."""
        return replace(self, background=background if self.background is None else self.background)

    @property
    def repeats(self) -> int:
        return max(1, self.draws)

    def fill(self, rows: Rows, removed: Bool[Tensor, "b *#shape"] | None = None) -> Shaped[Tensor, "b *shape"]:
        if rows.values.ndim != 2 or rows.still is not None:
            shape = tuple(rows.values.shape)
            raise ValueError(f"replacement: Conditional is for tables of numbers without gaps, got shape {shape}.")
        if self.background is None:
            return self.fitted(rows.needed("Conditional")).fill(rows, removed)
        _check_like(self.background, rows)
        mean, precision = (part.to(rows.values.device) for part in self._gaussian)
        gone = torch.ones_like(rows.values, dtype=torch.bool) if removed is None else removed.expand(rows.values.shape)
        mask, away = gone.double(), rows.values.double() - mean
        # in terms of the precision P: P_SS (x_S - m_S) = -P_SK (x_K - m_K); rows of what stays say that it stays
        system = mask[:, :, None] * precision * mask[:, None, :] + torch.diag_embed(1 - mask)
        right = -mask * ((away * (1 - mask)) @ precision)
        filled = mean + torch.linalg.solve(system, right)
        if self.draws:
            # L L^T = P_SS, so that L^-T z has the covariance of what is removed, given what stays
            if rows.keys is None:
                raise ValueError("rows: Conditional draws by the keys of rows, which have none.")
            drawn = noise.normals(rows.keys + self.seed, rows.draw, 1, len(mean), torch.float64)[:, 0]
            lower = torch.linalg.cholesky(system)
            filled = filled + torch.linalg.solve_triangular(lower.mT, drawn[..., None], upper=True)[..., 0]
        return torch.where(gone, filled.to(rows.values), rows.values)

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
        draws: Rows for each input; ``"every"`` for each row of the background once, without Monte-Carlo error.
        seed: Same seed, same rows.

    Example:
        >>> import torch, verax
        >>> model, x, train = torch.nn.Linear(4, 2), torch.randn(3, 4), torch.randn(50, 4)
        >>> result = verax.metrics.PredictionChange()(verax.Problem(model, x, replacement=Marginal(train, draws=8)), x)
        >>> result.standard_error.shape
        torch.Size([3])
    """

    background: Any = field(default=None, repr=False)
    draws: int | Literal["every"] = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if self.draws != "every":
            settle(self, draws=checked_count("draws", self.draws))
        settle(self, seed=checked_seed(self.seed))
        _settle_background(self)

    def fitted(self, background: Shaped[Tensor, "m *shape"] | None) -> "Marginal":
        return self if self.background is not None else replace(self, background=background)

    @property
    def repeats(self) -> int:
        if self.draws == "every":
            return 1 if self.background is None else len(self.background)
        return self.draws

    def fill(self, rows: Rows, removed: Bool[Tensor, "b *#shape"] | None = None) -> Shaped[Tensor, "b *shape"]:
        others = rows.needed("Marginal") if self.background is None else self.background.to(rows.values)
        _check_like(others, rows)
        if self.draws == "every":
            return others[rows.draw].expand(rows.values.shape)
        if rows.keys is None:
            raise ValueError("rows: Marginal draws by the keys of rows, which have none.")
        share = noise.uniforms(rows.keys + self.seed, rows.draw, 1, 1)[:, 0, 0]
        return others[(share * len(others)).long().clamp(max=len(others) - 1)]


def _settle_background(replacement: Conditional | Marginal) -> None:
    if replacement.background is not None:
        settle(replacement, background=as_tensor("background", replacement.background))


def _check_like(background: Tensor, rows: Rows) -> None:
    if background.shape[1:] != rows.values.shape[1:]:
        expected, shape = tuple(rows.values.shape[1:]), tuple(background.shape)
        raise ValueError(f"background: expected rows of shape {expected}, got shape {shape}.")
