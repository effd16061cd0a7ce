"""What studies measured as small tables that can be kept beside a text: means, their errors, ranks and Pareto sets."""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from verax.analysis.agreement import agreement, compared
from verax.analysis.evidence import Evidence
from verax.analysis.outliers import front_size
from verax.analysis.paper import NORMALISED_INFIDELITY, PAPER_INFIDELITY
from verax.analysis.tables import Schema

DIGITS = 6  # significant ones: more than any mean of a study is sure of
RANKS: Schema = {
    **dict.fromkeys(("model", "group", "metric", "infidelity"), pl.String()),
    **dict.fromkeys(("configurations", "inputs"), pl.Int64()),
    **dict.fromkeys(("spearman", "spearman_low", "spearman_high"), pl.Float64()),
    **dict.fromkeys(("ties", "infidelity_ties"), pl.Int64()),
    **dict.fromkeys(("pareto", "pareto_low", "pareto_high"), pl.Float64()),
}
GROUPS = {"all others": False, "LIME": True}  # of configurations, and whether they are LIME's


def small_tables(evidences: Sequence[Evidence]) -> Iterator[tuple[str, pl.DataFrame]]:
    """Tables by the names of their files: ``models``, ``ranks``, and of each model ``means`` and ``errors``.

    Numbers have six significant digits. References (Random, edges) have means, and take no part in ranks.
    """
    yield "models", _rounded(_models(evidences))
    yield "ranks", _rounded(pl.concat([ranks(evidence) for evidence in evidences]))
    for evidence in evidences:
        columns = [metric.column for metric in evidence.tables.metrics]
        yield f"means-{evidence.info.name}", _by_configuration(evidence, [*columns, "attribution_norm"])
        yield f"errors-{evidence.info.name}", _by_configuration(evidence, [f"{column}_error" for column in columns])


def ranks(evidence: Evidence) -> pl.DataFrame:
    """One row per group of configurations, Infidelity and other metric: do they rank alike, and who is best by both?

    ``spearman`` with its 95 % interval over inputs, ``ties`` and ``infidelity_ties`` (how many configurations share
    their rank with another), ``pareto`` with its interval (the size of the Pareto set of the metric and Infidelity).
    """
    columns = [metric.column for metric in evidence.tables.metrics if _measured(evidence, metric.column)]
    losses = [column for column in (PAPER_INFIDELITY, NORMALISED_INFIDELITY) if column in columns]
    higher = {metric.column: metric.higher_is_better for metric in evidence.tables.metrics}
    rows = [
        {"model": evidence.info.name, "group": group, "metric": metric, "infidelity": loss}
        | _ranked(evidence, metric, loss, lime=lime, higher=higher[metric])
        for group, lime in GROUPS.items()
        for loss in losses
        for metric in columns
        if metric != loss
    ]
    return pl.DataFrame(rows, schema=dict(RANKS))


def _measured(evidence: Evidence, column: str) -> bool:
    """Whether at least two inputs have values of a metric."""
    if not evidence.configurations[column].count():
        return False
    return len(evidence.tables.matrix(evidence.info.name, column).inputs) > 1


def _ranked(evidence: Evidence, metric: str, loss: str, *, lime: bool, higher: bool) -> dict[str, object]:
    gains, losses = evidence.pair(metric, loss)
    ranked = agreement(gains, losses, lime=lime, resamples=evidence.resamples, seed=evidence.seed)
    facts: dict[str, object] = {"configurations": ranked.configurations, "inputs": ranked.inputs}
    if not np.isfinite(ranked.spearman.mean):
        return facts
    places = compared(gains.configurations, lime=lime)
    gains, losses = (part.part(places) for part in (gains if higher else gains.negated(), losses))
    named = {"spearman": ranked.spearman, "pareto": front_size(gains, losses, evidence.resamples, evidence.seed)}
    for name, figure in named.items():
        facts |= {name: figure.mean, f"{name}_low": figure.low, f"{name}_high": figure.high}
    return facts | dict(zip(("ties", "infidelity_ties"), ranked.ties, strict=True))


def _models(evidences: Sequence[Evidence]) -> pl.DataFrame:
    """One row per model and figure of its quality."""
    rows = [
        (info.name, info.dataset, info.inputs, info.features, part, name, value)
        for info in (evidence.info for evidence in evidences)
        for part, figures in info.metrics.items()
        for name, value in figures.items()
    ]
    columns = ("model", "dataset", "inputs", "features", "split", "figure", "value")
    return pl.DataFrame(rows, schema=columns, orient="row")


def _by_configuration(evidence: Evidence, columns: Sequence[str]) -> pl.DataFrame:
    return _rounded(evidence.configurations.select("configuration", "inputs", *columns))


def _rounded(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(pl.selectors.float().round_sig_figs(DIGITS))
