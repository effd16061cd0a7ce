"""How a metric reads a chain of removed sets, one feature per step: what each step is worth."""

import math
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
from torch import Tensor

from verax.core.shapes import Float
from verax.metrics.base import GuidedMetric
from verax.metrics.weighted_area import WeightedArea
from verax.perturbation.adaptive_curves import Signing
from verax.perturbation.block import cut_points

LIMITED = "known of metrics that weigh the points of their curves (pc, dpc, lpc, srg, comprehensiveness, ...)"
_REDUCING = {"reduce", "curves", "changes", "weights"}  # what a score is made by
_NO_LEVEL = 1e-12  # weights that sum to less sum to 0 but for rounding


def has_limits(metric: Any) -> TypeGuard[GuidedMetric]:
    """Whether a metric says what the points of its curves count, and no class below it reduces them otherwise.

    Example:
        >>> from verax.metrics import Deletion, Infidelity
        >>> class Constant(Deletion):
        ...     def reduce(self, scores):
        ...         return super().reduce(scores) * 0
        >>> has_limits(Deletion()), has_limits(Constant()), has_limits(Infidelity())
        (True, False, False)
    """
    if not isinstance(metric, GuidedMetric):
        return False
    last = next(vars(kind).keys() for kind in type(metric).__mro__ if vars(kind).keys() & _REDUCING)
    return "weights" in last and metric.weights(2) is not None


def signing_of(metric: GuidedMetric) -> Signing:
    """The sign that a metric puts on the change of each feature."""
    return metric.signing if isinstance(metric, WeightedArea) else "none"


@dataclass(frozen=True)
class ChainReading:
    """A score as a sum over the steps of a chain, for inputs of one number of features."""

    factor: Signing  # the sign put on each step: none (PC), or that of DPC by its order
    # fall: what a fall of the score by each step of the MoRF curve counts; None where that curve does not count
    fall: tuple[float, ...] | None
    rise: tuple[float, ...] | None  # what a rise by each step of the LeRF curve counts
    level: float = 0.0  # what the unperturbed score counts beside
    # predicted: whether the sign of a feature is that of ``sum_i a_i (x_i - b_i)`` over its elements, which is free
    # wherever one of them moves; otherwise ``x - baseline`` is summed alone, and may cancel out
    predicted: bool = False

    @classmethod
    def of(
        cls, metric: GuidedMetric, features: int, factor: Signing | None = None, predicted: bool = False
    ) -> "ChainReading":
        """How a metric reads chains of so many features.

        Where its steps hold several, features count as their step does, which is right without signs; signs are put on
        single features all the same.

        Example: the areas under the curve of one feature that goes.
            >>> from verax.metrics import Deletion, PredictionChange
            >>> ChainReading.of(Deletion(), 1)
            ChainReading(factor='none', fall=(-0.5,), rise=None, level=1.0, predicted=False)
            >>> ChainReading.of(PredictionChange(), 1)
            ChainReading(factor='none', fall=(1.0,), rise=(1.0,), level=0.0, predicted=False)
        """
        steps = min(metric.experiment.steps, features)
        points = metric.weights(steps + 1)
        if points is None:
            raise ValueError(f"{metric.name} does not say what the points of its curves count")
        sizes = cut_points(torch.tensor([features]), steps, features)[0].diff()
        # a change by a step counts at its own point of the curve and at all later ones
        tails = points.double().flip(1).cumsum(1).flip(1)[:, 1:].repeat_interleave(sizes, dim=1)
        sides = [tuple(tail.tolist()) if bool(tail.any()) else None for tail in (-tails[0], *tails[1:])]
        if not any(sides):
            sides[0] = (0.0,) * features  # no change counts
        level = float(points.sum())
        return cls(
            factor=signing_of(metric) if factor is None else factor,
            fall=sides[0],
            rise=sides[1] if len(sides) > 1 else None,
            level=level if abs(level) > _NO_LEVEL else 0.0,
            predicted=predicted,
        )

    @property
    def both(self) -> bool:
        """Whether both curves count."""
        return self.fall is not None and self.rise is not None

    @property
    def mirrored(self) -> bool:
        """Whether the negated attribution has the negated score: then the worst is minus the best, and chance is 0."""
        return not self.level and (self.factor == "magnitude" or (self.factor != "literal" and self.fall == self.rise))

    @property
    def phases(self) -> tuple[int, ...]:
        """Signs put on the attributions of a chain in signed order: of positive ones, of zeros, of negative ones."""
        return {"signed": (1, 0, 1), "literal": (1, 0, -1)}.get(self.factor, (1,))

    def gain(
        self, step: int, fall: Float[Tensor, "*any"] | None, rise: Float[Tensor, "*any"] | None
    ) -> Float[Tensor, "*any"]:
        """What a step adds to the score, before its sign."""
        parts = [] if self.fall is None or fall is None else [self.fall[step - 1] * fall]
        if self.rise is not None and rise is not None:
            parts.append(self.rise[len(self.rise) - step] * rise)
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def signed(self, gain: Float[Tensor, "*any"], direction: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        """What a step counts: in magnitude order its sign is free, otherwise it is that of ``x - baseline``."""
        if self.factor == "none":
            return gain
        return (gain * direction).abs() if self.factor == "magnitude" else gain * direction

    def expected_sign(self, step: int, features: int) -> float:
        """Mean of the sign put on a step, beside that of ``x - baseline``, over random attributions.

        Each is positive or negative alike; read literally, the k-th to go is positive where at least k are.
        """
        if self.factor != "literal":
            return 0.0 if self.factor == "magnitude" else 1.0
        fewer = sum(math.comb(features, positive) for positive in range(step))
        return 1 - fewer / int(2 ** (features - 1))


@dataclass(frozen=True)
class Extremes:
    """What attributions of some inputs could score, one feature per step."""

    best: Float[Tensor, " n"]  # the highest score
    worst: Float[Tensor, " n"]  # the lowest
    attribution: Float[Tensor, "n features"]  # one value per feature that attains the best
    opposite: Float[Tensor, "n features"]  # one that attains the worst
    chance: Float[Tensor, " n"]  # the mean score of random attributions; NaN where it is not known

    @property
    def turned(self) -> "Extremes":
        """The same where lower scores are better."""
        return Extremes(self.worst, self.best, self.opposite, self.attribution, self.chance)

    @classmethod
    def mirrored(
        cls, score: Float[Tensor, " n"], attribution: Float[Tensor, "n features"], factor: Signing
    ) -> "Extremes":
        """Limits from one side, where the reverse of an attribution has the negated score; so chance is 0."""
        reverse = attribution.amax(1, keepdim=True) + attribution.amin(1, keepdim=True) - attribution
        reverse = reverse if factor == "none" else -attribution
        below = score[:, None] < 0  # a search may find less than it would by going the other way
        best, worst = torch.where(below, reverse, attribution), torch.where(below, attribution, reverse)
        return cls(score.abs(), -score.abs(), best, worst, torch.zeros_like(score))


def values_in_order(
    place: Float[Tensor, "*any features"], mark: Float[Tensor, "*any features"], factor: Signing
) -> Float[Tensor, "*any features"]:
    """An attribution whose features go in given places, with given signs.

    In signed order positive values fall to the zeros, and negative ones go on falling.

    Example:
        >>> values_in_order(torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 1.0]), "signed").tolist()
        [-1.0, 1.0]
        >>> values_in_order(torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 1.0]), "magnitude").tolist()
        [-0.5, 1.0]
    """
    features = place.shape[-1]
    falling, growing = (features - place) / features, (place + 1) / features
    return mark * (torch.where(mark < 0, growing, falling) if factor != "magnitude" else falling)
