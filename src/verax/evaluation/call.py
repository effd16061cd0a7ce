"""A call: attributions of a problem that are checked or computed, and the metrics that are chosen."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from verax.attribution.base import Attribution, explain
from verax.evaluation.explained_class import with_known_class
from verax.metrics.base import GuidedMetric, Metric, SampledMetric, all_draws
from verax.metrics.choose import Metrics, metrics_for
from verax.problem.attributed import Attributed, attributed
from verax.problem.given_attributions import fitted_attributions, plain_attributions
from verax.problem.problem import Problem, checked_problem
from verax.problem.replacement import Replacement
from verax.scoring.meter import Cost, Meter


class Call(NamedTuple):
    """What is measured, once or under several replacements: what ``engine.run`` takes.

    Attributes:
        rated: The problem and its attributions.
        metrics: What is measured, by the names of results.
        spent: What the methods among the attributions cost.
    """

    rated: Attributed
    metrics: Mapping[str, Metric]
    spent: Cost = Cost()

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


def prepared(problem: Problem, attributions: Any, metrics: Metrics | None, check: Callable[[Call], None]) -> Call:
    """Check what ``verax.evaluate`` is given, and compute what are methods among the attributions.

    Args:
        problem: The model, the rows, and what is asked about them.
        attributions: Arrays or methods.
        metrics: Names or objects; ``metrics_for`` says what stands for several.
        check: Raises for a call that cannot be measured; called before methods are computed, with zeros for theirs.
    """
    checked_problem(problem)
    meter = Meter(problem.scorer.counts)
    whose = with_known_class(attributions, problem)
    problem, spent = whose.problem, meter.total()
    fitted = plain_attributions(fitted_attributions(whose.attributions, problem.rows.fitted))
    given = problem.order("attributions", fitted)
    methods = _methods(given)
    zeros = torch.zeros(()).expand(problem.inputs.shape)  # in the place of methods; they take no memory
    rated = attributed(problem, {**given, **dict.fromkeys(methods, zeros)} if methods else given)
    rated = replace(rated, remarks=whose.remarks)
    named = metrics_for(problem, metrics)
    if metrics == "all":
        named = {name: metric for name, metric in named.items() if _fits(Call(rated, {name: metric}), check)}
    call = Call(rated, named, spent)
    check(call)
    if not methods:
        return call
    computed = explain(problem, methods)
    values = {name: problem.order("attributions", one) for name, one in computed.items()}
    rated = attributed(problem, {**given, **values})
    rated = replace(rated, remarks=whose.remarks, computed=frozenset(methods))
    return Call(rated, named, spent + computed.cost)


def _fits(call: Call, check: Callable[[Call], None]) -> bool:
    try:
        check(call)
    except ValueError:  # what metrics raise for problems that they are not for
        return False
    return True


def _methods(attributions: Any) -> dict[str, Attribution]:
    """The methods among attributions, by name."""
    if isinstance(attributions, Attribution):
        raise TypeError(
            f"attributions: expected arrays, or a dict of names to arrays or methods, got {type(attributions).__name__}"
            f"; give it a name: {{'mine': {type(attributions).__name__}(...)}}."
        )
    listed = attributions.items() if isinstance(attributions, Mapping) else ()
    return {name: method for name, method in listed if isinstance(method, Attribution)}
