"""What a call asks: arguments that are checked, attributions that are computed, metrics that are chosen."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from verax.attribution.base import Attribution, attribute
from verax.core.arrays import as_tensor
from verax.core.blocks import pieces
from verax.evaluation.explained_class import with_known_class
from verax.evaluation.stream_batches import joined_rows, target_of_rows
from verax.metrics.base import GuidedMetric, Metric, SampledMetric, all_draws
from verax.metrics.choose import Metrics, chosen, usual
from verax.problem.given_attributions import fitted_attributions, plain_attributions
from verax.problem.inputs import Inputs
from verax.problem.problem import Problem, problem
from verax.problem.replacement import Replacement, ReplacementLike
from verax.scoring.class_scores import Output
from verax.scoring.frames import column_order
from verax.scoring.meter import Cost, Meter
from verax.scoring.scorer import Scorer, scorer_of


class Asked(NamedTuple):
    """A call that is ready to be measured, once or under several replacements: what ``engine.run`` takes.

    Attributes:
        scorer: The model.
        problem: Inputs and attributions.
        metrics: What is measured, by the names of results.
        output: The score that is followed.
        batch_size: Rows per model call; None for automatic.
        device: Where the model runs; None for where it is.
        spent: What the methods among the attributions cost.
    """

    scorer: Scorer
    problem: Problem
    metrics: Mapping[str, Metric]
    output: Output
    batch_size: int | None
    device: str | torch.device | None
    spent: Cost

    def under(self, replacement: Replacement) -> "Asked":
        """The same under another replacement, for those metrics that it makes a difference to and that can take it."""
        there = replace(self.problem, replacement=replacement)
        left = {
            name: metric
            for name, metric in self.metrics.items()
            if follows_replacement(metric) and not metric.refusal(there)
        }
        return self._replace(problem=there, metrics=left, spent=Cost())


def follows_replacement(metric: Metric) -> bool:
    """Whether a metric removes features as its call says; others add noise, or bring a replacement of their own."""
    if isinstance(metric, GuidedMetric):
        return metric.experiment.replacement is None
    return isinstance(metric, SampledMetric) and any(draws.perturbation == "baseline" for draws in all_draws(metric))


def asked(
    model: Any,
    inputs: Inputs,
    attributions: Any,
    metrics: Metrics | None,
    settings: Mapping[str, Any],
    *,
    target: Any,
    background: Any,
    background_labels: Any,
    replacement: ReplacementLike,
    output: Output,
    batch_size: int | None,
    device: str | torch.device | None,
    check: Callable[[Asked], None],
) -> Asked:
    """Check the arguments of ``verax.evaluate``, which explains them, and compute what are methods among them.

    Args:
        model: A model of any kind.
        inputs: Rows with their features and baselines.
        attributions: Arrays or methods.
        metrics: Names or objects; None for the usual ones.
        settings: For metrics that are named; None for their own.
        target: The class whose score is followed.
        background: Rows of training data.
        background_labels: Their classes.
        replacement: What removed features become.
        output: The score that is followed.
        batch_size: Rows per model call.
        device: Where the model runs.
        check: Raises for a call that cannot be measured; called before methods are computed, with zeros for theirs.
    """
    scorer = scorer_of(model)
    order = column_order(scorer.feature_names, inputs.values)
    data = order("background", background)
    meter = Meter(scorer.counts)
    whose = with_known_class(attributions, target, scorer, inputs.ordered(order), data, batch_size, device)
    target, spent = whose.target, meter.total()
    given = order("attributions", plain_attributions(fitted_attributions(whose.attributions, inputs.fitted)))
    inputs = inputs.ordered(order)

    def checked(arrays: Any) -> Problem:
        return problem(
            inputs,
            arrays,
            target=target,
            background=data,
            takes_missing=scorer.takes_missing,
            replacement=replacement,
            remarks=whose.remarks,
        )

    planned = checked(_placeholders(given, inputs))
    if metrics is None:
        codes = planned.given.codes
        metrics, settings = usual(settings, coded=codes is not None and bool(codes.all()))
    named = chosen(metrics, settings, int(planned.features.counts(slice(None)).min()))
    call = Asked(scorer, planned, named, output, batch_size, device, spent)
    check(call)
    if not _methods(given):
        return call
    meter = Meter(scorer.counts)
    arrays = _computed(given, scorer, inputs, target, data, background_labels, batch_size, device)
    computed = frozenset(name for name, value in given.items() if isinstance(value, Attribution))
    return call._replace(problem=replace(checked(arrays), computed=computed), spent=spent + meter.total())


def _methods(attributions: Any) -> list[Attribution]:
    """The methods among attributions."""
    listed = attributions.values() if isinstance(attributions, Mapping) else ()
    return [method for method in listed if isinstance(method, Attribution)]


def _placeholders(attributions: Any, inputs: Inputs) -> Any:
    """Zeros in the place of methods, which take no memory."""
    if not _methods(attributions):
        return attributions
    zeros = torch.zeros(()).expand(as_tensor("inputs", inputs.values).shape)
    return {name: zeros if isinstance(value, Attribution) else value for name, value in attributions.items()}


def _computed(
    attributions: Any,
    model: Scorer,
    inputs: Inputs,
    target: Any,
    background: Any,
    background_labels: Any,
    batch_size: int | None,
    device: str | torch.device | None,
) -> Any:
    """Put arrays in the place of methods; those that can share model evaluations are computed together."""
    methods = _methods(attributions)
    parts = [
        attribute(
            methods,
            model,
            part,
            target=wanted,
            background=background,
            background_labels=background_labels,
            batch_size=batch_size,
            device=device,
        )
        for part, wanted in _stretches(inputs, target, model.stretch(inputs.values, batch_size, device))
    ]
    return {
        name: joined_rows([found[value.canonical] for found in parts]) if isinstance(value, Attribution) else value
        for name, value in attributions.items()
    }


def _stretches(inputs: Inputs, target: Any, length: int) -> Iterator[tuple[Inputs, Any]]:
    """Inputs with their targets as a stream cuts them, so that methods give the same numbers there and here."""
    count = len(inputs)
    if count <= length:
        yield inputs, target
        return
    for rows in pieces(count, length):
        yield inputs[rows], target_of_rows(target, rows, count)
