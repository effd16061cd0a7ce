"""A model with inputs and explanations on which metrics are tried, and the scores that they give there."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from verax.attribution.base import Attribution
from verax.auditing.known_truth.base import Case, Truth
from verax.core import noise
from verax.core.shapes import Float, Int, Shaped
from verax.evaluation.engine import Call, check_repeats, follows_replacement, run
from verax.metrics.base import GuidedMetric, Kind, Metric, SampledMetric, all_draws
from verax.perturbation.sampled import check_sigma, check_subset
from verax.problem.attributed import Attributed, Task, attributed
from verax.problem.features import Grid
from verax.problem.problem import Problem
from verax.problem.replacement import Replacement
from verax.scoring.class_scores import ClassNumbers

KINDS: tuple[Kind, ...] = ("local", "baseline")
Explanation = Float[Tensor, "n features"]  # one number for each feature of each input


@dataclass(frozen=True, eq=False)
class AuditedProblem:
    """What metrics are tried on."""

    name: str  # what it is called in tables
    problem: Problem  # the model, the rows, and the class of each
    truths: Mapping[Kind, Truth] = field(default_factory=dict)  # the true explanation of each kind, where it is known
    # explanations: what somebody wants to rate, by name: one number per feature
    explanations: Mapping[str, Explanation] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)  # what each of them is about, where that is known
    # methods: how explanations of each kind are computed anew, for a model that was changed
    methods: Mapping[Kind, Attribution] = field(default_factory=dict)
    # facts: of a user's model: which it is, the tracked class, the baseline and the date, in words
    facts: Mapping[str, str] = field(default_factory=dict)
    # explained: what those methods gave for the model and for changed ones, by what was changed
    explained: dict[tuple[Any, ...], Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.problem)

    def rated(self, replacement: Replacement | None) -> Attributed:
        """The problem with attributions of 0, and with what removed features become."""
        return attributed(self.problem, torch.zeros(()).expand(self.problem.inputs.shape), replacement)

    @property
    def values(self) -> Shaped[Tensor, "n *shape"]:
        return self.problem.inputs.cpu()

    @cached_property
    def counts(self) -> Int[Tensor, " n"]:
        """Features of each input."""
        return self.problem.features.counts(slice(None)).cpu().expand(len(self))

    @property
    def features(self) -> int:
        return self.problem.features.most

    @cached_property
    def away(self) -> Explanation | None:
        """How far each feature is from its baseline; None where features are codes or have several elements."""
        given = self.problem.given
        if given.codes is not None or given.missing or self.values[0].numel() != self.features:
            return None
        return given.features.reduce((given.values - given.baselines).double(), slice(None)).cpu()

    def keys(self, seed: int, purpose: str) -> Int[Tensor, " n"]:
        """A key for each input, for draws that depend on it alone."""
        return noise.input_keys(self.values, seed, f"audit/{purpose}")

    def shaped(self, explanation: Explanation) -> Float[Tensor, "n *rest"]:
        """One number per feature, in a shape that metrics take."""
        features = self.problem.features
        if isinstance(features, Grid):
            return explanation.reshape(len(explanation), *features.cell)
        return features.spread_out(explanation)

    def at(self, rows: slice) -> "AuditedProblem":
        return replace(
            self,
            problem=self.problem[rows],
            truths={kind: replace(truth, attribution=truth.attribution[rows]) for kind, truth in self.truths.items()},
            explanations={name: values[rows] for name, values in self.explanations.items()},
        )


@dataclass(frozen=True, eq=False)
class AuditContext:
    """A subject as metrics of one kind see it."""

    subject: AuditedProblem  # what they are tried on
    kind: Kind  # the kind of explanations that they rate
    truth: Explanation | None  # the true explanation, if it is known
    seed: int  # of all draws
    level: float  # coverage of the intervals

    @property
    def anchors(self) -> Mapping[str, Explanation]:
        """Explanations to start from: the truth, or those that were given, unless they are of the other kind."""
        if self.truth is not None:
            return {"truth": self.truth}
        explanations, kinds = self.subject.explanations, self.subject.kinds
        of_kind = {name: values for name, values in explanations.items() if kinds.get(name, self.kind) == self.kind}
        return of_kind or explanations


def case_subject(case: Case, methods: Mapping[Kind, Attribution]) -> AuditedProblem:
    truths = {kind: truth for kind in KINDS if (truth := case.truth(kind)) is not None}
    problem = case.problem.with_target(ClassNumbers(case.problem.classes))
    return AuditedProblem(case.name, problem, truths, methods=methods if problem.scorer.differentiable else {})


Scores = Mapping[str, Mapping[str, Float[Tensor, " n"]]]
"""By metric, then by explanation: one score per input, higher is better whatever the metric's own direction."""


@dataclass(frozen=True, eq=False)
class Bench:
    """Metrics on a subject."""

    subject: AuditedProblem  # what they are tried on
    metrics: Mapping[str, Metric]  # by name
    replacement: Replacement  # what removed features become, for metrics that do not say it themselves

    def scores(self, explanations: Mapping[str, Explanation], problem: Problem | None = None) -> Scores:
        """Score explanations with all metrics in one pass, so that they share draws and model rows."""
        moved = (problem or self.subject.problem).with_replacement(self.replacement)
        plain = {name: self.subject.shaped(values) for name, values in explanations.items()}
        evaluation = run(Call(attributed(moved, plain), self.metrics))
        scores = {
            name: (1 if metric.higher_is_better else -1) * evaluation[name].scores.double().cpu()
            for name, metric in self.metrics.items()
        }
        return {name: dict(zip(explanations, values, strict=True)) for name, values in scores.items()}

    def at(self, rows: slice) -> "Bench":
        return replace(self, subject=self.subject.at(rows))


def replacement_of(metric: Metric) -> str:
    """What a metric does to features whatever the call says; empty where it removes them as the call says."""
    if follows_replacement(metric):
        return ""
    replacement = metric.experiment.replacement if isinstance(metric, GuidedMetric) else None
    return "noise" if replacement is None else replacement.short_form


def unsupported_replacement(replacement: Replacement, subject: AuditedProblem) -> str:
    """Why a replacement is not for these inputs, tried on their first row; empty where it is."""
    moved = subject.rated(replacement)
    task = Task(moved, subject.problem.classes, subject.problem.scores())
    try:
        rows = task.context(slice(0, 1), moved.inputs.device)
        removed = None
        if replacement.setwise:  # one element stays, since some look at what is left
            removed = torch.ones_like(rows.values, dtype=torch.bool)
            removed.reshape(-1)[0] = False
        task.moves.fill(rows, removed)
    except (ValueError, TypeError) as error:  # what replacements raise for inputs that they are not for
        return str(error)
    return ""


def unsupported_reason(metric: Metric, subject: AuditedProblem, replacement: Replacement) -> str:
    """Why a metric cannot be measured on a subject, by the checks of every call before the model runs; or nothing."""
    moved = subject.rated(replacement)
    try:
        for draws in all_draws(metric) if isinstance(metric, SampledMetric) else ():
            check_subset(draws, moved)
            check_sigma(draws, moved)
        check_repeats({metric.name: metric}, moved, limits=False)
    except ValueError as error:  # what these three say; nothing else runs here
        return str(error)
    return metric.unsupported_reason(moved)
