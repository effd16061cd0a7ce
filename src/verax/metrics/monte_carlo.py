"""Metrics that compare predicted with actual effects of random draws: sums over draws, settings, results."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from verax.core.arguments import settle
from verax.core.blocks import pieces
from verax.core.shapes import Float
from verax.metrics.base import Kind, SampledMetric
from verax.metrics.result import Context, Result
from verax.perturbation.sampled import Draws, Effect, Effects, Gathered, Perturbation

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
    """The draws of some attributions and inputs."""

    which: slice  # the attributions
    rows: slice  # the inputs, counted within the block
    predicted: Float[Tensor, "k b samples"]  # their predicted effects, in float64; may be overwritten
    spare: Float[Tensor, "k b samples"]  # memory of the same shape
    moments: Moments  # their sums over draws


def tiles(effects: Effects) -> Iterator[Tile]:
    """Cut a block of effects into tiles. What is yielded is overwritten by the next one, but for the sums."""
    squares = effects.actual.square().sum(-1).expand(effects.predicted.shape[:2])
    scratch = effects.actual.new_empty(0)  # grows to the first tile: new memory for each would cost more than the work
    for which, rows in cuts(effects.predicted):
        block = effects.predicted[which, rows]
        if scratch.numel() < 2 * block.numel():
            scratch = effects.actual.new_empty(2 * block.numel())
        predicted, spare = (part[: block.numel()].reshape(block.shape) for part in scratch.chunk(2))
        predicted.copy_(block)
        # a norm reads the tile once, where squares and their sum would write another one and read it again
        pp = torch.linalg.vector_norm(predicted, dim=-1).square()
        ps = (predicted.transpose(0, 1) @ effects.actual[rows, :, None])[..., 0].T
        yield Tile(which, rows, predicted, spare, Moments(pp, ps, squares[which, rows]))


def reduced_by_tile(
    effects: Effects, reduce: Callable[[Tile], dict[str, Float[Tensor, "k b"]]]
) -> dict[str, Float[Tensor, "k b"]]:
    """The sums over the draws of some inputs, and what else each tile is reduced to."""
    results: dict[str, Tensor] = {}
    for tile in tiles(effects):
        for name, values in (vars(tile.moments) | reduce(tile)).items():
            if name not in results:
                results[name] = effects.actual.new_empty(effects.predicted.shape[:2], dtype=torch.float64)
            results[name][tile.which, tile.rows] = values
    return results


def cuts(predicted: Float[Tensor, "k b samples"]) -> Iterator[tuple[slice, slice]]:
    """Cut attributions and inputs so that the passes over a tile find it in a cache; a GPU takes all at once."""
    k, b, samples = predicted.shape
    room = _CACHED // samples if predicted.device.type == "cpu" else k * b
    height = max(1, min(b, room // k))
    for rows in pieces(b, height):
        for which in pieces(k, max(1, room // height)):
            yield which, rows


FEW = 20  # draws: below, scores are too uncertain to go without a warning


class EffectMetric(SampledMetric):
    """A metric of one set of draws, whose settings are among its fields. Equal settings share their model rows."""

    sigma: Any
    subset: int | None
    samples: int
    seed: int
    perturbation: Perturbation
    effect: Effect | None

    def __post_init__(self) -> None:
        draws = self.draws  # which checks them
        settle(self, sigma=draws.sigma, subset=draws.subset, samples=draws.samples, seed=draws.seed)

    @property
    def kind(self) -> Kind:
        """Local, unless features are replaced by their baselines."""
        return "local" if self.perturbation == "gaussian" else "baseline"

    @property
    def draws(self) -> Draws:
        effect = self.effect or ("dot" if self.perturbation == "gaussian" else "sum")
        return Draws(self.perturbation, self.sigma, self.subset, self.samples, self.seed, effect)

    def label_as(self, column: str) -> str:
        """The label, with what is done to the input where features are replaced.

        Example:
            >>> from verax.metrics import Infidelity
            >>> Infidelity().label_as("infidelity"), Infidelity(perturbation="baseline").label_as("infidelity_baseline")
            ('Infidelity', 'Infidelity (removal)')
        """
        if column not in (self.name, f"{self.name}_{self.kind}"):
            return column
        return self.label if self.kind == "local" else f"{self.label} (removal)"

    @property
    def cautions(self) -> tuple[str, ...]:
        """A warning of few draws."""
        if self.samples >= FEW:
            return ()
        return (f"samples: {self.label} from {self.samples} draws is uncertain; pass at least {FEW}, better 640.",)

    def collected(
        self, gathered: Sequence[Gathered], context: Context, finite: str
    ) -> tuple[dict[str, Float[Tensor, "k n"]], Moments]:
        """What was kept of all inputs, and the sums over draws; raises for numbers that are too large."""
        (draws,) = gathered
        values = {name: kept.clone() for name, kept in draws.items()}
        if not torch.isfinite(values[finite]).all():
            raise ValueError(
                f"{self.name}: the predicted effects overflow; inputs, baselines or attributions are too large for "
                f"{context.layout.dtype}: scale them, or pass inputs of torch.float64."
            )
        return values, Moments(values["pp"], values["ps"], values["ss"])


@dataclass(frozen=True, repr=False)
class MonteCarloResult(Result):
    """Scores that come from random draws, each with the error that other draws would show.

    Attributes:
        errors: Monte-Carlo standard error per attribution and input (jackknife).
        moments: Sums over draws per attribution and input.
    """

    errors: Float[Tensor, "k n"]
    moments: Moments

    @property
    def standard_error(self) -> Any:
        """Monte-Carlo standard error of each input's score; ``interval`` says more where draws are few."""
        return self._pack(self.errors)

    def _columns(self) -> dict[str, Float[Tensor, "k n"]]:
        return super()._columns() | {"_se": self.errors}

    @property
    def mean_standard_error(self) -> Any:
        """Monte-Carlo standard error of the mean over these inputs.

        Draws of different inputs are independent; equal inputs share theirs, so repeated rows make it too small.
        """
        return self._arrange(self._mean_errors())

    def plot(self) -> Any:
        """Draw each input's score with its Monte-Carlo standard error: a panel per attribution, up to 12."""
        from verax.report.plots import values  # noqa: PLC0415  # to keep ``import verax`` light

        return values(self)

    def _further_columns(self) -> dict[str, list[float]]:
        return {"Monte-Carlo error": self._mean_errors()}

    def _mean_errors(self) -> list[float]:
        errors: list[float] = (self.errors.square().sum(1).sqrt() / self.errors.shape[1]).tolist()
        return errors
