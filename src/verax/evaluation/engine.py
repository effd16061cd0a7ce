"""Runs what metrics need: the unperturbed inputs once, one guided pass, and each distinct set of random draws once."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import torch
from torch import Tensor

from verax.core.shapes import Float
from verax.core.warn import warn
from verax.evaluation.diagnostics import (
    other_references,
    sure_share,
    warn_of_other_class,
    warn_of_saturation,
    warn_of_scales,
)
from verax.evaluation.result import Evaluation, Saturation
from verax.metrics.about import About, class_counts, text_examples
from verax.metrics.base import AttributionMetric, GuidedMetric, Metric, SampledMetric, all_draws
from verax.metrics.result import Context, GuidedResult, Result
from verax.metrics.weighted_area import DirectedArea
from verax.perturbation.adaptive import adaptive_scores
from verax.perturbation.adaptive_curves import AdaptiveExperiment
from verax.perturbation.guided import GuidedScores, guided_scores
from verax.perturbation.removed_sets import Experiment
from verax.perturbation.sampled import Draws, Gathered, check_sigma, check_subset, sampled_effects
from verax.problem.attributed import Attributed, Task
from verax.problem.problem import Problem
from verax.problem.replacement import Baseline, Replacement
from verax.problem.replacement.words import needs_background
from verax.scoring.adapters import Adapter, model_name
from verax.scoring.class_scores import Output
from verax.scoring.meter import Cost, Meter
from verax.scoring.session import Session

_MANY = 0.05  # of the inputs, from which it matters that the model is sure of them


class Call(NamedTuple):
    """What is measured, once or under several replacements: what ``engine.run`` takes."""

    rated: Attributed  # the problem and its attributions
    metrics: Mapping[str, Metric]  # what is measured, by the names of results
    spent: Cost = Cost()  # what the methods among the attributions cost

    def under(self, replacement: Replacement) -> "Call":
        """The same under another replacement, for those metrics that it makes a difference to and that can take it."""
        rated = attributed_again(self.rated, replacement)
        metrics = {
            name: metric
            for name, metric in self.metrics.items()
            if follows_replacement(metric) and not metric.unsupported_reason(rated)
        }
        return Call(rated, metrics)


def attributed_again(rated: Attributed, replacement: Replacement) -> Attributed:
    """The same attributions with something else in the place of removed features."""
    return replace(rated, replacement=replacement)


def follows_replacement(metric: Metric) -> bool:
    """Whether a metric removes features as its problem says; others add noise, or bring a replacement of their own."""
    if isinstance(metric, GuidedMetric):
        return metric.experiment.replacement is None
    return isinstance(metric, SampledMetric) and any(draws.perturbation == "baseline" for draws in all_draws(metric))


def run(call: Call, saturation: bool = False) -> Evaluation:
    """Score the unperturbed rows, then run the guided pass and each sampled experiment that some metric needs."""
    check_call(call)
    rated, metrics = call.rated, call.metrics
    guided = {name: metric for name, metric in metrics.items() if isinstance(metric, GuidedMetric)}
    sampled = {name: metric for name, metric in metrics.items() if isinstance(metric, SampledMetric)}
    alone = {name: metric for name, metric in metrics.items() if isinstance(metric, AttributionMetric)}
    for metric in metrics.values():
        metric.check(rated)
    warn_of_scales(rated, metrics)
    for words in dict.fromkeys(words for metric in metrics.values() for words in metric.cautions):
        warn(words)
    meter = Meter(rated.problem.scorer.counts)
    with rated.problem.session() as session:
        task = Task(rated, *rated.problem.begin(session), session.score_name)
        share = sure_share(task, session) if saturation and sampled else 0.0
        if share < _MANY:
            warn_of_saturation(task, session)
        elif session.returns == "logits":
            task = replace(task, logits=rated.problem.clean_logits(session))
        first = meter.read(session.device)
        results: dict[str, Result] = {}
        on_logits: dict[str, Result] = {}
        if guided:
            results |= _run_guided(session, task, guided, meter, first)
        if sampled:
            probable, on_logits = _run_sampled(session, task, sampled, meter, first)
            results |= probable
        if alone:
            results |= _run_alone(session, task, alone)
        for name, result in results.items():
            _check_scores(metrics[name], result.scores, rated)
        notes = (*rated.remarks, *other_references(task, session, results))
    results = {name: result.with_notes(notes) for name, result in results.items()}
    warn_of_other_class(task, session, results)
    sure = None if share < _MANY else Saturation(share, on_logits)
    in_order = {name: results[name] for name in metrics}
    return Evaluation(in_order, call.spent + meter.total(), call=call, saturation=sure)


def check_call(call: Call) -> None:
    """Raise for a call that ``run`` cannot measure; the attributions do not matter."""
    _check_draws(call.rated, call.metrics)
    check_repeats(call.metrics, call.rated, limits=False)
    for metric in call.metrics.values():
        if words := metric.unsupported_reason(call.rated):
            raise ValueError(words)
    _check_replacements(call.rated, call.metrics)


def _check_replacements(problem: Attributed, metrics: Mapping[str, Metric]) -> None:
    """Raise where removed features become values of training data and there are none."""
    for metric in metrics.values():
        if isinstance(metric, GuidedMetric):
            moves = metric.experiment.replacement or problem.replacement
        elif isinstance(metric, SampledMetric) and any(draws.perturbation == "baseline" for draws in all_draws(metric)):
            moves = problem.replacement
        else:
            continue
        if problem.background is None and needs_background(moves):
            raise ValueError(
                f"replacement: {type(moves).__name__} takes values of other rows; pass background=train_inputs as well."
            )


def _check_draws(problem: Attributed, metrics: Mapping[str, Metric]) -> None:
    for metric in metrics.values():
        if not isinstance(metric, SampledMetric):
            continue
        name = "subset" if hasattr(metric, "subset") else "sizes"
        for draws in all_draws(metric):
            check_subset(draws, problem, name)
            check_sigma(draws, problem)


def _run_guided(
    session: Session, task: Task, metrics: dict[str, GuidedMetric], meter: Meter, first: Cost
) -> dict[str, Result]:
    repeats = {name: repeats_of(metric, task.problem) for name, metric in metrics.items()}
    drawn = [
        RepeatedDraws(session, task, {name: metrics[name] for name in metrics if repeats[name] == count}, count)
        for count in dict.fromkeys(repeats.values())
        if count > 1
    ]
    metrics = {name: metric for name, metric in metrics.items() if repeats[name] == 1}
    experiments = list(dict.fromkeys(metric.experiment for metric in metrics.values()))
    adaptive = [experiment for experiment in experiments if isinstance(experiment, AdaptiveExperiment)]
    fixed = [experiment for experiment in experiments if experiment not in adaptive]
    scores: dict[Experiment, Any] = dict(zip(fixed, guided_scores(session, task, fixed), strict=True))
    scores |= adaptive_scores(session, task, adaptive)
    cost = first + meter.read(session.device)
    with torch.inference_mode(False):  # results are plain tensors, fit for whatever the user does next
        context = _context(session, task, cost)
        results = {name: metric.result(scores[metric.experiment], context) for name, metric in metrics.items()}
        return results | {name: result for repeated in drawn for name, result in repeated.results(context).items()}


def _run_sampled(
    session: Session, task: Task, metrics: dict[str, SampledMetric], meter: Meter, first: Cost
) -> tuple[dict[str, Result], dict[str, Result]]:
    """Run each distinct set of draws once; every metric that reads it reduces each block as it comes."""
    scales = (False,) if task.logits is None else (False, True)  # whether it is the logit
    gathered: dict[tuple[str, Draws, bool], Gathered] = {}
    costs: dict[Draws, Cost] = {}
    for draws in dict.fromkeys(draws for metric in metrics.values() for draws in all_draws(metric)):
        readers = {name: metric for name, metric in metrics.items() if draws in all_draws(metric)}
        for name, logit in itertools.product(readers, scales):
            gathered[name, draws, logit] = Gathered(len(task.problem))
        for effects in sampled_effects(session, task, draws):
            for (name, metric), logit in itertools.product(readers.items(), scales):
                metric.collect(effects.on_logits if logit else effects, gathered[name, draws, logit])
        costs[draws] = meter.read(session.device)
    results: dict[bool, dict[str, Result]] = {False: {}, True: {}}
    with torch.inference_mode(False):
        for (name, metric), logit in itertools.product(metrics.items(), scales):
            context = _context(session, task, sum((costs[draws] for draws in all_draws(metric)), first))
            blocks = [gathered[name, draws, logit] for draws in all_draws(metric)]
            results[logit][name] = metric.result(blocks, context)
    return results[False], results[True]


def _run_alone(session: Session, task: Task, metrics: dict[str, AttributionMetric]) -> dict[str, Result]:
    """Metrics that need no model row, one attribution after the other."""
    rated, everything = task.problem, slice(None)
    scores: dict[str, list[Tensor]] = {name: [] for name in metrics}
    for place in range(len(rated.attributions)):
        values = rated.features.reduce(rated.stacked(slice(place, place + 1), everything), everything).double()
        for name, metric in metrics.items():
            scores[name].append(metric.reduce(values, rated.problem))
    with torch.inference_mode(False):
        context = _context(session, task, Cost())
        return {name: metric.result(torch.cat(scores[name]), context) for name, metric in metrics.items()}


def _context(session: Session, task: Task, cost: Cost) -> Context:
    return Context(
        task.problem.layout,
        task.target.clone(),
        cost.rows.forward,
        cost.seconds,
        task.score,
        text_examples(task.problem),
        session.largest_change,
        _about(session, task),
    )


def _about(session: Session, task: Task) -> About:
    predicted = task.problem.problem.target is None
    output = task.problem.problem.output
    return about_of(session.plain.adapter, session.class_labels, output, predicted, task.problem.removed)


def _check_scores(metric: Metric, scores: Tensor, problem: Attributed) -> None:
    """Raise for what a metric makes of its experiment, if it is not one score per attribution and input."""
    shape = (len(problem.attributions), len(problem))
    if tuple(scores.shape) != shape:
        raise ValueError(
            f"{metric.name}: expected one score per attribution and input, shape {shape}, from its reduce, got "
            f"shape {tuple(scores.shape)}."
        )


def repeats_of(metric: GuidedMetric, problem: Attributed) -> int:
    """How many times a metric's replacement is drawn."""
    return problem.fitted(metric.experiment.replacement or problem.replacement).repeats


def check_repeats(metrics: Mapping[str, Metric], problem: Attributed, limits: bool) -> None:
    """Raise for what is defined for one value of each removed feature alone, where they are drawn several times."""
    for name, metric in metrics.items():
        if isinstance(metric, GuidedMetric) and repeats_of(metric, problem) > 1:
            if isinstance(metric.experiment, AdaptiveExperiment):
                raise ValueError(
                    f"{name}: adaptive steps are for replacements that are not drawn; pass a number of steps."
                )
            if limits and isinstance(metric, DirectedArea):
                raise ValueError(
                    f"limits: {name} has a direction for each draw of the replacement, whose limits are not known; "
                    "use PC, or a replacement that is not drawn."
                )


class RepeatedDraws:
    """Scores of metrics whose removed features are drawn, draw by draw."""

    def __init__(self, session: Session, task: Task, metrics: Mapping[str, GuidedMetric], repeats: int) -> None:
        experiments = list(dict.fromkeys(metric.experiment for metric in metrics.values()))
        self.metrics, self.repeats = metrics, repeats
        values: dict[str, list[Tensor]] = {name: [] for name in metrics}
        self.totals: dict[str, GuidedScores] = {}
        for draw in range(repeats):
            by_experiment = dict(
                zip(experiments, guided_scores(session, replace(task, draw=draw), experiments), strict=True)
            )
            for name, metric in metrics.items():
                scores = by_experiment[metric.experiment]
                values[name].append(metric.reduce(scores))
                self.totals[name] = _added(self.totals[name], scores) if draw else scores
        self.values = {name: torch.stack(several) for name, several in values.items()}

    def results(self, context: Context) -> dict[str, Result]:
        """The result of each metric: means over draws, and how far other draws would move them."""
        results: dict[str, Result] = {}
        for name, metric in self.metrics.items():
            result = metric.result(_divided(self.totals[name], self.repeats), context)
            if isinstance(result, GuidedResult):
                spread = self.values[name].std(0) / self.repeats**0.5
                result = replace(result, scores=self.values[name].mean(0), draw_errors=spread)
            results[name] = result
        return results


def _added(first: GuidedScores, second: GuidedScores) -> GuidedScores:
    """Sums of the scores of two draws; steps are the same in all."""
    within = None if first.within is None or second.within is None else first.within + second.within
    return replace(first, curves=first.curves + second.curves, within=within)


def _divided(total: GuidedScores, count: int) -> GuidedScores:
    within: Float[Tensor, "..."] | None = None if total.within is None else total.within / count
    return replace(total, curves=total.curves / count, within=within)


def about_of(adapter: Adapter, labels: Sequence[Any] | None, output: Output, predicted: bool, baseline: str) -> About:
    """What tables and reports say of a call, dated today (UTC)."""
    values = adapter.returns == "values"
    return About(
        model=model_name(adapter),
        score="value" if values else output,
        labels=None if labels is None else tuple(map(str, labels)),
        predicted=predicted and not values,
        baseline=baseline,
        date=datetime.now(UTC).date().isoformat(),
    )


def about_problem(problem: Problem) -> About:
    """What tables and reports say of a problem."""
    baseline = isinstance(problem.replacement, Baseline)
    removed = problem.given.baseline_words if baseline else problem.replacement.short_form
    return about_of(problem.scorer.adapter, problem.labels, problem.output, problem.target is None, removed)


def problem_facts(problem: Problem, *, examples: bool = False) -> dict[str, str]:
    """Model, tracked class, baseline and date of a problem, in words."""
    classes = problem.classes  # first: some models tell what they return as they run
    return about_problem(problem).facts({} if examples and problem.target is None else class_counts(classes))
