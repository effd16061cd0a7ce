"""The names under which others know the guided experiment: views of PC's curves, from the same model rows.

Deletion and insertion (Petsiuk et al.) are the areas under the MoRF curve and under the LeRF curve read backwards; the
symmetric relevance gain (Blücher et al.) is their difference; comprehensiveness and sufficiency (DeYoung et al.) look
at the scores without, and with nothing but, the most relevant features.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from verax.core.arguments import checked_count, settle
from verax.core.shapes import Float
from verax.metrics.base import GuidedMetric, Kind
from verax.metrics.prediction_change import BLIND_TO_A_CONSTANT, PredictionChange
from verax.perturbation.guided import GuidedScores
from verax.perturbation.removed_sets import Experiment
from verax.statistics.anytime import ScoreRange

Shares = tuple[float | int, ...] | float | int | Literal["every"]


@dataclass(frozen=True)
class CurveView(GuidedMetric):
    """A weighted sum of the points of the curves of PC's own experiment."""

    steps: int = 20

    kind: ClassVar[Kind] = "baseline"

    def __post_init__(self) -> None:
        settle(self, steps=checked_count("steps", self.steps))

    @property
    def experiment(self) -> Experiment:
        """PC's experiment, in signed order."""
        return PredictionChange(steps=self.steps).experiment

    def score_range(self, largest_change: float) -> ScoreRange:
        """As far as the tracked score can move, to both sides."""
        return ScoreRange() if math.isinf(largest_change) else ScoreRange(-largest_change, largest_change, certain=True)

    @property
    def known_limitations(self) -> str:
        return BLIND_TO_A_CONSTANT

    @abstractmethod
    def weights(self, points: int) -> Float[Tensor, "2 points"]:
        """What each point of the MoRF and of the LeRF curve counts."""

    def reduce(self, scores: GuidedScores) -> Float[Tensor, "k n"]:
        """The weighted sum of each input's own points."""
        curves = scores.curves
        weights = curves.new_zeros((len(scores.points), *curves.shape[2:]))
        for points in set(scores.points.tolist()):
            weights[scores.points == points, :, :points] = self.weights(points).to(curves)
        return (curves * weights).flatten(2).sum(-1)


@dataclass(frozen=True)
class Deletion(CurveView):
    """Deletion: area under the score as the most relevant features go first. Lower is better.

    The trapezoid rule over the share of removed features, from 0 to 1, as RISE has it.

    Args:
        steps: Number of perturbation steps.

    Example:
        >>> import verax
        >>> x = torch.randn(4, 6)
        >>> results = verax.evaluate(verax.Problem(torch.nn.Linear(6, 2), x), x, ["deletion", "insertion", "pc"])
        >>> results.rows == results["pc"].rows
        True
    """

    name: ClassVar[str] = "deletion"
    label: ClassVar[str] = "Deletion"
    asks: ClassVar[str] = "How fast does the score fall as the largest attributions go first?"
    higher_is_better: ClassVar[bool] = False
    citation: ClassVar[str] = "Petsiuk, Das, Saenko: RISE: randomized input sampling for explanation, BMVC 2018"

    def weights(self, points: int) -> Float[Tensor, "2 points"]:
        """Those of the area under the MoRF curve."""
        area = _trapezoids(points)
        return torch.stack((area, torch.zeros_like(area)))


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

    def weights(self, points: int) -> Float[Tensor, "2 points"]:
        """Those of the area under the LeRF curve."""
        area = _trapezoids(points)
        return torch.stack((torch.zeros_like(area), area))


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

    def weights(self, points: int) -> Float[Tensor, "2 points"]:
        """Those of the difference of the two areas."""
        area = _trapezoids(points)
        return torch.stack((-area, area))


@dataclass(frozen=True)
class ShareView(CurveView):
    """The drop of the score at some shares of the most relevant features, which go or which alone are left."""

    shares: Shares = (0.05, 0.1, 0.2, 0.5)

    citation: ClassVar[str] = "DeYoung et al.: ERASER: a benchmark to evaluate rationalized NLP models, ACL 2020"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shares == "every":
            return
        listed = () if isinstance(self.shares, str) else self.shares
        shares = tuple(float(share) for share in (listed if isinstance(listed, Iterable) else (listed,)))
        if not shares or not all(0 < share <= 1 for share in shares):
            raise ValueError(f'shares: expected numbers above 0 and at most 1, or "every", got {self.shares!r}.')
        settle(self, shares=shares)

    @property
    @abstractmethod
    def alone(self) -> bool:
        """Whether the shares are what is left; otherwise they go."""

    def weights(self, points: int) -> Float[Tensor, "2 points"]:
        """1 for the unperturbed point, and what makes the mean of the others negative."""
        weights, steps = torch.zeros(2, points, dtype=torch.float64), points - 1
        places = list(range(1, points))  # where so much of an input's features is gone, or is left
        if isinstance(self.shares, tuple):  # a number has become one
            # a share of a whole number of steps is that number, whatever rounding made of it
            gone = [max(1, math.ceil(share * steps - 1e-9)) for share in self.shares]
            places = [steps - place for place in gone] if self.alone else gone
        for place in places:
            weights[int(self.alone), place] -= 1 / len(places)
        weights[int(self.alone), 0] += 1
        return weights


@dataclass(frozen=True)
class Comprehensiveness(ShareView):
    """Comprehensiveness: drop of the score without the most relevant features. Higher is better.

    ``mean_q (s(x) - s(x without the first q of its features))`` over the ``shares`` q, each rounded up to a step.

    Args:
        steps: Number of perturbation steps; more of them, finer shares.
        shares: Shares of the features that go; ``"every"`` for each step, 1 to all: the area over the perturbation
            curve (AOPC).
    """

    name: ClassVar[str] = "comprehensiveness"
    label: ClassVar[str] = "Comprehensiveness"
    asks: ClassVar[str] = "How much of the score is lost without the largest attributions?"
    higher_is_better: ClassVar[bool] = True
    alone: ClassVar[bool] = False  # the property of the base


@dataclass(frozen=True)
class Sufficiency(ShareView):
    """Sufficiency: drop of the score with nothing but the most relevant features. Lower is better.

    ``mean_q (s(x) - s(the first q of its features alone))`` over the ``shares`` q, each rounded up to a step.

    Args:
        steps: Number of perturbation steps; more of them, finer shares.
        shares: Shares of the features that stay; ``"every"`` for each step, none to all but one: the AOPC of the
            least relevant features first.
    """

    name: ClassVar[str] = "sufficiency"
    label: ClassVar[str] = "Sufficiency"
    asks: ClassVar[str] = "How much of the score is lost with the largest attributions alone?"
    higher_is_better: ClassVar[bool] = False
    alone: ClassVar[bool] = True  # the property of the base


def _trapezoids(points: int) -> Float[Tensor, " points"]:
    """Weights of the area under a curve whose width is 1."""
    weights = torch.full((points,), 1 / (points - 1), dtype=torch.float64)
    weights[[0, -1]] /= 2
    return weights
