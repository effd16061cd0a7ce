"""Which model, class and baseline results are about, found once the model has run."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from verax.metrics.about import About, class_counts
from verax.problem.problem import Problem
from verax.problem.replacement import Baseline
from verax.scoring.adapters import Adapter, model_name
from verax.scoring.class_scores import Output


def about_of(adapter: Adapter, labels: Sequence[Any] | None, output: Output, predicted: bool, baseline: str) -> About:
    """What tables and reports say of a call, dated today (UTC).

    Args:
        adapter: The model.
        labels: Names of its classes or values.
        output: The score that is followed.
        predicted: Whether no class was given.
        baseline: What removed features become.
    """
    values = adapter.returns == "values"
    return About(
        model=model_name(adapter),
        score="value" if values else output,
        labels=None if labels is None else tuple(map(str, labels)),
        predicted=predicted and not values,
        baseline=baseline,
        date=datetime.now(UTC).date().isoformat(),
    )


def problem_facts(problem: Problem) -> dict[str, str]:
    """Model, tracked class, baseline and date of a problem, in words."""
    baseline = isinstance(problem.replacement, Baseline)
    removed = problem.given.baseline_words if baseline else problem.replacement.short_form
    about = about_of(problem.scorer.adapter, problem.labels, problem.output, problem.target is None, removed)
    return about.facts(class_counts(problem.classes))
