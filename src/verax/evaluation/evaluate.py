"""Several metrics in one pass, on attributions that are given or computed on the way."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from verax.attribution.base import Attribution, explain
from verax.core.arguments import checked_level
from verax.core.warn import warn
from verax.evaluation.comparison import Comparison
from verax.evaluation.engine import Call, check_call, follows_replacement, run
from verax.evaluation.explained_class import Known, with_known_class
from verax.evaluation.ranking import AlternativeResult
from verax.evaluation.result import Evaluation
from verax.evaluation.verdicts import with_reference
from verax.metrics.base import Kind, Metric
from verax.metrics.choose import Metrics, deciding_metrics, metrics_for, why_not
from verax.metrics.result import Result
from verax.problem.attributed import attributed, explanations_of, fitted_attributions, plain_attributions
from verax.problem.problem import Problem, checked_problem
from verax.problem.replacement import Replacement, checked_replacement
from verax.scoring.meter import Cost


def evaluate(problem: Problem, attributions: Any, metrics: Metrics | None = None) -> Evaluation:
    """Measure several metrics in one pass; model evaluations that they share are done once.

    Args:
        problem: The model, the rows, and the question about them.
        attributions: One array like the inputs, a stack ``(K, N, ...)``, or a dict of names to arrays. For images
            the channel axis may be missing or have length 1; for groups there may be one value each, ``(N, groups)``.
            In a dict, a method such as ``verax.attribution.SmoothGrad()`` is computed first.
        metrics: Names, which stand for a metric with its defaults, metric objects from ``verax.metrics``, or a dict
            that names them. ``"paper"`` stands for PC, DPC (ranked as PC, most likely the paper's reading) and
            normalised Infidelity (for tokens and other categories PC and Infidelity under removal), ``"all"`` for every
            registered metric that fits the problem. By default the metrics that decide, ``effect_correlation`` and
            ``effect_correlation_baseline``, and the paper's.

    Returns:
        A dict of results. A metric object is stored under its name; where several share one, under its short form,
        such as ``"dpc(order='magnitude')"``.

    Example:
        >>> import torch, verax
        >>> x = torch.randn(3, 20)
        >>> problem = verax.Problem(torch.nn.Linear(20, 2), x)
        >>> evaluation = verax.evaluate(problem, x, metrics=("pc", "dpc"))
        >>> sorted(evaluation), evaluation.rows  # one experiment serves both
        (['dpc', 'pc'], 120)
        >>> list(verax.evaluate(problem, {"gradient": verax.attribution.Gradient()}, ["dpc"])["dpc"].value)
        ['gradient']
    """
    return run(prepared(problem, attributions, metrics, check_call))


def by_one_metric(problem: Problem, attributions: Any, metric: Metric) -> Result:
    """The result of a metric that is called itself: its cost is that of the whole call, methods included."""
    call = prepared(problem, attributions, {metric.name: metric}, check_call)
    result: Result = run(call)[metric.name]
    rows, seconds = result.rows + call.spent.rows.forward, result.seconds + call.spent.seconds
    return replace(result, context=replace(result.context, rows=rows, seconds=seconds))


def prepared(problem: Problem, attributions: Any, metrics: Metrics | None, check: Callable[[Call], None]) -> Call:
    """Check what ``verax.evaluate`` is given, and compute what are methods among the attributions."""
    checked_problem(problem)
    known = with_known_class(attributions, problem) if explanations_of(attributions) else Known(attributions, problem)
    problem = known.problem
    fitted = plain_attributions(fitted_attributions(known.attributions, problem.rows.fitted))
    ordered = problem.order("attributions", fitted)
    if isinstance(ordered, Attribution):
        kind = type(ordered).__name__
        raise TypeError(
            f"attributions: expected arrays, or a dict of names to arrays or methods, got {kind}; give it a name: "
            f"{{'mine': {kind}(...)}}."
        )
    listed = ordered.items() if isinstance(ordered, Mapping) else ()
    methods = {name: method for name, method in listed if isinstance(method, Attribution)}
    zeros = torch.zeros(()).expand(problem.inputs.shape)  # in the place of methods; they take no memory
    rated = attributed(problem, {**ordered, **dict.fromkeys(methods, zeros)} if methods else ordered)
    rated = replace(rated, remarks=known.remarks, of_tracked=known.of_tracked)
    named = metrics_for(problem, metrics)
    for name, metric in [*named.items()] if metrics == "all" else ():
        try:
            check(Call(rated, {name: metric}))
        except ValueError:  # what metrics raise for problems that they are not for
            del named[name]
    call = Call(rated, named, known.spent)
    check(call)
    if not methods:
        return call
    computed = explain(problem, methods)
    values = {name: problem.order("attributions", array) for name, array in computed.items()}
    rated = attributed(problem, {**ordered, **values})
    rated = replace(rated, remarks=known.remarks, of_tracked=known.of_tracked.union(methods))
    return Call(rated, named, known.spent + computed.cost)


def compare(
    problem: Problem,
    attributions: Any,
    metrics: Metrics | None = None,
    *,
    replacements: Any = (),
    level: float = 0.95,
) -> Comparison:
    """Say which explanations of a model to believe: a verdict on each, for each of two questions.

    *What would a small change of the input do* is decided by the effect correlation under noise, *what made the score
    what it is* by the effect correlation under removal; docs/which-metric.md says why. A random explanation of our own
    is always compared as well. Both questions cost 321 model rows per input, for any number of explanations.

    ``.verdicts["local"]["LIME"]`` is ``"best"``, ``"not significantly different from the best"``, ``"better than
    random"``, ``"no better than random"`` or ``"worse than random"``; ``.answers["local"]`` says what to believe, or
    why the question has no answer for this model. The other question is ``"baseline"``. Where the model is sure of its
    inputs, a warning says how the verdicts look on its logit.

    Args:
        problem: The model, the rows, and the question about them.
        attributions: A dict of names to arrays like the inputs, or to methods such as
            ``verax.attribution.SmoothGrad()``, which are computed first; or arrays without names, as in ``evaluate``.
        metrics: What to measure instead: names of metrics, metric objects from ``verax.metrics``, a dict that names
            them, ``"paper"`` or ``"all"``. Then the first one of a question that may decide does, else the first one.
        replacements: Others to rank under as well, in a list, or in a dict that names them: does the ranking survive?
            Metrics that add noise or have a replacement of their own are left out there, and so is DPC where features
            have no direction. Each costs about as many model rows again.
        level: Coverage of the intervals.

    Verdicts rest on paired t-tests over inputs, corrected for the number of explanations by Holm's method: with level
    0.95, explanations that are all random are called better than random in at most 5 % of calls, and the truly best one
    is called worse than another one in at most 5 % of them (``python benchmarks/verdicts.py``). Intervals say how far a
    number would move with other inputs of the same kind; they, and ``pair``, are for one pair and are not corrected.

    Example:
        >>> import torch, verax
        >>> _ = torch.manual_seed(0)
        >>> model, x = torch.nn.Linear(8, 2), torch.randn(50, 8)
        >>> problem = verax.Problem(model, x, target=1)
        >>> contributions = x * (model.weight[1] - model.weight[0])
        >>> comparison = verax.compare(problem, {"noise": torch.randn(50, 8), "exact": contributions})
        >>> comparison.verdicts["baseline"]
        {'noise': 'no better than random', 'exact': 'best'}
        >>> print(comparison.answers["baseline"])  # doctest: +ELLIPSIS
        For "what made the score what it is", believe exact (Effect correlation (removal) 0.9..., significantly ...
        >>> comparison.rows // 50  # for any number of explanations
        321
        >>> two = {"x": x, "minus x": -x}  # does their ranking survive another replacement?
        >>> comparison = verax.compare(problem, two, ["pc"], replacements=[verax.replacement.Toward(0.5)])
        >>> comparison.ranking_stability()[0].other, comparison.ranking_stability()[0].tau.mean
        ('Toward(epsilon=0.5)', 1.0)
    """
    if isinstance(attributions, Mapping) and not all(isinstance(name, str) for name in attributions):
        raise TypeError("attributions: expected a dict of names to arrays, got a dict with other keys.")
    checked_level(level)
    others = _named(replacements)

    unanswered: Mapping[Kind, str] = {}
    if metrics is None and isinstance(problem, Problem):
        metrics, unanswered = deciding_metrics(problem), why_not(problem)

    def check(call: Call) -> None:
        check_call(call)
        if set(others) - {problem.replacement.short_form} and not any(map(follows_replacement, call.metrics.values())):
            named = ", ".join(call.metrics)
            raise ValueError(f"replacements: {named} do not depend on what removed features become; add pc or dpc.")

    call = prepared(problem, attributions, metrics, check)
    call = call._replace(rated=with_reference(call.rated))
    default = problem.replacement.short_form
    elsewhere = tuple(_elsewhere(call, name, other) for name, other in others.items() if name != default)
    comparison = Comparison(run(call, saturation=True), level, default, elsewhere, unanswered)
    if words := comparison.saturation_words():
        warn(words)
    return comparison


def _named(replacements: Any) -> dict[str, Replacement]:
    """Other replacements by name: their own, or what the call says."""
    if isinstance(replacements, Replacement | str) or callable(replacements) or not isinstance(replacements, Iterable):
        raise TypeError(f"replacements: expected a list of replacements or a dict, got {replacements!r}.")
    chosen: dict[str, Replacement] = {}
    named = replacements.items() if isinstance(replacements, Mapping) else ((None, entry) for entry in replacements)
    for name, entry in named:
        checked = checked_replacement(entry)
        if checked is None:
            raise TypeError("replacements: expected a replacement, got None; say verax.replacement.Baseline().")
        called = checked.short_form if name is None else str(name)
        if called in chosen:
            raise ValueError(f"replacements: two are called {called}; pass a dict of names to replacements.")
        chosen[called] = checked
    return chosen


def _elsewhere(call: Call, name: str, replacement: Replacement) -> AlternativeResult:
    """Measure what another replacement makes a difference to."""
    moved = call.under(replacement)
    lost = {name: metric for name, metric in call.metrics.items() if name not in moved.metrics}
    unsupported = {
        name: metric.unsupported_reason(moved.rated) for name, metric in lost.items() if follows_replacement(metric)
    }
    evaluation = run(moved) if moved.metrics else Evaluation({}, Cost(), call=moved)
    return AlternativeResult(name, evaluation, unsupported)
