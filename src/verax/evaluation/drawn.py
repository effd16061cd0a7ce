"""Replacements that are drawn: the guided experiment once for each draw, and means with their Monte-Carlo error."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from verax.core.shapes import Float
from verax.metrics.base import GuidedMetric, Metric
from verax.metrics.result import Context, GuidedResult, Result
from verax.perturbation.curve_lines import AdaptiveExperiment
from verax.perturbation.guided import GuidedScores, guided_scores
from verax.problem.attributed import Attributed, Task
from verax.scoring.session import Session


def repeats_of(metric: GuidedMetric, problem: Attributed) -> int:
    """How many times a metric's replacement is drawn."""
    return (metric.experiment.replacement or problem.replacement).repeats


def check_repeats(metrics: Mapping[str, Metric], problem: Attributed, limits: bool) -> None:
    """Refuse what is defined for one value of each removed feature alone, where they are drawn several times."""
    for name, metric in metrics.items():
        if isinstance(metric, GuidedMetric) and repeats_of(metric, problem) > 1:
            if isinstance(metric.experiment, AdaptiveExperiment):
                raise ValueError(
                    f"{name}: adaptive steps are for replacements that are not drawn; pass a number of steps."
                )
            if limits:
                raise ValueError(f"limits: {name} has a replacement that is drawn, whose limits are not known.")


class Drawn:
    """Scores of metrics whose removed features are drawn, draw by draw.

    Args:
        session: The model.
        task: Inputs and attributions.
        metrics: What is measured, by name; all are drawn equally often.
        repeats: How often.
    """

    def __init__(self, session: Session, task: Task, metrics: Mapping[str, GuidedMetric], repeats: int) -> None:
        experiments = list(dict.fromkeys(metric.experiment for metric in metrics.values()))
        self.metrics, self.repeats = metrics, repeats
        values: dict[str, list[Tensor]] = {name: [] for name in metrics}
        self.totals: dict[str, GuidedScores] = {}
        for draw in range(repeats):
            found = dict(zip(experiments, guided_scores(session, replace(task, draw=draw), experiments), strict=True))
            for name, metric in metrics.items():
                scores = found[metric.experiment]
                values[name].append(metric.reduce(scores))
                self.totals[name] = _added(self.totals[name], scores) if draw else scores
        self.values = {name: torch.stack(several) for name, several in values.items()}

    def results(self, context: Context) -> dict[str, Result]:
        """The result of each metric: means over draws, and how far other draws would move them."""
        found: dict[str, Result] = {}
        for name, metric in self.metrics.items():
            result = metric.result(_divided(self.totals[name], self.repeats), context)
            if isinstance(result, GuidedResult):
                spread = self.values[name].std(0) / self.repeats**0.5
                result = replace(result, scores=self.values[name].mean(0), draw_errors=spread)
            found[name] = result
        return found


def _added(first: GuidedScores, second: GuidedScores) -> GuidedScores:
    """Sums of the scores of two draws; steps are the same in all."""
    within = None if first.within is None or second.within is None else first.within + second.within
    return replace(first, curves=first.curves + second.curves, within=within)


def _divided(total: GuidedScores, count: int) -> GuidedScores:
    within: Float[Tensor, "..."] | None = None if total.within is None else total.within / count
    return replace(total, curves=total.curves / count, within=within)
