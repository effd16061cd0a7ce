"""Integrated Gradients: gradients averaged on the straight path from a baseline to the input (eq. 5)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from verax.attribution.base import Attribution
from verax.attribution.family import Family, Piece, Place
from verax.core import palette
from verax.core.arguments import checked_choice, checked_count, checked_flag, settle
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Float
from verax.problem.problem import Problem
from verax.scoring.meter import Rows

PathBaseline = Literal["min", "mean", "median", "max", "zero"]


@dataclass(frozen=True)
class IntegratedGradients(Attribution):
    """Integrated Gradients from a statistic of the training data (Sundararajan, Taly, Yan 2017).

    ``a_i = (x_i - b_i) * integral_0^1 d z_y(b + t (x - b)) / d x_i dt``, the factor before it on request only.

    Args:
        baseline: ``"min"``, ``"mean"``, ``"median"`` or ``"max"`` over the background: of each element of a row, or of
            each channel of images ``(N, channels, height, width)``, one number for all its pixels. Without a
            background, ``"mean"`` starts from the baselines of the call. ``"zero"`` is the mean of standardised data;
            a study standardises images by channel and computes ``"mean"`` so.
        multiply_by_inputs: Multiply the mean gradient with ``x - baseline``; without, the pseudo-local variant.
        points: Points on the path (Gauss-Legendre, as Captum's default).

    Example:
        >>> import verax
        >>> model, x = torch.nn.Linear(3, 2), torch.randn(5, 3)
        >>> IntegratedGradients(baseline="mean")(verax.Problem(model, x, target=1, background=x)).shape
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
        checked_choice("baseline", self.baseline, get_args(PathBaseline))
        settle(self, points=checked_count("points", self.points))
        checked_flag("multiply_by_inputs", self.multiply_by_inputs)

    @property
    def family(self) -> "PathFamily":
        return PathFamily(self.baseline, self.points)

    @property
    def local(self) -> bool:
        return not self.multiply_by_inputs


@dataclass(frozen=True)
class PathFamily(Family):
    """One path integral for every input."""

    baseline: PathBaseline
    points: int

    needs_gradients: ClassVar[bool] = True
    version: ClassVar[int] = 3

    def check(self, members: Sequence[IntegratedGradients], problem: Problem) -> None:
        if self.baseline not in ("mean", "zero"):
            problem.need_background(f"IntegratedGradients(baseline={self.baseline!r})")

    def rows(self, members: Sequence[IntegratedGradients], problem: Problem, place: Place) -> Rows:
        along = len(problem.inputs) * self.points
        several = self.baseline == "mean" and problem.background is None and problem.baselines.stride(0)
        return Rows(along + (len(problem.inputs) if several else 1), along)

    def pieces(self, members: Sequence[IntegratedGradients], problem: Problem) -> Iterator[Piece]:
        session, inputs = problem.open_session, problem.inputs
        starts = self._starts(problem)
        if session.row_arguments is not None:  # what comes with an input has a say in the score of its baseline
            starts = starts.expand(inputs.shape)
        nodes, weights = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(self.points))
        along, share = (part.to(session.device, inputs.dtype) for part in ((nodes + 1) / 2, weights / 2))
        bottom = session.class_scores(starts).expand(len(inputs), -1)
        height = max(1, block_bytes(session.device) // (8 * self.points * inputs[0].numel()))
        for rows in pieces(len(inputs), height):
            block = inputs[rows].to(session.device)
            start = (starts if len(starts) == 1 else starts[rows]).to(session.device)
            mean = self._mean_gradient(block, start, along, share, rows, problem)
            product = mean * (block - start)
            below = bottom[rows].gather(1, problem.classes[rows][:, None])[:, 0]
            # how far attributions are from summing to the score difference, relative to the larger of the two
            total, expected = product.flatten(1).double().sum(1), (problem.scores()[rows] - below).double()
            gap = (total - expected).abs() / torch.maximum(total.abs(), expected.abs()).clamp(min=1e-12)
            yield Piece(rows, torch.stack([product if member.multiply_by_inputs else mean for member in members]), gap)

    def _mean_gradient(
        self,
        block: Float[Tensor, "b *shape"],
        start: Float[Tensor, "starts *shape"],
        along: Float[Tensor, " points"],
        share: Float[Tensor, " points"],
        rows: slice,
        problem: Problem,
    ) -> Float[Tensor, "b *shape"]:
        owner = torch.arange(rows.start, rows.stop, device=block.device).repeat_interleave(self.points)

        def build(first: int, last: int) -> Tensor:
            job = torch.arange(first, last, device=block.device)
            step = along[job % self.points].reshape(-1, *(1,) * (block.ndim - 1))
            row = job // self.points
            begin = start if len(start) == 1 else start[row]
            return begin + step * (block[row] - begin)

        gradients = problem.open_session.target_gradients(build, owner, problem.classes)
        gradients = gradients.reshape(len(block), self.points, *block.shape[1:])
        # Differences from the first are averaged, so that equal gradients have exactly themselves as mean.
        first = gradients[:, 0].clone()
        return first + torch.einsum("bp...,p->b...", gradients.sub_(first[:, None]), share.to(gradients))

    def _starts(self, problem: Problem) -> Float[Tensor, "starts *shape"]:
        """Where paths begin: at one row for all inputs, or at one for each."""
        if self.baseline == "zero":
            return torch.zeros_like(problem.inputs[:1])
        if problem.background is not None:
            return statistic(self.baseline, problem.background).to(problem.inputs)[None]
        return problem.baselines if problem.baselines.stride(0) else problem.baselines[:1]


def statistic(name: PathBaseline, background: Float[Tensor, "m *shape"]) -> Float[Tensor, "*shape"]:
    """A statistic of each element over the background, of images of each channel over all its pixels.

    Example:
        >>> images = torch.tensor([0.0, 1.0, 2.0, 9.0]).reshape(1, 1, 2, 2)
        >>> statistic("mean", images), statistic("median", images[:, 0, 0])
        (tensor([[[3., 3.],
                 [3., 3.]]]), tensor([0., 1.]))
    """
    if background.ndim == 4:
        by_channel = torch.stack(
            [statistic(name, background[:, channel].flatten()) for channel in range(background.shape[1])]
        )
        return by_channel[:, None, None].expand(background.shape[1:])
    if name == "mean":
        return background.mean(0)
    if name == "median":
        return _median(background)
    return background.amin(0) if name == "min" else background.amax(0)


def _median(background: Float[Tensor, "m *shape"]) -> Float[Tensor, "*shape"]:
    """The mean of the two middle values, as NumPy has it; torch's median is the lower one."""
    if background.is_cuda:  # where its median raises if all must be deterministic, and to sort is quick
        ordered, count = background.sort(0).values, len(background)
        return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    return (background.median(0).values - (-background).median(0).values) / 2
