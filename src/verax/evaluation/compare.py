"""Which attribution is the most faithful to a model, and is it told apart from the next one? Paired over inputs."""

from collections.abc import Iterable, Mapping
from typing import Any

from verax.core.arguments import checked_level
from verax.evaluation.call import Call, follows_replacement, prepared
from verax.evaluation.comparison import Comparison
from verax.evaluation.engine import check_call, run
from verax.evaluation.result import Evaluation
from verax.evaluation.survival import Elsewhere
from verax.metrics.choose import Metrics
from verax.problem.problem import Problem
from verax.problem.replacement import Replacement, checked_replacement
from verax.scoring.meter import Cost


def compare(
    problem: Problem,
    attributions: Any,
    metrics: Metrics | None = None,
    *,
    replacements: Any = (),
    level: float = 0.95,
) -> Comparison:
    """Rank attributions of one model by how faithful they are, and say which differences are real.

    Args:
        problem: The model, the rows, and what is asked about them.
        attributions: A dict of names to arrays like the inputs, or to methods such as
            ``verax.attribution.SmoothGrad()``, which are computed first.
        metrics: Names of metrics, metric objects from ``verax.metrics``, or a dict that names them. By default PC, DPC
            and Infidelity; for tokens and other categories PC and Infidelity under removal.
        replacements: Others to rank under as well, in a list, or in a dict that names them: does the ranking survive?
            Metrics that add noise or have a replacement of their own are left out there, and so is DPC where features
            have no direction. Each costs about as many model rows again.
        level: Coverage of the intervals.

    Intervals say how far a number would move with other inputs of the same kind. Means have the interval of Student's
    t; differences of two attributions are paired, input by input, with the interval of the paired t-test,
    which is narrower wherever two attributions find the same inputs hard. Infidelity's Monte-Carlo error is part of the
    spread over inputs; all attributions share their draws, so that most of it cancels in a difference.

    Each interval is for one pair and is not corrected for looking at many: of 20 comparisons of equally good
    attributions, expect one to tell them apart by chance. Where that matters, raise ``level`` to ``1 - 0.05 / pairs``.

    Example:
        >>> import torch, verax
        >>> _ = torch.manual_seed(0)
        >>> model, x = torch.nn.Linear(8, 2), torch.randn(50, 8)
        >>> problem = verax.Problem(model, x, target=1)
        >>> contributions = x * (model.weight[1] - model.weight[0])
        >>> comparison = verax.compare(problem, {"random": torch.randn(50, 8), "exact": contributions}, ["pc"])
        >>> [ranked.name for ranked in comparison.ranking("pc")], comparison.pair("random", "exact", "pc").word
        (['exact', 'random'], 'worse')
        >>> comparison.best("pc")
        ['exact']
        >>> two = {"x": x, "minus x": -x}  # does their ranking survive another replacement?
        >>> comparison = verax.compare(problem, two, ["pc"], replacements=[verax.replacement.Toward(0.5)])
        >>> comparison.survival()[0].there, comparison.survival()[0].tau.mean
        ('Toward(epsilon=0.5)', 1.0)
    """
    if not isinstance(attributions, Mapping) or not all(isinstance(name, str) for name in attributions):
        found = "a dict with other keys" if isinstance(attributions, Mapping) else type(attributions).__name__
        raise TypeError(f"attributions: expected a dict of names to arrays, found {found}.")
    checked_level(level)
    others = _named(replacements)

    def check(call: Call) -> None:
        check_call(call)
        if set(others) - {problem.replacement.short_form} and not any(map(follows_replacement, call.metrics.values())):
            named = ", ".join(call.metrics)
            raise ValueError(f"replacements: {named} do not depend on what removed features become; add pc or dpc.")

    call = prepared(problem, attributions, metrics, check)
    here = problem.replacement.short_form
    others = {name: other for name, other in others.items() if name != here}
    elsewhere = tuple(_elsewhere(call, name, other) for name, other in others.items())
    return Comparison(run(call), level, here, elsewhere)


def _named(replacements: Any) -> dict[str, Replacement]:
    """Other replacements by name: their own, or what the call says."""
    if isinstance(replacements, Replacement | str) or callable(replacements) or not isinstance(replacements, Iterable):
        raise TypeError(f"replacements: expected a list of replacements or a dict, found {replacements!r}.")
    named = replacements.items() if isinstance(replacements, Mapping) else ((None, one) for one in replacements)
    found: dict[str, Replacement] = {}
    for name, one in named:
        checked = checked_replacement(one)
        if checked is None:
            raise TypeError("replacements: expected a replacement, found None; say verax.replacement.Baseline().")
        called = checked.short_form if name is None else str(name)
        if called in found:
            raise ValueError(f"replacements: two are called {called}; pass a dict of names to replacements.")
        found[called] = checked
    return found


def _elsewhere(call: Call, name: str, replacement: Replacement) -> Elsewhere:
    """Measure what another replacement makes a difference to."""
    there = call.under(replacement)
    lost = {name: metric for name, metric in call.metrics.items() if name not in there.metrics}
    refused = {name: metric.refusal(there.rated) for name, metric in lost.items() if follows_replacement(metric)}
    evaluation = run(there) if there.metrics else Evaluation({}, Cost(), call=there)
    return Elsewhere(name, evaluation, refused)
