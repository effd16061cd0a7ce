"""Marginal: a removed feature becomes that of another row, drawn at random."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from verax.core import noise
from verax.core.arguments import checked_count, checked_seed, settle
from verax.core.arrays import as_tensor
from verax.core.shapes import Bool, Shaped
from verax.problem.replacement.base import Replacement, Rows


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
            wanted = tuple(rows.values.shape[1:])
            raise ValueError(f"background: expected rows of shape {wanted}, got shape {tuple(others.shape)}.")
        if rows.keys is None:
            raise ValueError("rows: Marginal draws by the keys of rows, which have none.")
        share = noise.uniforms(rows.keys + self.seed, rows.draw, 1, 1)[:, 0, 0]
        return others[(share * len(others)).long().clamp(max=len(others) - 1)]
