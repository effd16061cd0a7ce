"""The names under which others know the guided experiment: views of PC's curves, from the same model rows.

Deletion and insertion (Petsiuk et al.) are the areas under the MoRF curve and under the LeRF curve read backwards; the
symmetric relevance gain (Blücher et al.) is their difference; comprehensiveness and sufficiency (DeYoung et al.) look
at the scores without, and with nothing but, the most relevant features.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from verax.core.arguments import checked_count, settle
from verax.core.shapes import Float, Int
from verax.metrics.base import GuidedMetric, Kind
from verax.metrics.prediction_change import BLIND_TO_A_CONSTANT, PredictionChange
from verax.perturbation.guided import GuidedScores
from verax.perturbation.removed_sets import Experiment
from verax.statistics.anytime import ScoreRange


@dataclass(frozen=True)
class CurveView(GuidedMetric):
    """A number read from the curves of PC's own experiment."""

    steps: int = 20

    kind: ClassVar[Kind] = "baseline"

    def __post_init__(self) -> None:
        settle(self, steps=checked_count("steps", self.steps))

    @property
    def experiment(self) -> Experiment:
        """PC's experiment, in signed order."""
        return PredictionChange(steps=self.steps).experiment

    def score_range(self, largest_change: float) -> ScoreRange:
        """As far as the followed score can move, to both sides."""
        return ScoreRange() if math.isinf(largest_change) else ScoreRange(-largest_change, largest_change, certain=True)

    @property
    def known_limitations(self) -> str:
        """What it is blind to, a sentence."""
        return BLIND_TO_A_CONSTANT


@dataclass(frozen=True)
class Deletion(CurveView):
    """Deletion: area under the score as the most relevant features go first. Lower is better.

    The trapezoid rule over the share of removed features, from 0 to 1, as RISE has it.

    Args:
        steps: Number of perturbation steps.

    Example:
        >>> import verax
        >>> x = torch.randn(4, 6)
        >>> found = verax.evaluate(verax.Problem(torch.nn.Linear(6, 2), x), x, ["deletion", "insertion", "pc"])
        >>> found.rows == found["pc"].rows
        True
    """

    name: ClassVar[str] = "deletion"
    label: ClassVar[str] = "Deletion"
    asks: ClassVar[str] = "How fast does the score fall as the largest attributions go first?"
    higher_is_better: ClassVar[bool] = False
    citation: ClassVar[str] = "Petsiuk, Das, Saenko: RISE: randomized input sampling for explanation, BMVC 2018"

    def reduce(self, scores: GuidedScores) -> Float[Tensor, "k n"]:
        """Area under the MoRF curve."""
        return _trapezoids(scores.curves[:, :, 0], scores.points)


@dataclass(frozen=True)
class Insertion(CurveView):
    """Insertion: area under the score as the most relevant features come first, from the baseline on. Higher is better.

    With j features inserted, all but the j most relevant are removed: the LeRF curve, read backwards.

    Args:
        steps: Number of perturbation steps.
    """

    name: ClassVar[str] = "insertion"
    label: ClassVar[str] = "Insertion"
    asks: ClassVar[str] = "How fast does the score rise as the largest attributions come first?"
    higher_is_better: ClassVar[bool] = True
    citation: ClassVar[str] = "Petsiuk, Das, Saenko: RISE: randomized input sampling for explanation, BMVC 2018"

    def reduce(self, scores: GuidedScores) -> Float[Tensor, "k n"]:
        """Area under the LeRF curve."""
        return _trapezoids(scores.curves[:, :, 1], scores.points)


@dataclass(frozen=True)
class SymmetricRelevanceGain(CurveView):
    """Symmetric relevance gain (SRG): area under the LeRF curve less that under the MoRF curve. Higher is better.

    Every point counts alike; PC counts early ones more.

    Args:
        steps: Number of perturbation steps.
    """

    name: ClassVar[str] = "srg"
    label: ClassVar[str] = "SRG"
    asks: ClassVar[str] = "How far apart are the curves with the largest attributions first and last?"
    higher_is_better: ClassVar[bool] = True
    citation: ClassVar[str] = "Blücher, Vielhaben, Strodthoff: Decoupling pixel flipping and occlusion strategy, 2024"

    @property
    def chance(self) -> float | None:
        """In a random order both curves have the same mean."""
        return 0.0

    def reduce(self, scores: GuidedScores) -> Float[Tensor, "k n"]:
        """Difference of the two areas."""
        areas = [_trapezoids(scores.curves[:, :, curve], scores.points) for curve in (1, 0)]
        return areas[0] - areas[1]


@dataclass(frozen=True)
class ShareView(CurveView):
    """The drop of the score at some shares of the most relevant features, which go or which alone are left."""

    shares: tuple[float, ...] = (0.05, 0.1, 0.2, 0.5)

    alone: ClassVar[bool]
    citation: ClassVar[str] = "DeYoung et al.: ERASER: a benchmark to evaluate rationalized NLP models, ACL 2020"

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, shares=_checked_shares(self.shares))

    def reduce(self, scores: GuidedScores) -> Float[Tensor, "k n"]:
        """Mean drop along the MoRF curve, or along the LeRF curve, seen from its end."""
        curve = scores.curves[:, :, int(self.alone)]
        return curve[..., 0] - _at_shares(curve, scores.points, self.shares, from_end=self.alone)


@dataclass(frozen=True)
class Comprehensiveness(ShareView):
    """Comprehensiveness: drop of the score without the most relevant features. Higher is better.

    ``mean_q (s(x) - s(x without the first q of its features))`` over the ``shares`` q, each rounded up to a step.

    Args:
        steps: Number of perturbation steps; more of them, finer shares.
        shares: Shares of the features that go.
    """

    name: ClassVar[str] = "comprehensiveness"
    label: ClassVar[str] = "Comprehensiveness"
    asks: ClassVar[str] = "How much of the score is lost without the largest attributions?"
    higher_is_better: ClassVar[bool] = True
    alone: ClassVar[bool] = False


@dataclass(frozen=True)
class Sufficiency(ShareView):
    """Sufficiency: drop of the score with nothing but the most relevant features. Lower is better.

    ``mean_q (s(x) - s(the first q of its features alone))`` over the ``shares`` q, each rounded up to a step.

    Args:
        steps: Number of perturbation steps; more of them, finer shares.
        shares: Shares of the features that stay.
    """

    name: ClassVar[str] = "sufficiency"
    label: ClassVar[str] = "Sufficiency"
    asks: ClassVar[str] = "How much of the score is lost with the largest attributions alone?"
    higher_is_better: ClassVar[bool] = False
    alone: ClassVar[bool] = True


def _checked_shares(shares: Any) -> tuple[float, ...]:
    found = tuple(float(one) for one in shares)
    if not found or not all(0 < one < 1 for one in found):
        raise ValueError(f"shares: expected numbers between 0 and 1, at least one, got {shares!r}.")
    return found


def _trapezoids(curve: Float[Tensor, "k n points"], points: Int[Tensor, " n"]) -> Float[Tensor, "k n"]:
    """Area under each input's own part of a curve, whose width is 1."""
    own = torch.arange(curve.shape[-1], device=curve.device) < points[:, None]
    ends = curve[..., 0] + curve.gather(-1, (points - 1).expand(curve.shape[:-1])[..., None])[..., 0]
    return ((curve * own).sum(-1) - ends / 2) / (points - 1)


def _at_shares(
    curve: Float[Tensor, "k n points"], points: Int[Tensor, " n"], shares: tuple[float, ...], *, from_end: bool
) -> Float[Tensor, "k n"]:
    """Mean of a curve where so much of an input's features is gone, or is left."""
    steps = points - 1
    # a share of a whole number of steps is that number, whatever rounding made of it
    places = torch.stack([(share * steps.double() - 1e-9).ceil().long().clamp(min=1) for share in shares], dim=-1)
    places = steps[:, None] - places if from_end else places
    return curve.gather(-1, places.expand(len(curve), -1, -1)).mean(-1)
