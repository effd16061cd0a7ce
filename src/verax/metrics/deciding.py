"""The two questions, and the metrics that decide them: the one place that calls, searches and reports ask.

``docs/which-metric.md`` is the evidence: on models whose truth is known, these metrics knew it.
"""

from collections.abc import Mapping
from typing import Any

from verax.attribution.tree_shap import made_of_trees
from verax.metrics.base import Kind, Metric
from verax.metrics.effect_correlation import EffectCorrelation
from verax.metrics.infidelity import Infidelity
from verax.problem.problem import Problem

QUESTIONS: dict[Kind, str] = {
    "local": "what would a small change of the input do",
    "baseline": "what made the score what it is",
}
SAMPLES = 160  # draws: 161 model rows per input and question for any number of attributions
COLUMNS: dict[str, Metric] = {
    "effect_correlation": EffectCorrelation(samples=SAMPLES),
    "effect_correlation_baseline": EffectCorrelation(perturbation="baseline", samples=SAMPLES),
}


def deciding_metrics(problem: Problem) -> dict[str, Metric]:
    """The metrics that decide the questions that can be asked of a problem, by their columns."""
    unanswered = why_not(problem)
    return {column: metric for column, metric in COLUMNS.items() if metric.kind not in unanswered}


def paper_metrics(problem: Problem) -> dict[str, Metric | str]:
    """The metrics of the paper, as far as a problem has directions and small changes."""
    if _all_categories(problem):
        return {"pc": "pc", "infidelity": Infidelity(perturbation="baseline")}
    return {name: name for name in ("pc", "dpc", "infidelity")}


def why_not(problem: Problem) -> dict[Kind, str]:
    """The questions that have no metric to decide them, each with the reason."""
    if _all_categories(problem):
        return {"local": "all values are categories, such as ids of tokens, and a category has no small change"}
    if made_of_trees(problem.scorer.adapter):
        return {"local": "the model is made of trees, whose score is flat around almost every input"}
    return {}


def decider(metrics: Mapping[str, Any], kind: Kind) -> str | None:
    """Which of the metrics that were measured answers a question; None where none is about it.

    The first that may decide; where there is none, the first that is about the question.

    Args:
        metrics: Anything that has ``kind`` and ``decides``, by name.
        kind: Which question.
    """
    about = [name for name, metric in metrics.items() if metric.kind == kind]
    return next((name for name in about if metrics[name].decides), about[0] if about else None)


def _all_categories(problem: Problem) -> bool:
    categorical = problem.given.codes
    return categorical is not None and bool(categorical.all())
