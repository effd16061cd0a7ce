"""Integrated Gradients: gradients averaged on the straight path from a baseline to the input (eq. 5)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from verax.attribution.base import Attribution, Family
from verax.attribution.given import Explained, Given, Piece, Place
from verax.core import palette
from verax.core.arguments import checked_choice, checked_count, checked_flag, settle
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Float
from verax.scoring.meter import Rows

PathBaseline = Literal["min", "mean", "median", "max"]


@dataclass(frozen=True)
class IntegratedGradients(Attribution):
    """Integrated Gradients from a statistic of the training data (Sundararajan, Taly, Yan 2017).

    ``a_i = (x_i - b_i) * integral_0^1 d z_y(b + t (x - b)) / d x_i dt``, the factor before it on request only.

    Args:
        baseline: ``"min"``, ``"mean"``, ``"median"`` or ``"max"`` of each element over the background.
        multiply_by_inputs: Multiply the mean gradient with ``x - baseline``; without, the pseudo-local variant.
        points: Points on the path (Gauss-Legendre, as Captum's default).

    Example:
        >>> model, x = torch.nn.Linear(3, 2), torch.randn(5, 3)
        >>> IntegratedGradients(baseline="mean")(model, x, target=1, background=x).shape
        torch.Size([5, 3])
    """

    baseline: PathBaseline = "mean"
    multiply_by_inputs: bool = True
    points: int = 64

    label: ClassVar[str] = "Integrated Gradients"
    abbreviation: ClassVar[str] = "IG"
    colour: ClassVar[str | None] = palette.VERMILION
    worth_showing: ClassVar[tuple[str, ...] | None] = ("baseline", "multiply_by_inputs")
    citation: ClassVar[str] = "Sundararajan, Taly, Yan: Axiomatic attribution for deep networks, ICML 2017"

    def __post_init__(self) -> None:
        checked_choice("baseline", self.baseline, ("min", "mean", "median", "max"))
        settle(self, points=checked_count("points", self.points))
        checked_flag("multiply_by_inputs", self.multiply_by_inputs)

    @property
    def family(self) -> "PathFamily":
        """Both variants come from one mean gradient."""
        return PathFamily(self.baseline, self.points)

    @property
    def local(self) -> bool:
        """Baseline-oriented, unless the input multiplication is left out."""
        return not self.multiply_by_inputs


@dataclass(frozen=True)
class PathFamily(Family):
    """One path integral for every input."""

    baseline: PathBaseline
    points: int

    needs_gradients: ClassVar[bool] = True

    def check(self, members: Sequence[IntegratedGradients], given: Given) -> None:
        """The baseline is a statistic of the background."""
        given.need_background("IntegratedGradients")

    def rows(self, members: Sequence[IntegratedGradients], given: Given, place: Place) -> Rows:
        """One per point of each path, and the baseline."""
        along = len(given.inputs) * self.points
        return Rows(along + 1, along)

    def pieces(self, members: Sequence[IntegratedGradients], explained: Explained) -> Iterator[Piece]:
        """Yield the mean gradient, multiplied or not, and the gap of the sum to the score difference."""
        session, inputs = explained.session, explained.inputs
        start = statistic(self.baseline, explained.need_background("IntegratedGradients")).to(inputs).to(session.device)
        nodes, weights = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(self.points))
        along = ((nodes + 1) / 2).to(start)
        share = (weights / 2).to(start)
        bottom = self._score_at(start, explained)
        height = max(1, block_bytes(session.device) // (8 * self.points * start.numel()))
        for rows in pieces(len(inputs), height):
            block = inputs[rows].to(session.device)
            mean = self._mean_gradient(block, start, along, share, rows, explained)
            product = mean * (block - start)
            gap = _relative_gap(product, explained.clean[rows] - bottom[explained.target[rows]])
            yield Piece(rows, torch.stack([product if one.multiply_by_inputs else mean for one in members]), gap)

    def _mean_gradient(
        self,
        block: Float[Tensor, "b *shape"],
        start: Float[Tensor, "*shape"],
        along: Float[Tensor, " points"],
        share: Float[Tensor, " points"],
        rows: slice,
        explained: Explained,
    ) -> Float[Tensor, "b *shape"]:
        owner = torch.arange(rows.start, rows.stop, device=block.device).repeat_interleave(self.points)

        def build(first: int, last: int) -> Tensor:
            job = torch.arange(first, last, device=block.device)
            step = along[job % self.points].reshape(-1, *(1,) * start.ndim)
            return start + step * (block[job // self.points] - start)

        gradients = explained.session.target_gradients(build, owner, explained.target)
        return torch.einsum(
            "bp...,p->b...", gradients.reshape(len(block), self.points, *start.shape), share.to(gradients)
        )

    def _score_at(self, start: Float[Tensor, "*shape"], explained: Explained) -> Float[Tensor, " classes"]:
        """Logits of every class at the baseline."""
        return explained.session.class_scores(start[None])[0]


def statistic(name: PathBaseline, background: Float[Tensor, "m *shape"]) -> Float[Tensor, "*shape"]:
    """A statistic of each element over the background."""
    if name == "mean":
        return background.mean(0)
    if name == "median":
        return _median(background)
    return background.amin(0) if name == "min" else background.amax(0)


def _median(background: Float[Tensor, "m *shape"]) -> Float[Tensor, "*shape"]:
    """The mean of the two middle values, as NumPy has it; torch's median is the lower one."""
    if background.is_cuda:  # where its median is refused if all must be deterministic, and to sort is quick
        ordered, count = background.sort(0).values, len(background)
        return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    return (background.median(0).values - (-background).median(0).values) / 2


def _relative_gap(product: Float[Tensor, "b *shape"], difference: Float[Tensor, " b"]) -> Float[Tensor, " b"]:
    """How far attributions are from summing to the score difference, relative to the larger of the two."""
    total = product.flatten(1).double().sum(1)
    wanted = difference.double()
    return (total - wanted).abs() / torch.maximum(total.abs(), wanted.abs()).clamp(min=1e-12)
