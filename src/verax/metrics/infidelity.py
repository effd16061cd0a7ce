"""Infidelity (Yeh et al.): how far attributions are from the score changes of random perturbations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from verax.core.arguments import checked_flag, checked_level
from verax.core.shapes import Float
from verax.core.warn import warn
from verax.metrics.monte_carlo import FEW, EffectMetric, MonteCarloResult, Tile, reduced_by_tile
from verax.metrics.result import Context
from verax.perturbation.sampled import Effect, Effects, Gathered, Perturbation
from verax.statistics.anytime import ScoreRange
from verax.statistics.intervals import depends_on_few_draws, mean_square_interval, participation_ratio


@dataclass(frozen=True)
class Infidelity(EffectMetric):
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
        >>> both = [Infidelity(samples=40), Infidelity(samples=40, normalize=False)]
        >>> results = verax.evaluate(verax.Problem(model, x), x, both)
        >>> results.rows  # the inputs and 40 draws of each serve both
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
        super().__post_init__()
        if self.samples < self.fewest:
            raise ValueError(
                "samples: expected several draws where the scale of an attribution is fitted to them, got 1; "
                f"pass at least {FEW}, or normalize=False."
            )

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
        """A warning of few draws to fit to."""
        return super().cautions if self.normalize else ()

    @property
    def decides(self) -> bool:
        """Normalised and under noise it won against every false explanation; removal of few inputs rules its mean."""
        return self.normalize and self.kind == "local"

    @property
    def known_limitations(self) -> str:
        if not self.normalize:
            return "The scale of an attribution counts, so that what explains a logit loses to what explains its score."
        return "Its mean is ruled by the few inputs whose score moves most."

    def score_range(self, largest_change: float) -> ScoreRange:
        """Normalised, at most the mean square of the score changes; else what attributions predict has no bound."""
        if not self.normalize or math.isinf(largest_change):
            return ScoreRange()
        return ScoreRange(0.0, largest_change**2 * self.samples / (self.samples - 1), certain=True)

    def reduce(self, effects: Effects) -> Float[Tensor, "k b"]:
        """Infidelity of some inputs."""
        return reduced(effects, self.normalize)["value"]

    def collect(self, effects: Effects, gathered: Gathered) -> None:
        """Keep the sums over draws and the standard error, too."""
        gathered.put(effects.rows, reduced(effects, self.normalize))
        gathered.put(effects.rows, {"carried": participation_ratio(effects.actual)[None]})

    def result(self, gathered: Sequence[Gathered], context: Context) -> "InfidelityResult":
        """Make the result of all inputs."""
        values, moments = self.collected(gathered, context, "value")
        return InfidelityResult(self, context, values["value"], values["error"], moments, values["carried"][0])


def reduced(effects: Effects, normalize: bool) -> dict[str, Float[Tensor, "k b"]]:
    """Infidelity, its standard error and the sums behind it, from the draws of some inputs.

    The standard error is that of the jackknife. Of the normalised score it is larger than the spread of the squared
    errors says, because a draw pulls the fitted scale towards itself: without draw i its squared error would be
    ``e_i^2 / (1 - P_i^2 / sum(P P))``.
    """
    draws, opposite = effects.predicted.shape[-1], -effects.actual
    free = draws - int(normalize)

    def reduce(tile: Tile) -> dict[str, Tensor]:
        sums = tile.moments
        scale = sums.beta if normalize else torch.ones_like(sums.pp)
        errors = torch.addcmul(opposite[tile.rows], tile.predicted, scale[..., None], out=tile.spare).square_()
        value = errors.sum(-1) / free
        if normalize:
            # The share of the other draws in ``sum(P P)``, which fixes the scale; overwrites the predicted effects.
            # Where one draw alone fixes it, its error is 0 whatever it is divided by. A scale of 0 is not fitted.
            weight = torch.where(sums.beta > 0, -1 / torch.where(sums.beta > 0, sums.pp, 1), 0)
            errors.div_(tile.predicted.square_().mul_(weight[..., None]).add_(1).clamp_(min=1e-9))
        spread = torch.linalg.vector_norm(errors, dim=-1).square() / draws - errors.mean(-1).square()
        spread.clamp_(min=0)  # 0 of equal errors may come out below it by rounding
        error = (spread * (draws - 1)).sqrt() / (free - 1) if free > 1 else torch.full_like(value, torch.nan)
        return {"value": value, "error": error}

    return reduced_by_tile(effects, reduce)


@dataclass(frozen=True, repr=False)
class InfidelityResult(MonteCarloResult):
    """Infidelity: ``value`` is the mean squared difference over draws; lower is better.

    Attributes:
        carried: How many draws carry the score changes of each input (``verax.statistics.intervals``).
    """

    carried: Float[Tensor, " n"]

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Where each input's score would lie with endless draws: from, to.

        Student's t for the logarithm, its upper part longer by the relative error. Where a model is sure of an input, a
        rare draw may change the score more than all others together. A warning says where few draws carry the
        changes; there, the upper end allows for what no draw has shown, a probability that moves by 1, and is infinity
        for a logit or a value.

        Measured against the exact truth of logistic models (``python benchmarks/saturated_intervals.py``): where the
        probability is 0.0003 to 1e-14 away from 0 or 1, 95 % intervals cover 91 % at 20 draws (in the worst of 45
        cases 70 %), 97 % (94 %) at 80 and 96 % (88 %) at 640; without that allowance it were 58, 64 and 71 %. Where a
        model is less sure, 92 % (69 %), 95 % (80 %) and 95 % (91 %): from few draws, the score of a nearly perfect
        attribution comes out too good.

        Args:
            level: Share of such intervals that hold the score.
        """
        samples, most = self.metric.samples, self.context.largest_change
        if count := int(depends_on_few_draws(self.carried, samples).sum()):
            other = ', or follow the logit: output="logit"' if most == 1 else ""
            warn(
                f"Infidelity: of {count} of {len(self.carried)} inputs, few of the {samples} draws carry the score "
                "changes, as where a model is sure; what no draw has shown may count more, so their intervals are "
                f"wide. Pass more samples{other}.",
            )
        ends = mean_square_interval(self.scores, self.errors, self.carried, samples, most, checked_level(level))
        return self._pack(ends[0]), self._pack(ends[1])

    def _spread(self) -> float:
        """From 0 to what no attribution at all would get: equal ones may be perfect, all of them."""
        changes = float(self.moments.ss.mean() / self.metric.samples)  # squared, on average
        return max(super()._spread(), changes)

    @property
    def beta(self) -> Any:
        """The factor, at least 0, that fits each attribution to the score changes best."""
        return self._pack(self.moments.beta)
