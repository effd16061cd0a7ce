"""Which model, class and baseline results are about, found once the model has run."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from verax.metrics.about import About
from verax.scoring.adapters import Adapter, labels_of, model_name
from verax.scoring.class_scores import Output
from verax.scoring.scorer import Scorer


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


def about_scorer(scorer: Scorer, output: Output, predicted: bool, baseline: str) -> About:
    """The same for a Scorer."""
    labels = labels_of(scorer.adapter) if scorer.labels is None else scorer.labels
    return about_of(scorer.adapter, labels, output, predicted, baseline)
