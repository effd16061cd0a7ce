"""Which explanation of a model should be believed? Two questions, each with a verdict on every explanation."""

from collections.abc import Iterable, Mapping
from typing import Any

from verax.core.arguments import checked_level
from verax.core.warn import warn
from verax.evaluation.comparison import Comparison
from verax.evaluation.engine import Call, check_call, follows_replacement, run
from verax.evaluation.evaluate import prepared
from verax.evaluation.ranking import AlternativeResult
from verax.evaluation.result import Evaluation
from verax.evaluation.verdicts import with_reference
from verax.metrics.base import Kind
from verax.metrics.choose import Metrics, deciding_metrics, why_not
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
    """Say which explanations of a model to believe: a verdict on each, for each of two questions.

    *What would a small change of the input do* is decided by the effect correlation under noise, *what made the score
    what it is* by the effect correlation under removal; docs/which-metric.md says why. A random explanation of our own
    is always compared as well. Both questions cost 321 model rows per input, for any number of explanations.

    ``.verdicts["local"]["LIME"]`` is ``"best"``, ``"not significantly different from the best"``, ``"better than
    random"``, ``"no better than random"`` or ``"worse than random"``; ``.answers["local"]`` says what to believe, or
    why the question has no answer for this model. The other question is ``"baseline"``. Where the model is sure of its
    inputs, a warning says how the verdicts look on its logit.

    Args:
        problem: The model, the rows, and what is asked about them.
        attributions: A dict of names to arrays like the inputs, or to methods such as
            ``verax.attribution.SmoothGrad()``, which are computed first.
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
        >>> comparison.survival()[0].there, comparison.survival()[0].tau.mean
        ('Toward(epsilon=0.5)', 1.0)
    """
    if not isinstance(attributions, Mapping) or not all(isinstance(name, str) for name in attributions):
        found = "a dict with other keys" if isinstance(attributions, Mapping) else type(attributions).__name__
        raise TypeError(f"attributions: expected a dict of names to arrays, got {found}.")
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
    here = problem.replacement.short_form
    others = {name: other for name, other in others.items() if name != here}
    elsewhere = tuple(_elsewhere(call, name, other) for name, other in others.items())
    comparison = Comparison(run(call, saturation=True), level, here, elsewhere, unanswered)
    if words := comparison.saturation_words():
        warn(words)
    return comparison


def _named(replacements: Any) -> dict[str, Replacement]:
    """Other replacements by name: their own, or what the call says."""
    if isinstance(replacements, Replacement | str) or callable(replacements) or not isinstance(replacements, Iterable):
        raise TypeError(f"replacements: expected a list of replacements or a dict, got {replacements!r}.")
    named = replacements.items() if isinstance(replacements, Mapping) else ((None, one) for one in replacements)
    found: dict[str, Replacement] = {}
    for name, one in named:
        checked = checked_replacement(one)
        if checked is None:
            raise TypeError("replacements: expected a replacement, got None; say verax.replacement.Baseline().")
        called = checked.short_form if name is None else str(name)
        if called in found:
            raise ValueError(f"replacements: two are called {called}; pass a dict of names to replacements.")
        found[called] = checked
    return found


def _elsewhere(call: Call, name: str, replacement: Replacement) -> AlternativeResult:
    """Measure what another replacement makes a difference to."""
    there = call.under(replacement)
    lost = {name: metric for name, metric in call.metrics.items() if name not in there.metrics}
    refused = {
        name: metric.unsupported_reason(there.rated) for name, metric in lost.items() if follows_replacement(metric)
    }
    evaluation = run(there) if there.metrics else Evaluation({}, Cost(), call=there)
    return AlternativeResult(name, evaluation, refused)
