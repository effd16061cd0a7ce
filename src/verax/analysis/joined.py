"""Tables of several studies as one, for figures that show the models of all of them."""

from collections import Counter
from collections.abc import Sequence

import polars as pl

from verax.analysis.tables import Tables


def joined(several: Sequence[Tables]) -> Tables:
    """One set of tables with the models of several studies, and the metrics that all of them measured.

    Settings and costs belong to a single study each, and are left out.

    Args:
        several: Tables of studies whose models have different names.
    """
    first, *others = several
    names = Counter(model.name for tables in several for model in tables.models)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise ValueError(f"studies: models need different names to be shown together, got twice: {', '.join(twice)}.")
    shared = {metric.column for metric in first.metrics}.intersection(
        *({metric.column for metric in tables.metrics} for tables in others)
    )
    columns = [name for name in first.scores.columns if all(name in tables.scores.columns for tables in several)]
    return Tables(
        scores=pl.concat([tables.scores.select(columns) for tables in several]),
        uncertainty=pl.concat([tables.uncertainty for tables in several]),
        models=tuple(model for tables in several for model in tables.models),
        settings={},
        costs=first.costs.clear(),
        metrics=tuple(metric for metric in first.metrics if metric.column in shared),
    )
