"""Runs what metrics need: the unperturbed inputs once, one guided pass, and each distinct set of random draws once."""

import itertools
from collections.abc import Mapping
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
from verax.problem.replacement.base import needs_background
from verax.scoring.adapters import model_name
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
        rated = replace(self.rated, replacement=replacement)
        metrics = {
            name: metric
            for name, metric in self.metrics.items()
            if follows_replacement(metric) and not metric.unsupported_reason(rated)
        }
        return Call(rated, metrics)


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
        shape = (len(rated.attributions), len(rated))
        for name, result in results.items():
            if (actual := tuple(result.scores.shape)) != shape:
                raise ValueError(
                    f"{metrics[name].name}: expected one score per attribution and input, shape {shape}, from its "
                    f"reduce, got shape {actual}."
                )
        notes = (*rated.remarks, *other_references(task, session, results))
    results = {name: result.with_notes(notes) for name, result in results.items()}
    warn_of_other_class(task, session, results)
    sure = None if share < _MANY else Saturation(share, on_logits)
    results = {name: results[name] for name in metrics}
    return Evaluation(results, call.spent + meter.total(), call=call, saturation=sure)


def check_call(call: Call) -> None:
    """Raise for a call that ``run`` cannot measure; the attributions do not matter."""
    problem, metrics = call.rated, call.metrics.values()
    for metric in metrics:
        for draws in all_draws(metric) if isinstance(metric, SampledMetric) else ():
            check_subset(draws, problem, "subset" if hasattr(metric, "subset") else "sizes")
            check_sigma(draws, problem)
    check_repeats(call.metrics, problem, limits=False)
    for metric in metrics:
        if words := metric.unsupported_reason(problem):
            raise ValueError(words)
        moves = metric.experiment.replacement if isinstance(metric, GuidedMetric) else None
        moves = problem.replacement if follows_replacement(metric) else moves
        if problem.background is None and moves is not None and needs_background(moves):
            raise ValueError(
                f"replacement: {type(moves).__name__} takes values of other rows; pass background=train_inputs as well."
            )


def _run_guided(
    session: Session, task: Task, metrics: dict[str, GuidedMetric], meter: Meter, first: Cost
) -> dict[str, Result]:
    repeats = {name: _repeats_of(metric, task.problem) for name, metric in metrics.items()}
    drawn: dict[str, tuple[Tensor, GuidedScores]] = {}
    for count in {*repeats.values()} - {1}:
        some = {name: metric for name, metric in metrics.items() if repeats[name] == count}
        drawn |= _repeated_draws(session, task, some, count)
    experiments = list(dict.fromkeys(metric.experiment for name, metric in metrics.items() if name not in drawn))
    adaptive = [experiment for experiment in experiments if isinstance(experiment, AdaptiveExperiment)]
    fixed = [experiment for experiment in experiments if experiment not in adaptive]
    scores: dict[Experiment, Any] = dict(zip(fixed, guided_scores(session, task, fixed), strict=True))
    scores |= adaptive_scores(session, task, adaptive)
    cost = first + meter.read(session.device)
    results = {}
    with torch.inference_mode(False):  # results are plain tensors, fit for whatever the user does next
        context = _context(session, task, cost)
        for name, metric in metrics.items():
            if name not in drawn:
                results[name] = metric.result(scores[metric.experiment], context)
                continue
            values, mean_scores = drawn[name]
            result = metric.result(mean_scores, context)
            if isinstance(result, GuidedResult):
                result = replace(result, scores=values.mean(0), draw_errors=values.std(0) / len(values) ** 0.5)
            results[name] = result
    return results


def _repeated_draws(
    session: Session, task: Task, metrics: Mapping[str, GuidedMetric], repeats: int
) -> dict[str, tuple[Float[Tensor, "draws k n"], GuidedScores]]:
    """Of metrics whose removed features are drawn, scores draw by draw, and the mean of what they were read from."""
    experiments = list(dict.fromkeys(metric.experiment for metric in metrics.values()))
    values: dict[str, list[Tensor]] = {name: [] for name in metrics}
    totals: dict[str, GuidedScores] = {}
    for draw in range(repeats):
        scores = guided_scores(session, replace(task, draw=draw), experiments)
        by_experiment = dict(zip(experiments, scores, strict=True))
        for name, metric in metrics.items():
            drawn = by_experiment[metric.experiment]
            values[name].append(metric.reduce(drawn))
            if total := totals.get(name):  # steps are the same in all draws
                within = None if total.within is None or drawn.within is None else total.within + drawn.within
                drawn = replace(total, curves=total.curves + drawn.curves, within=within)
            totals[name] = drawn
    for name, total in totals.items():
        within = None if total.within is None else total.within / repeats
        totals[name] = replace(total, curves=total.curves / repeats, within=within)
    return {name: (torch.stack(values[name]), totals[name]) for name in metrics}


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
        about_problem(task.problem.problem, task.problem.removed),
    )


def _repeats_of(metric: GuidedMetric, problem: Attributed) -> int:
    return problem.fitted(metric.experiment.replacement or problem.replacement).repeats


def check_repeats(metrics: Mapping[str, Metric], problem: Attributed, limits: bool) -> None:
    """Raise for what is defined for one value of each removed feature alone, where they are drawn several times."""
    for name, metric in metrics.items():
        if isinstance(metric, GuidedMetric) and _repeats_of(metric, problem) > 1:
            if isinstance(metric.experiment, AdaptiveExperiment):
                raise ValueError(
                    f"{name}: adaptive steps are for replacements that are not drawn; pass a number of steps."
                )
            if limits and isinstance(metric, DirectedArea):
                raise ValueError(
                    f"limits: {name} has a direction for each draw of the replacement, whose limits are not known; "
                    "use PC, or a replacement that is not drawn."
                )


def about_problem(problem: Problem, removed: str = "") -> About:
    """What tables and reports say of a problem, dated today (UTC)."""
    if not removed:
        baseline = isinstance(problem.replacement, Baseline)
        removed = problem.given.baseline_words if baseline else problem.replacement.short_form
    adapter, labels = problem.scorer.adapter, problem.labels
    values = adapter.returns == "values"
    return About(
        model=model_name(adapter),
        score="value" if values else problem.output,
        labels=None if labels is None else tuple(map(str, labels)),
        predicted=problem.target is None and not values,
        baseline=removed,
        date=datetime.now(UTC).date().isoformat(),
    )


def problem_facts(problem: Problem, *, examples: bool = False) -> dict[str, str]:
    """Model, tracked class, baseline and date of a problem, in words."""
    classes = problem.classes  # first: some models tell what they return as they run
    return about_problem(problem).facts({} if examples and problem.target is None else class_counts(classes))
