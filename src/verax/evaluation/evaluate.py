"""Several metrics in one pass, on attributions that are given or computed on the way."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from verax.attribution.base import Attribution, explain
from verax.evaluation.engine import Call, check_call, run
from verax.evaluation.explained_class import Known, with_known_class
from verax.evaluation.result import Evaluation
from verax.metrics.choose import Metrics, metrics_for
from verax.problem.attributed import attributed, explanations_of, fitted_attributions, plain_attributions
from verax.problem.problem import Problem, checked_problem
from verax.scoring.meter import Meter


def evaluate(problem: Problem, attributions: Any, metrics: Metrics | None = None) -> Evaluation:
    """Measure several metrics in one pass; model evaluations that they share are done once.

    Args:
        problem: The model, the rows, and what is asked about them.
        attributions: One array like the inputs, a stack ``(K, N, ...)``, or a dict of names to arrays. For images
            the channel axis may be missing or have length 1; for groups there may be one value each, ``(N, groups)``.
            In a dict, a method such as ``verax.attribution.SmoothGrad()`` is computed first.
        metrics: Names, which stand for a metric with its defaults, metric objects from ``verax.metrics``, or a dict
            that names them. ``"paper"`` stands for PC, DPC and Infidelity (for tokens and other categories PC and
            Infidelity under removal), ``"all"`` for every registered metric that fits the problem. By default the
            metrics that decide, ``effect_correlation`` and ``effect_correlation_baseline``, and the paper's.

    Returns:
        A dict of results. A metric object is found under its name; where several share one, under its short form,
        such as ``"dpc(order='signed')"``.

    Example:
        >>> import torch, verax
        >>> from verax.metrics import DirectedPredictionChange
        >>> x = torch.randn(3, 20)
        >>> problem = verax.Problem(torch.nn.Linear(20, 2), x)
        >>> evaluation = verax.evaluate(problem, x, metrics=("pc", DirectedPredictionChange(order="signed")))
        >>> sorted(evaluation), evaluation.rows  # one experiment serves both
        (['dpc', 'pc'], 120)
        >>> list(verax.evaluate(problem, {"gradient": verax.attribution.Gradient()}, ["dpc"])["dpc"].value)
        ['gradient']
    """
    return run(prepared(problem, attributions, metrics, check_call))


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
    whose = with_known_class(attributions, problem) if explanations_of(attributions) else Known(attributions, problem)
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
