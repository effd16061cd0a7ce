"""Gradients of the target class's score (eq. 1), and their mean and variance around the input (eqs. 3 and 4)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from verax.attribution.base import Attribution
from verax.attribution.family import Family, Piece, Place, input_keys
from verax.core import noise, palette
from verax.core.arguments import checked_count, checked_positive, checked_seed, settle
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Float
from verax.problem.problem import Problem
from verax.scoring.meter import Rows


@dataclass(frozen=True)
class Gradient(Attribution):
    """The gradient of the target logit: ``a_i = d z_y(x) / d x_i`` (Simonyan, Vedaldi, Zisserman 2013).

    Example:
        >>> import verax
        >>> model, x = torch.nn.Linear(3, 2), torch.randn(2, 3)
        >>> problem = verax.Problem(model, x, target=1, explained="logit")
        >>> bool(torch.equal(Gradient()(problem), model.weight[1:].detach().expand(2, 3)))
        True
    """

    local: ClassVar[bool] = True
    colour: ClassVar[str | None] = palette.BLUE
    citation: ClassVar[str] = "Simonyan, Vedaldi, Zisserman: Deep inside convolutional networks, 2013"

    @property
    def family(self) -> "GradientFamily":
        return GradientFamily()


@dataclass(frozen=True)
class GradientFamily(Family):
    """One backward pass per input."""

    needs_gradients: ClassVar[bool] = True

    def rows(self, members: Sequence[Attribution], problem: Problem, place: Place) -> Rows:
        return Rows(len(problem.inputs), len(problem.inputs))

    def pieces(self, members: Sequence[Attribution], problem: Problem) -> Iterator[Piece]:
        session, inputs = problem.open_session, problem.inputs
        height = max(session.batch_size, block_bytes(session.device) // (16 * inputs[0].numel()))
        for rows in pieces(len(inputs), height):
            owner = torch.arange(rows.start, rows.stop, device=session.device)
            values = session.gradients_of(inputs[rows].to(session.device), owner, problem.classes)
            yield Piece(rows, values.expand(len(members), *values.shape))


@dataclass(frozen=True)
class _Noisy(Attribution):
    sigma: float = 0.1
    samples: int = 64
    seed: int = 0

    random: ClassVar[bool] = True
    local: ClassVar[bool] = True
    _fewest: ClassVar[int] = 1

    def __post_init__(self) -> None:
        settle(
            self,
            sigma=checked_positive("sigma", self.sigma),  # 1 and 1.0 are one configuration
            samples=checked_count("samples", self.samples, self._fewest),
            seed=checked_seed(self.seed),
        )

    @property
    def family(self) -> "NoisyFamily":
        return NoisyFamily(self.sigma, self.samples, self.seed)


@dataclass(frozen=True)
class SmoothGrad(_Noisy):
    """The mean gradient of the target logit over noisy copies of the input (Smilkov et al. 2017).

    ``a = mean_j grad z_y(x + sigma n_j)``, ``n_j`` standard normal.

    Args:
        sigma: Standard deviation of the normal noise, in the units of the inputs (meant for standardised ones).
        samples: Noisy copies per input. The first are the same whatever their number.
        seed: The noise is a function of the seed and the input's values.

    Example:
        >>> import verax
        >>> model = torch.nn.Linear(3, 2)
        >>> problem = verax.Problem(model, torch.randn(2, 3), target=1, explained="logit")
        >>> bool(torch.equal(SmoothGrad()(problem), model.weight[1:].detach().expand(2, 3)))
        True
    """

    colour: ClassVar[str | None] = palette.GREEN
    citation: ClassVar[str] = "Smilkov et al.: SmoothGrad: removing noise by adding noise, 2017"


@dataclass(frozen=True)
class VarGrad(_Noisy):
    """The variance of the gradient over the same noisy copies; never negative (Adebayo et al. 2018).

    ``a = mean_j (grad z_y(x + sigma n_j) - mean)^2``.

    Args:
        sigma: Standard deviation of the normal noise, in the units of the inputs (meant for standardised ones).
        samples: Noisy copies per input, at least 2; the sum of squares is divided by this number.
        seed: The noise is a function of the seed and the input's values.

    Example:
        >>> import verax
        >>> VarGrad()(verax.Problem(torch.nn.Linear(3, 2), torch.zeros(1, 3), explained="logit"))
        tensor([[0., 0., 0.]])
    """

    colour: ClassVar[str | None] = palette.PURPLE
    citation: ClassVar[str] = "Adebayo et al.: Local explanation methods for deep neural networks, 2018"
    _fewest: ClassVar[int] = 2


@dataclass(frozen=True)
class NoisyFamily(Family):
    """One set of noisy gradients per input."""

    sigma: float
    samples: int
    seed: int

    needs_gradients: ClassVar[bool] = True

    def rows(self, members: Sequence[_Noisy], problem: Problem, place: Place) -> Rows:
        copies = len(problem.inputs) * self.samples
        return Rows(copies, copies)

    def pieces(self, members: Sequence[_Noisy], problem: Problem) -> Iterator[Piece]:
        session, inputs = problem.open_session, problem.inputs
        per_copy = 40 * inputs[0].numel()  # random words, noise, noisy copy, gradient
        copies = max(session.batch_size, block_bytes(session.device) // per_copy)
        for rows in pieces(len(inputs), max(1, copies // self.samples)):
            mean, variance = self._moments(problem, rows, copies)
            yield Piece(rows, torch.stack([variance if isinstance(member, VarGrad) else mean for member in members]))

    def _moments(
        self, problem: Problem, rows: slice, copies: int
    ) -> tuple[Float[Tensor, "b *shape"], Float[Tensor, "b *shape"]]:
        """Mean and variance in one pass (Welford): each step adds a square, and equal gradients add exactly 0."""
        count = rows.stop - rows.start
        mean = squares = torch.zeros((), dtype=torch.float64, device=problem.open_session.device)
        seen = 0
        for part in pieces(self.samples, max(1, copies // count)):
            for gradient in self._gradients(problem, rows, part):
                seen += 1
                step = gradient.double() - mean
                mean = mean + step / seen
                squares = squares + step.square() * ((seen - 1) / seen)
        return mean, squares / self.samples

    def _gradients(self, problem: Problem, rows: slice, part: slice) -> Float[Tensor, "draws b *shape"]:
        session = problem.open_session
        block = problem.inputs[rows].to(session.device)
        count, draws = len(block), part.stop - part.start
        keys = input_keys(problem, torch.arange(rows.start, rows.stop, device=session.device), self.seed, "smoothgrad")
        drawn = noise.normals(keys, part.start, draws, block[0].numel(), session.dtype).mul_(self.sigma)
        moved = block.to(session.dtype) + drawn.transpose(0, 1).reshape(draws, *block.shape)
        owner = torch.arange(rows.start, rows.stop, device=session.device).repeat(draws)
        gradients = session.gradients_of(moved.flatten(0, 1), owner, problem.classes)
        return gradients.reshape(draws, count, *block.shape[1:])
