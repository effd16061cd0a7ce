"""Gradient: the derivative of the target class's logit with respect to the input (eq. 1)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from verax.attribution.base import Attribution
from verax.attribution.family import Family
from verax.attribution.given import Explained, Given, Piece, Place
from verax.core import palette
from verax.core.blocks import block_bytes, pieces
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
        """A family of its own."""
        return GradientFamily()


@dataclass(frozen=True)
class GradientFamily(Family):
    """One backward pass per input."""

    needs_gradients: ClassVar[bool] = True

    def rows(self, members: Sequence[Gradient], given: Given, place: Place) -> Rows:
        """One per input."""
        return Rows(len(given.inputs), len(given.inputs))

    def pieces(self, members: Sequence[Gradient], explained: Explained) -> Iterator[Piece]:
        """Yield the gradient, once for each member."""
        for rows, values in input_gradients(explained):
            yield Piece(rows, values.expand(len(members), *values.shape))


def input_gradients(explained: Explained) -> Iterator[tuple[slice, torch.Tensor]]:
    """Gradients at the inputs themselves, a block at a time."""
    session, inputs = explained.session, explained.inputs
    height = max(session.batch_size, block_bytes(session.device) // (16 * inputs[0].numel()))
    for rows in pieces(len(inputs), height):
        yield rows, _block_gradients(explained, rows)


def _block_gradients(explained: Explained, rows: slice) -> torch.Tensor:
    device = explained.session.device
    block = explained.inputs[rows].to(device)
    owner = torch.arange(rows.start, rows.stop, device=device)
    return explained.session.target_gradients(lambda start, stop: block[start:stop], owner, explained.target)
