"""How PC and DPC read a chain of removed sets, one feature per step: what each step is worth."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from verax.core.shapes import Float
from verax.metrics.areas import decay_weights
from verax.metrics.weighted_area import Curve
from verax.perturbation.adaptive_curves import Signing
from verax.perturbation.block import cut_points
from verax.perturbation.removed_sets import Area


@dataclass(frozen=True)
class ChainReading:
    """A score as a sum over the steps of a chain.

    Attributes:
        factor: The sign put on each step: none (PC), or that of DPC by its order.
        area: ``"between"`` the curves, or ``"morf"``, above the MoRF curve alone.
        curve: ``"cumulative"`` where changes are summed up along the curve, or ``"increments"``.
        steps: Steps of the metric; None for one feature each. Where steps hold several, features count as their step
            does, which is right for PC; signs are put on single features all the same.
        predicted: Whether the sign of a feature is that of ``sum_i a_i (x_i - b_i)`` over its elements, which is free
            wherever one of them moves; otherwise ``x - baseline`` is summed alone, and may cancel out.
    """

    factor: Signing
    area: Area = "between"
    curve: Curve = "cumulative"
    steps: int | None = None
    predicted: bool = False

    @property
    def mirrored(self) -> bool:
        """Whether the negated attribution has the negated score: then the worst is minus the best, and chance is 0."""
        return self.factor == "magnitude" or (self.area == "between" and self.factor != "literal")

    @property
    def phases(self) -> tuple[int, ...]:
        """Signs put on the attributions of a chain in signed order: of positive ones, of zeros, of negative ones."""
        return {"signed": (1, 0, 1), "literal": (1, 0, -1)}.get(self.factor, (1,))

    def gain(
        self, step: int, features: int, fall: Float[Tensor, "*any"], rise: Float[Tensor, "*any"] | None
    ) -> Float[Tensor, "*any"]:
        """What a step adds to the area, before its sign.

        Args:
            step: Its number on the MoRF curve, from 1.
            features: How many there are.
            fall: ``f(S) - f(S + i)``, as feature i goes on the MoRF curve.
            rise: ``f(S^c) - f((S + i)^c)``, as it goes on the LeRF curve; None where that is not run.
        """
        weights = self._weights(features)
        found = weights[step - 1] * fall
        return found if rise is None else found + weights[features - step] * rise

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

    def _weights(self, features: int) -> list[float]:
        """How much a change by each feature to go counts: at its own point of the curve, or at that and all later."""
        steps = features if self.steps is None else min(self.steps, features)
        points = decay_weights(torch.empty(steps + 1, dtype=torch.float64))[1:]
        counted = points if self.curve == "increments" else points.flip(0).cumsum(0).flip(0)
        sizes = cut_points(torch.tensor([features]), steps, features)[0].diff()
        found: list[float] = (counted / points.sum()).repeat_interleave(sizes).tolist()
        return found


@dataclass(frozen=True)
class Extremes:
    """What attributions of some inputs could score, one feature per step.

    Attributes:
        best: The highest score.
        worst: The lowest.
        attribution: One value per feature that attains the best.
        opposite: One that attains the worst.
        chance: The mean score of random attributions; NaN where it is not known.
    """

    best: Float[Tensor, " n"]
    worst: Float[Tensor, " n"]
    attribution: Float[Tensor, "n features"]
    opposite: Float[Tensor, "n features"]
    chance: Float[Tensor, " n"]

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

    Args:
        place: Of each feature in the order of removal, from 0.
        mark: Sign of each feature's attribution.
        factor: In magnitude order sizes fall whatever the signs are.

    Example:
        >>> values_in_order(torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 1.0]), "signed").tolist()
        [-1.0, 1.0]
        >>> values_in_order(torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 1.0]), "magnitude").tolist()
        [-0.5, 1.0]
    """
    features = place.shape[-1]
    falling, growing = (features - place) / features, (place + 1) / features
    return mark * (torch.where(mark < 0, growing, falling) if factor != "magnitude" else falling)
