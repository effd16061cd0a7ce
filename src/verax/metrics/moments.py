"""Sums over random draws from which metrics of predicted and actual effects follow, some attributions at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from verax.core.blocks import pieces
from verax.core.shapes import Float
from verax.perturbation.sampled import Effects

_CACHED = 1 << 19  # float64 numbers, four megabytes


@dataclass(frozen=True)
class Moments:
    """Sums over draws, in float64, per attribution and input.

    Attributes:
        pp: Of the squares of the predicted effect ``P``.
        ps: Of the products of predicted and real effect.
        ss: Of the squares of the real effect ``S``.
    """

    pp: Float[Tensor, "*k n"]
    ps: Float[Tensor, "*k n"]
    ss: Float[Tensor, "*#k n"]

    @property
    def beta(self) -> Float[Tensor, "*k n"]:
        """``sum(P S) / sum(P P)``, at least 0; where no effect is predicted, 0 in the denominator counts as 1."""
        return self.ps.clamp(min=0) / torch.where(self.pp == 0, torch.ones_like(self.pp), self.pp)

    @property
    def correlation(self) -> Float[Tensor, "*k n"]:
        """``sum(P S) / sqrt(sum(P P) sum(S S))``; 0 where nothing is predicted or nothing happens."""
        size = self.pp.sqrt() * self.ss.sqrt()
        return (self.ps / torch.where(size == 0, torch.ones_like(size), size)).clamp(-1, 1)


@dataclass(frozen=True)
class Tile:
    """The draws of some attributions and inputs.

    Attributes:
        which: The attributions.
        rows: The inputs, counted within the block.
        predicted: Their predicted effects, in float64; may be overwritten.
        spare: Memory of the same shape.
        moments: Their sums over draws.
    """

    which: slice
    rows: slice
    predicted: Float[Tensor, "k b samples"]
    spare: Float[Tensor, "k b samples"]
    moments: Moments


def tiles(effects: Effects) -> Iterator[Tile]:
    """Cut a block of effects into tiles. What is yielded is overwritten by the next one, but for the sums."""
    squares = effects.actual.square().sum(-1).expand(effects.predicted.shape[:2])
    scratch = effects.actual.new_empty(0)  # grows to the first tile: new memory for each would cost more than the work
    for which, rows in cuts(effects.predicted):
        given = effects.predicted[which, rows]
        if scratch.numel() < 2 * given.numel():
            scratch = effects.actual.new_empty(2 * given.numel())
        predicted, spare = (part[: given.numel()].reshape(given.shape) for part in scratch.chunk(2))
        predicted.copy_(given)
        # a norm reads the tile once, where squares and their sum would write another one and read it again
        pp = torch.linalg.vector_norm(predicted, dim=-1).square()
        ps = (predicted.transpose(0, 1) @ effects.actual[rows, :, None])[..., 0].T
        yield Tile(which, rows, predicted, spare, Moments(pp, ps, squares[which, rows]))


def cuts(predicted: Float[Tensor, "k b samples"]) -> Iterator[tuple[slice, slice]]:
    """Cut attributions and inputs so that the passes over a tile find it in a cache; a GPU takes all at once."""
    k, b, samples = predicted.shape
    room = _CACHED // samples if predicted.device.type == "cpu" else k * b
    height = max(1, min(b, room // k))
    for rows in pieces(b, height):
        for which in pieces(k, max(1, room // height)):
            yield which, rows
