"""Infidelity (Yeh et al.): how far attributions are from the score changes of random perturbations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from verax.core.arguments import checked_count, checked_flag, checked_seed, settle
from verax.core.blocks import pieces
from verax.core.shapes import Float
from verax.metrics.base import Kind, SampledMetric
from verax.metrics.result import Context, Result
from verax.perturbation.draws import Draws, Effect, Perturbation, checked_sigma
from verax.perturbation.sampled import Effects, Gathered
from verax.statistics.intervals import t_quantile

_CACHED = 1 << 19  # float64 numbers, four megabytes
_FEW = 20  # draws: below, scores are too uncertain to go without a warning


@dataclass(frozen=True)
class Infidelity(SampledMetric):
    """Infidelity: mean squared difference of predicted effect P and score change S (eq. 8 to 10). Lower is better.

    Over random perturbations ``I`` of the input: ``mean((P - S)^2)`` with ``P = I . a`` and ``S = s(x) - s(x - I)``.

    Args:
        sigma: Standard deviation of the Gaussian perturbation: a number, one per element of a row, or ``"std"`` for
            those of the call's background.
        subset: Features perturbed in each draw; ``None`` for all (of a replacement: a random share).
        samples: Draws per input, shared by all attributions. From few, scores are uncertain: below 20 there is a
            warning, and normalised ones need two.
        normalize: Scale P by ``beta = sum(P S) / sum(P P)`` first, so that only the shape of an attribution counts.
            An attribution that points the wrong way (``beta < 0``) is as bad as none: beta is 0 then. Because beta is
            fitted to the draws, the sum of squares is divided by one less than their number. Without normalisation,
            attributions on the logit scale are compared with changes of probabilities.
        seed: Same seed, same draws: in any process, batch, row order and on any device.
        perturbation: ``"gaussian"`` for local attributions, ``"baseline"`` for baseline-oriented ones.
        effect: ``"dot"``: ``P = I . a``, for attributions that are slopes, such as gradients; ``"sum"``: P is the sum
            of the attributions of the replaced features, for contributions, such as Shapley values and gradient times
            input. ``None`` is ``"dot"`` for noise and ``"sum"`` for replacement.

    Example:
        >>> import verax
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(8, 4)
        >>> found = verax.evaluate(model, x, x, [Infidelity(samples=40), Infidelity(samples=40, normalize=False)])
        >>> found.rows  # the inputs and 40 draws of each serve both
        328
    """

    sigma: Any = 0.2
    subset: int | None = None
    samples: int = 640
    normalize: bool = True
    seed: int = 0
    perturbation: Perturbation = "gaussian"
    effect: Effect | None = None

    name: ClassVar[str] = "infidelity"
    label: ClassVar[str] = "Infidelity"
    asks: ClassVar[str] = "How far are the changes that attributions predict from those that random perturbations make?"
    higher_is_better: ClassVar[bool] = False
    citation: ClassVar[str] = "Yeh et al.: On the (in)fidelity and sensitivity of explanations, NeurIPS 2019"
    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        checked_flag("normalize", self.normalize)
        settle(
            self,
            sigma=checked_sigma(self.sigma),
            subset=None if self.subset is None else checked_count("subset", self.subset),
            samples=checked_count("samples", self.samples),
            seed=checked_seed(self.seed),
        )
        if self.samples < self.fewest:
            raise ValueError(
                "samples: one draw says nothing where the scale of an attribution is fitted to the draws, found 1; "
                f"pass at least {_FEW}, or normalize=False."
            )
        _ = self.draws  # checks the rest

    @property
    def kind(self) -> Kind:
        """Local, unless features are replaced by their baselines."""
        return "local" if self.perturbation == "gaussian" else "baseline"

    @property
    def fitted(self) -> int:
        """Numbers that are fitted to the draws: the scale, or none."""
        return int(self.normalize)

    @property
    def fewest(self) -> int:
        """Draws that it needs."""
        return 1 + self.fitted

    @property
    def cautions(self) -> tuple[str, ...]:
        """A warning of few draws."""
        if not self.normalize or self.samples >= _FEW:
            return ()
        return (f"samples: Infidelity from {self.samples} draws is uncertain; pass at least {_FEW}, better 640.",)

    @property
    def draws(self) -> Draws:
        """The random perturbations that this metric reads; plain and normalised share them."""
        effect = self.effect or ("dot" if self.perturbation == "gaussian" else "sum")
        return Draws(self.perturbation, self.sigma, self.subset, self.samples, self.seed, effect)

    def reduce(self, effects: Effects) -> Float[Tensor, "k b"]:
        """Infidelity of some inputs."""
        return reduced(effects, self.normalize)["value"]

    def collect(self, effects: Effects, gathered: Gathered) -> None:
        """Keep the sums over draws and the standard error, too."""
        gathered.put(effects.rows, reduced(effects, self.normalize))

    def result(self, gathered: Sequence[Gathered], context: Context) -> "InfidelityResult":
        """Make the result of all inputs."""
        (found,) = ({name: values.clone() for name, values in one.items()} for one in gathered)
        if not torch.isfinite(found["value"]).all():
            raise ValueError(
                f"{self.name}: the predicted effects overflow; inputs, baselines or attributions are too large for "
                f"{context.layout.dtype}: scale them, or pass inputs of torch.float64."
            )
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

    pp: Float[Tensor, "*k n"]
    ps: Float[Tensor, "*k n"]
    ss: Float[Tensor, "*#k n"]

    @property
    def beta(self) -> Float[Tensor, "*k n"]:
        """``sum(P S) / sum(P P)``, at least 0; where no effect is predicted, 0 in the denominator counts as 1."""
        return self.ps.clamp(min=0) / torch.where(self.pp == 0, torch.ones_like(self.pp), self.pp)


def reduced(effects: Effects, normalize: bool) -> dict[str, Float[Tensor, "k b"]]:
    """Infidelity, its standard error and the sums behind it, from the draws of some inputs.

    The standard error is that of the jackknife. Of the normalised score it is larger than the spread of the squared
    errors says, because a draw pulls the fitted scale towards itself: without draw i its squared error would be
    ``e_i^2 / (1 - P_i^2 / sum(P P))``.
    """
    k, b, draws = effects.predicted.shape
    pp, ps, value, spread = torch.empty(4, k, b, dtype=torch.float64, device=effects.actual.device)
    ss = effects.actual.square().sum(-1).expand(k, b)
    opposite = -effects.actual
    free = draws - int(normalize)
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
        value[which, rows] = errors.sum(-1) / free
        if normalize:
            errors.div_(_left_to_others(double, sums))
        squares = torch.linalg.vector_norm(errors, dim=-1).square()
        spread[which, rows] = squares / draws - errors.mean(-1).square()
    spread.clamp_(min=0)  # 0 of equal errors may come out below it by rounding
    error = (spread * (draws - 1)).sqrt() / (free - 1) if free > 1 else torch.full_like(value, torch.nan)
    return {"value": value, "error": error, "pp": pp, "ps": ps, "ss": ss}


def _left_to_others(predicted: Float[Tensor, "k b samples"], sums: Moments) -> Float[Tensor, "k b samples"]:
    """The share of the other draws in ``sum(P P)``, which fixes the scale; overwrites the predicted effects.

    Where one draw alone fixes it, its error is 0 whatever it is divided by. A scale of 0 is not fitted.
    """
    fitted = sums.beta > 0
    weight = torch.where(fitted, -1 / torch.where(fitted, sums.pp, 1), 0)
    return predicted.square_().mul_(weight[..., None]).add_(1).clamp_(min=1e-9)


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

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Where each input's score would lie with endless draws: from, to.

        Squared differences are skewed, and from few draws their spread comes out too small. So the interval is one of
        Student's t for the logarithm, with its upper part longer by the relative error. Over models and attributions
        whose squared differences have tails as heavy as those of squared normal numbers or somewhat heavier, it covers
        92 to 95 % at 20 draws and 94 to 95 % at 160. Where a model is almost constant but for rare jumps, nothing that
        few draws show tells of the jumps, and it covers less.

        Args:
            level: Share of such intervals that hold the score.
        """
        if isinstance(level, bool) or not isinstance(level, float) or not 0 < level < 1:
            raise ValueError(f"level: expected a number between 0 and 1, found {level!r}.")
        relative = torch.where(self.scores > 0, self.errors / self.scores, torch.zeros_like(self.errors))
        reach = t_quantile((1 + level) / 2, self.metric.samples - 1) * relative
        low, high = self.scores * (-reach).exp(), self.scores * (reach * (1 + relative)).exp()
        return self._pack(low), self._pack(high)

    @property
    def beta(self) -> Any:
        """The factor, at least 0, that fits each attribution to the score changes best."""
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
