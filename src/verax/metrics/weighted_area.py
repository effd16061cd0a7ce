"""Weighted areas: what Prediction Change, Directed Prediction Change and their local sister make of their curves."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from verax.core.arguments import checked_choice, checked_count, checked_positive, settle
from verax.core.blocks import pieces
from verax.core.shapes import Bool, Float
from verax.core.warn import warn
from verax.metrics import areas
from verax.metrics.base import GuidedMetric, Kind
from verax.metrics.result import Context, GuidedResult
from verax.perturbation.adaptive import AdaptiveScores
from verax.perturbation.adaptive_curves import ONE_EACH, AdaptiveExperiment, Signing
from verax.perturbation.block import Order
from verax.perturbation.guided import GuidedScores
from verax.perturbation.removed_sets import Area, Experiment, Rule
from verax.perturbation.sampled import all_categories
from verax.problem.attributed import Attributed
from verax.problem.replacement import Replacement, checked_replacement
from verax.statistics.anytime import ScoreRange

Curve = Literal["cumulative", "increments"]
Reading = Literal["magnitude", "signed", "literal"]
Steps = int | Literal["adaptive"]
AnyScores = GuidedScores | AdaptiveScores
_CHOICES = {"curve": ("cumulative", "increments"), "area": ("between", "morf")}  # of settings that not all have
_MANY_MIXED = 0.1  # of all steps: a few that hold two features move a score by less than its standard error
_TOGETHER = 1 << 18  # points of curves that are reduced at once


class WeightedArea(GuidedMetric):
    """The weighted area between the LeRF and the MoRF curve, whose steps may be directed: what PC and DPC share.

    With ``area="morf"`` it is the one between the unperturbed level and the MoRF curve.
    """

    steps: Steps
    tolerance: float
    higher_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if hasattr(self, name):
                checked_choice(name, getattr(self, name), choices)
        checked_replacement(getattr(self, "replacement", None))
        settle(self, steps=checked_steps(self.steps), tolerance=checked_positive("tolerance", self.tolerance))

    @property
    def form(self) -> Curve:
        """Whether changes are summed up along a curve."""
        return getattr(self, "curve", "cumulative")

    @property
    def signing(self) -> Signing:
        """The sign put on the change of each feature."""
        return "none"

    def in_steps(
        self, order: Order, rule: Rule, area: Area, replacement: Replacement | None, tolerance: float
    ) -> Experiment:
        """The experiment in the metric's steps: as many as it says, or chosen until the error is small enough."""
        if self.steps != "adaptive":
            return Experiment(order, self.steps, rule, area, replacement, sums=False)
        guided_rule: Rule = "dot" if rule == "coherent" else rule  # equal for one feature
        return AdaptiveExperiment(
            order, ONE_EACH, guided_rule, area, replacement, self.signing, self.form, tolerance, sums=False
        )

    @property
    def version(self) -> int:
        """Adaptive steps are refined further than in versions 1 and 2; fixed ones are what they were."""
        return 3 if self.steps == "adaptive" else 1

    @property
    def chance(self) -> float | None:
        """In a random order both curves have the same mean; one curve alone falls in any order."""
        return 0.0 if self.experiment.area == "between" else None

    def score_range(self, largest_change: float) -> ScoreRange:
        """As far as the tracked score can move, to both sides.

        That is certain of scores along a curve. Directed steps may add up to more, where the score goes up and down
        again; so may increments of two curves, and what adaptive steps estimate.
        """
        if math.isinf(largest_change):
            return ScoreRange()
        certain = self.signing == "none" and self.form == "cumulative" and self.steps != "adaptive"
        return ScoreRange(-largest_change, largest_change, certain)

    def changes(self, scores: AnyScores, which: slice) -> Float[Tensor, "k n curves steps"]:
        """The change of each step."""
        return (scores.directed if isinstance(scores, AdaptiveScores) else scores.curves)[which].diff(dim=-1)

    def curves(self, scores: AnyScores, which: slice) -> Float[Tensor, "k n curves points"]:
        """The curves of some attributions: the scores themselves, or their changes, summed up or as they are."""
        if self.signing == "none" and self.form == "cumulative":
            return scores.curves[which]
        start, changes = scores.curves[which, ..., :1], self.changes(scores, which)
        if self.form == "increments":
            return torch.cat((torch.zeros_like(start), changes), dim=-1)
        return torch.cat((start, changes), dim=-1).cumsum(-1)

    def weights(self, points: int) -> Float[Tensor, "curves points"]:
        """What each point counts, of directed curves where steps are directed."""
        decay = areas.decay_weights(torch.empty(points, dtype=torch.float64))
        decay = decay / decay[1:].sum()
        if self.form == "increments":  # a change is the difference of two points
            decay = decay.where(torch.arange(points) > 0, 0.0)
            decay = decay - torch.cat((decay[1:], decay.new_zeros(1)))
        if self.experiment.area == "between":
            return torch.stack((-decay, decay))
        return torch.cat((decay[1:].sum()[None], -decay[1:]))[None]

    def reduce(self, scores: AnyScores) -> Float[Tensor, "k n"]:
        """The weighted area, some attributions at a time to bound memory."""
        if isinstance(scores, AdaptiveScores):
            return scores.value.clone()
        values = []
        for which in pieces(len(scores.curves), max(1, _TOGETHER // scores.curves[0].numel())):
            curves = self.curves(scores, which)
            morf = curves[:, :, 0]
            upper = curves[:, :, 1] if self.experiment.area == "between" else morf[..., :1].expand_as(morf)
            values.append(areas.weighted_abpc(upper, morf, scores.points))
        return torch.cat(values)

    def result(self, scores: AnyScores, context: Context) -> "PredictionChangeResult":
        """The result of all inputs, with its curves and further areas."""
        if isinstance(scores, AdaptiveScores):
            return AdaptiveResult(self, context, self.reduce(scores), scores)
        return PredictionChangeResult(self, context, self.reduce(scores), scores)


class DirectedArea(WeightedArea):
    """A weighted area whose steps count with the direction that an attribution gives them: what DPC and LPC share."""

    kind: ClassVar[Kind] = "local"

    @property
    @abstractmethod
    def reading(self) -> Reading:
        """How features are ordered, and where the sign of an attribution counts."""

    @property
    def signing(self) -> Signing:
        return self.reading

    @property
    def chance(self) -> float | None:
        """0, except where one curve alone is read and signs are in the order already."""
        return 0.0 if self.reading == "magnitude" else super().chance

    def unsupported_reason(self, problem: Attributed) -> str:
        """What has no direction: codes, and features that become what the others make of them."""
        moves = self.experiment.replacement or problem.replacement
        _, gaps = _undirected(problem).values()
        why = ""
        if moves.setwise:
            why = (
                f"with {type(moves).__name__} what a feature becomes depends on what else goes, so it has no direction "
                f"(x - baseline) for {self.label} to follow; use PC, or another replacement."
            )
        elif all_categories(problem.given):
            why = (
                f"categorical inputs have no direction (x - baseline), so {self.label} would be 0; use PC, or, for "
                "tokens, explain their embeddings."
            )
        elif gaps is not None and bool(gaps.all()):
            why = (
                f"baselines: all are NaN, which is in no direction (x - baseline), so {self.label} would be 0; use PC, "
                "or other baselines."
            )
        return why and f"{self.name}: {why}"

    def check(self, problem: Attributed) -> None:
        """Say which features count 0, because categories and what is missing have no direction."""
        super().check(problem)
        names = problem.given.names or tuple(map(str, range(problem.features.most)))
        for what, elements in _undirected(problem).items():
            if elements is not None and bool(elements.any()):
                features = problem.features.reduce(elements[None].double(), slice(0, 1))[0].nonzero()[:, 0].tolist()
                listed = ", ".join(names[feature] for feature in features)
                warn(f"{self.label} counts 0 for features that {what}: {listed}. PC and baseline Infidelity see them.")

    def weights(self, points: int) -> Float[Tensor, "curves points"]:
        """Those of an undirected area, on curves of directed changes."""
        return super().weights(points)

    def changes(self, scores: AnyScores, which: slice) -> Float[Tensor, "k n curves steps"]:
        """The directed change of each step."""
        if isinstance(scores, AdaptiveScores):
            return super().changes(scores, which)
        curves = scores.curves[which]
        if scores.within is not None:
            fallen, risen = scores.within[which].unbind(-1)
            return (fallen - curves[..., :-1]) - (risen - fallen)
        if scores.predicted_sign is not None:
            return scores.predicted_sign[which].to(curves) * curves.diff(dim=-1)
        attribution, direction = scores.attribution_sign[which], scores.direction_sign[which]
        sign = attribution.abs() if self.reading == "signed" else attribution
        return sign.to(curves) * direction * curves.diff(dim=-1)


def _undirected(problem: Attributed) -> dict[str, Bool[Tensor, "*shape"] | None]:
    """Which elements of a row have no direction, and why: categories, and those that become NaN whatever the input."""
    return {
        "are categorical and have no direction": problem.given.codes,
        "become NaN, which is in no direction": problem.baselines.isnan().all(0) if problem.given.missing else None,
    }


@dataclass(frozen=True, repr=False)
class PredictionChangeResult(GuidedResult):
    """PC, DPC or LPC: ``value`` is the weighted area between the curves, or above one; higher is better."""

    @property
    def caution(self) -> str:
        """Of directed changes: how many steps mix features that are predicted to lower the score and to raise it."""
        mixed = getattr(self.guided, "mixed", None)
        if mixed is None or not isinstance(self.metric, DirectedArea):
            return ""
        curves, steps = self.guided.curves, (self.guided.points - 1).sum()
        count, total = int(mixed.sum()), int(steps) * curves.shape[0] * curves.shape[2]
        if count <= _MANY_MIXED * total:
            return ""
        other = "" if self.metric.reading == "literal" else 'rule="coherent" or '
        return (
            f"{count:,} of {total:,} steps remove features whose predicted changes conflict, so scores and ranking "
            f"depend on the number of steps; use {other}more steps."
        )

    @property
    def directed_morf(self) -> Any:
        """The MoRF curve that ``value`` comes from: for PC the scores, for DPC with every change signed."""
        return self._pack(self.curves()[:, :, 0])

    @property
    def directed_lerf(self) -> Any:
        """The LeRF curve that ``value`` comes from."""
        return self._pack(self._upper())

    @property
    def aupc_morf(self) -> Any:
        """Area under the MoRF curve of each input; lower is better."""
        return self._pack(areas.aupc(self.curves()[:, :, 0], self.guided.points))

    @property
    def aupc_lerf(self) -> Any:
        """Area under the LeRF curve of each input; higher is better."""
        return self._pack(areas.aupc(self._upper(), self.guided.points))

    @property
    def abpc(self) -> Any:
        """Area between the curves of each input, every point alike; higher is better."""
        return self._pack(areas.abpc(self._upper(), self.curves()[:, :, 0], self.guided.points))

    @property
    def pes(self) -> Any:
        """Perturbation Effect Size over the data set, one number per attribution."""
        return self._arrange(areas.pes(self.scores).tolist())

    @property
    def cmi(self) -> Any:
        """Consistency-Magnitude Index over the data set, one number per attribution."""
        return self._arrange(areas.cmi(self.scores).tolist())

    @property
    def curve_name(self) -> str:
        score = self.context.score
        directed = f"directed {score}" if isinstance(self.metric, DirectedArea) else score
        return f"change of the {directed}" if self.metric.form == "increments" else directed

    def curves(self, which: slice = slice(None)) -> Float[Tensor, "k n curves points"]:
        """The MoRF and LeRF curves of some attributions that ``value`` comes from."""
        curves: Tensor = self.metric.curves(self.guided, which)
        return curves

    def _upper(self) -> Float[Tensor, "k n points"]:
        self.check_lerf()
        return self.curves()[:, :, 1]

    def _further_columns(self) -> dict[str, list[float]]:
        return {"PES": areas.pes(self.scores).tolist(), "CMI": areas.cmi(self.scores).tolist()}


@dataclass(frozen=True, repr=False)
class AdaptiveResult(PredictionChangeResult):
    """The result of ``steps="adaptive"``: ``value`` estimates the score at one feature per step.

    Curves, and the areas under them, are shown in 20 steps, interpolated between the points that were scored.
    """

    guided: AdaptiveScores

    @property
    def error(self) -> Any:
        """How far ``value`` may be from the score at one feature per step; 0 where every feature had its own step.

        It is an estimate from the points that were scored. It held for at least 95 of 100 inputs of every network
        with continuous activations, forest, boosted or single tree and neighbours model measured
        (``docs/open-questions.md``). It does not promise that for curves that are level almost everywhere and jump,
        such as those of networks with sign activations or hard thresholds: there it held for as few as 92 of 100 with
        PC, and of 784 features with LPC for 45 and with DPC for 26 (``benchmarks/sign_activations.py``).
        A curve that is level at every point that was scored gets an error of 0, whatever it does between them. For
        such models take one feature per step (``steps`` of at least the number of features).
        """
        return self._pack(self.guided.error.clone())

    @property
    def steps_used(self) -> Any:
        """Steps of each input's curves, of the one that took more of them."""
        return self._pack(self.guided.steps_used.clone())

    def _columns(self) -> dict[str, Float[Tensor, "k n"]]:
        return super()._columns() | {"_error": self.guided.error}


def checked_steps(steps: Any) -> Steps:
    """Read a number of steps, or the word for those that are chosen."""
    if steps == "adaptive":
        return "adaptive"
    if isinstance(steps, str):
        raise ValueError(f'steps: expected a whole number of at least 1, or "adaptive", got {steps!r}.')
    return checked_count("steps", steps)
