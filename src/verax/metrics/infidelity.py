"""Infidelity (Yeh et al.): how far attributions are from the score changes of random perturbations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from verax.core.arguments import checked_count, checked_flag, checked_positive, checked_seed, settle
from verax.core.blocks import pieces
from verax.core.shapes import Float
from verax.metrics.base import Kind, SampledMetric
from verax.metrics.result import Context, Result
from verax.perturbation.sampled import Draws, Effects, Gathered, Perturbation

_CACHED = 1 << 19  # float64 numbers, four megabytes


@dataclass(frozen=True)
class Infidelity(SampledMetric):
    """Infidelity: mean squared difference of predicted effect P and score change S (eq. 8 to 10). Lower is better.

    Over random perturbations ``I`` of the input: ``mean((P - S)^2)`` with ``P = I . a`` and ``S = s(x) - s(x - I)``.

    Args:
        sigma: Standard deviation of the Gaussian perturbation.
        subset: Features perturbed in each draw; ``None`` for all (of a replacement: a random share).
        samples: Draws per input, shared by all attributions.
        normalize: Scale P by ``beta = sum(P S) / sum(P P)`` first, so that only the shape of an attribution counts.
            Without it, attributions on the logit scale are compared with changes of probabilities.
        seed: Same seed, same draws: in any process, batch, row order and on any device.
        perturbation: ``"gaussian"`` for local attributions, ``"baseline"`` for baseline-oriented ones.

    Example:
        >>> import verax
        >>> model, x = torch.nn.Linear(4, 1), torch.randn(8, 4)
        >>> found = verax.evaluate(model, x, x, [Infidelity(samples=40), Infidelity(samples=40, normalize=False)])
        >>> found.rows  # the inputs and 40 draws of each serve both
        328
    """

    sigma: float = 0.2
    subset: int | None = None
    samples: int = 640
    normalize: bool = True
    seed: int = 0
    perturbation: Perturbation = "gaussian"

    name: ClassVar[str] = "infidelity"
    label: ClassVar[str] = "Infidelity"
    higher_is_better: ClassVar[bool] = False
    citation: ClassVar[str] = "Yeh et al.: On the (in)fidelity and sensitivity of explanations, NeurIPS 2019"

    def __post_init__(self) -> None:
        checked_flag("normalize", self.normalize)
        settle(
            self,
            sigma=checked_positive("sigma", self.sigma),
            subset=None if self.subset is None else checked_count("subset", self.subset),
            samples=checked_count("samples", self.samples),
            seed=checked_seed(self.seed),
        )
        _ = self.draws  # checks the rest

    @property
    def kind(self) -> Kind:
        """Local, unless features are replaced by their baselines."""
        return "local" if self.perturbation == "gaussian" else "baseline"

    @property
    def draws(self) -> Draws:
        """The random perturbations that this metric reads; plain and normalised share them."""
        return Draws(self.perturbation, self.sigma, self.subset, self.samples, self.seed)

    def reduce(self, effects: Effects) -> Float[Tensor, "k b"]:
        """Infidelity of some inputs."""
        return reduced(effects, self.normalize)["value"]

    def collect(self, effects: Effects, gathered: Gathered) -> None:
        """Keep the sums over draws and the standard error, too."""
        gathered.put(effects.rows, reduced(effects, self.normalize))

    def result(self, gathered: Sequence[Gathered], context: Context) -> "InfidelityResult":
        """Make the result of all inputs."""
        (found,) = ({name: values.clone() for name, values in one.items()} for one in gathered)
        moments = Moments(found["pp"], found["ps"], found["ss"])
        return InfidelityResult(self, context, found["value"], found["error"], moments)


@dataclass(frozen=True)
class Moments:
    """Sums over draws from which plain and normalised Infidelity follow, in float64, per attribution and input.

    Attributes:
        pp: Of the squares of the predicted effect ``P``.
        ps: Of the products of predicted and real effect.
        ss: Of the squares of the real effect ``S``.
    """

    pp: Float[Tensor, "k n"]
    ps: Float[Tensor, "k n"]
    ss: Float[Tensor, "k n"]

    @property
    def beta(self) -> Float[Tensor, "k n"]:
        """``sum(P S) / sum(P P)``; where no effect is predicted at all, 0 in the denominator counts as 1."""
        return self.ps / torch.where(self.pp == 0, torch.ones_like(self.pp), self.pp)


def reduced(effects: Effects, normalize: bool) -> dict[str, Float[Tensor, "k b"]]:
    """Infidelity, its standard error and the sums behind it, from the draws of some inputs.

    The standard error of the normalised score needs no term for beta: beta minimises the mean, so an error in it has no
    first-order effect.
    """
    k, b, draws = effects.predicted.shape
    pp, ps, value, fourth = torch.empty(4, k, b, dtype=torch.float64, device=effects.actual.device)
    ss = effects.actual.square().sum(-1).expand(k, b)
    opposite = -effects.actual
    scratch = opposite.new_empty(0)  # grows to the first tile: new memory for each would cost more than the work
    for which, rows in _tiles(effects.predicted):
        predicted = effects.predicted[which, rows]
        if scratch.numel() < 2 * predicted.numel():
            scratch = opposite.new_empty(2 * predicted.numel())
        double, errors = (part[: predicted.numel()].reshape(predicted.shape) for part in scratch.chunk(2))
        double.copy_(predicted)
        # a norm reads the tile once, where squares and their sum would write another one and read it again
        pp[which, rows] = torch.linalg.vector_norm(double, dim=-1).square()
        ps[which, rows] = (double.transpose(0, 1) @ effects.actual[rows, :, None])[..., 0].T
        sums = Moments(pp[which, rows], ps[which, rows], ss[which, rows])
        scale = sums.beta if normalize else torch.ones_like(sums.pp)
        torch.addcmul(opposite[rows], double, scale[..., None], out=errors).square_()
        value[which, rows] = errors.mean(-1)
        fourth[which, rows] = torch.linalg.vector_norm(errors, dim=-1).square()
    spread = (fourth / draws - value.square()).clamp(min=0)  # 0 of equal errors may come out below it by rounding
    error = (spread / (draws - 1)).sqrt() if draws > 1 else torch.full_like(value, torch.nan)
    return {"value": value, "error": error, "pp": pp, "ps": ps, "ss": ss}


def _tiles(predicted: Float[Tensor, "k b samples"]) -> Iterator[tuple[slice, slice]]:
    """Cut attributions and inputs so that the passes over a tile find it in a cache; a GPU takes all at once."""
    k, b, samples = predicted.shape
    room = _CACHED // samples if predicted.device.type == "cpu" else k * b
    height = max(1, min(b, room // k))
    for rows in pieces(b, height):
        for which in pieces(k, max(1, room // height)):
            yield which, rows


@dataclass(frozen=True, repr=False)
class InfidelityResult(Result):
    """Infidelity: ``value`` is the mean squared difference over draws; lower is better.

    Attributes:
        errors: Monte-Carlo standard error per attribution and input.
        moments: Sums over draws per attribution and input.
    """

    errors: Float[Tensor, "k n"]
    moments: Moments

    @property
    def standard_error(self) -> Any:
        """Monte-Carlo standard error of each input's score."""
        return self._pack(self.errors)

    @property
    def mean_standard_error(self) -> Any:
        """Monte-Carlo standard error of the mean over these inputs.

        Draws of different inputs are independent; equal inputs share theirs, so repeated rows make it too small.
        """
        return self._arrange(self._mean_errors())

    @property
    def beta(self) -> Any:
        """The factor that fits each attribution to the score changes best."""
        return self._pack(self.moments.beta)

    def plot(self) -> Any:
        """Draw each input's score with its Monte-Carlo standard error: a panel per attribution, up to 12."""
        from verax.display.plots import values  # noqa: PLC0415  # to keep ``import verax`` light

        return values(self)

    def _further_columns(self) -> dict[str, list[float]]:
        return {"Monte-Carlo error": self._mean_errors()}

    def _mean_errors(self) -> list[float]:
        found: list[float] = (self.errors.square().sum(1).sqrt() / self.errors.shape[1]).tolist()
        return found
