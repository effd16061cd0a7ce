"""A bench: the metrics that are tried on a subject with one replacement; explanations in, comparable scores out."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from verax.auditing.subject import Subject
from verax.core.shapes import Float
from verax.evaluation.engine import Call, check_repeats, follows_replacement, run
from verax.metrics.base import GuidedMetric, Metric, SampledMetric, all_draws
from verax.perturbation.sampled import check_sigma, check_subset
from verax.problem.attributed import Task, attributed
from verax.problem.problem import Problem
from verax.problem.replacement import Replacement

Scores = Mapping[str, Mapping[str, Float[Tensor, " n"]]]
"""By metric, then by explanation: one score per input, higher is better whatever the metric's own direction."""


@dataclass(frozen=True, eq=False)
class Bench:
    """Metrics on a subject.

    Attributes:
        subject: What they are tried on.
        metrics: By name.
        replacement: What removed features become, for metrics that do not say it themselves.
    """

    subject: Subject
    metrics: Mapping[str, Metric]
    replacement: Replacement

    def scores(self, explanations: Mapping[str, Float[Tensor, "n features"]], problem: Problem | None = None) -> Scores:
        """Score explanations with all metrics in one pass, so that they share draws and model rows.

        Args:
            explanations: One number per input and feature, by name.
            problem: Other rows to score them on, as many and of the same features; the subject's own by default.
        """
        asked = (problem or self.subject.problem).with_replacement(self.replacement)
        plain = {name: self.subject.shaped(values) for name, values in explanations.items()}
        evaluation = run(Call(attributed(asked, plain), self.metrics))
        return {
            name: dict(zip(explanations, _upwards(evaluation[name].scores, metric), strict=True))
            for name, metric in self.metrics.items()
        }

    def at(self, rows: slice) -> "Bench":
        """The same with some of the inputs."""
        return replace(self, subject=self.subject.at(rows))


def _upwards(scores: Float[Tensor, "k n"], metric: Metric) -> Float[Tensor, "k n"]:
    values = scores.double().cpu()
    return values if metric.higher_is_better else -values


def own_replacement(metric: Metric) -> str:
    """What a metric does to features whatever the call says; empty where it removes them as the call says."""
    if follows_replacement(metric):
        return ""
    own = metric.experiment.replacement if isinstance(metric, GuidedMetric) else None
    return "noise" if own is None else own.short_form


def unfit(replacement: Replacement, subject: Subject) -> str:
    """Why a replacement is not for these inputs, asked of their first row; empty where it is."""
    asked = subject.asked(replacement)
    task = Task(asked, subject.problem.classes, subject.problem.scores())
    try:
        rows = task.context(slice(0, 1), asked.inputs.device)
        removed = None
        if replacement.setwise:  # one element stays, since some look at what is left
            removed = torch.ones_like(rows.values, dtype=torch.bool)
            removed.reshape(-1)[0] = False
        task.moves.fill(rows, removed)
    except (ValueError, TypeError) as error:  # what replacements raise for inputs that they are not for
        return str(error)
    return ""


def refusal(metric: Metric, subject: Subject, replacement: Replacement) -> str:
    """Why a metric cannot be measured on a subject, asked as every call asks it before the model runs; or nothing."""
    asked = subject.asked(replacement)
    try:
        for draws in all_draws(metric) if isinstance(metric, SampledMetric) else ():
            check_subset(draws, asked)
            check_sigma(draws, asked)
        check_repeats({metric.name: metric}, asked, limits=False)
    except ValueError as error:  # what these three say; nothing else runs here
        return str(error)
    return metric.unsupported_reason(asked)
