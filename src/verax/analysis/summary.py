"""Scores of many inputs become one row per configuration, and one box per method."""

from collections.abc import Sequence

import polars as pl

from verax.analysis.tables import COST_COLUMNS, MetricInfo

_ROWS = ("attribution_rows", "guided_rows", "sampled_rows")  # what each kind of work cost; null where it was not done
KEYS = ("dataset", "model", "modality", "method", "configuration", "local")


def configurations(scores: pl.DataFrame, metrics: Sequence[MetricInfo]) -> pl.DataFrame:
    """One row per configuration of each model, in the order in which they first appear.

    For each metric there is its mean over inputs under its own name and ``<metric>_error``, the standard error of that
    mean over inputs; for noisy ones also ``<metric>_mc_error``, the Monte-Carlo error of the mean,
    ``sqrt(sum se^2) / n``. Costs are summed; ``<kind>_inputs`` says over how many inputs.
    """
    columns = [metric.column for metric in metrics]
    costs = [name for name in COST_COLUMNS if name in scores.columns]
    norm = ["attribution_norm"] if "attribution_norm" in scores.columns else []
    grouped = scores.group_by("model", "configuration", maintain_order=True).agg(  # which settle the other keys
        pl.col("dataset", "modality", "method", "local").first(),
        pl.len().cast(pl.Int64).alias("inputs"),
        *(_wide(name).mean() for name in [*columns, *norm]),
        *((_wide(name).std() / pl.col(name).count().sqrt()).alias(f"{name}_error") for name in columns),
        *(_monte_carlo_error(metric.column) for metric in metrics if metric.noisy),
        *(_wide(name).sum() for name in costs),
        *(_counted(name) for name in costs if name in _ROWS),
    )
    names = pl.col("dataset", "model", "modality", "method", "configuration").cast(pl.String)
    return grouped.select(*KEYS, pl.exclude(KEYS)).with_columns(names)


def methods(
    configurations: pl.DataFrame, metric: MetricInfo, by: Sequence[str] = ("dataset", "model", "method")
) -> pl.DataFrame:
    """One row per method of each model: count, extremes, median, best and worst of its configurations' means.

    Of equals the first counts as the better. Add ``"local"`` to ``by`` to keep Integrated Gradients and DeepLiftSHAP
    with and without input multiplication apart, as the paper's figures do.
    """
    value = pl.col(metric.column)
    ranked = pl.col("configuration").sort_by(value, descending=metric.higher_is_better, maintain_order=True)
    return (
        configurations.filter(value.is_not_null())
        .group_by(by, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            value.min().alias("min"),
            value.median().alias("median"),
            value.max().alias("max"),
            ranked.first().alias("best"),
            ranked.last().alias("worst"),
        )
    )


def _wide(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Float64)  # sums of many single-precision numbers lose digits


def _counted(rows: str) -> pl.Expr:
    return pl.col(rows).count().cast(pl.Int64).alias(rows.replace("_rows", "_inputs"))


def _monte_carlo_error(name: str) -> pl.Expr:
    squares = _wide(f"{name}_se").pow(2)
    error = squares.sum().sqrt() / pl.col(f"{name}_se").count()
    return pl.when(pl.col(f"{name}_se").count() > 0).then(error).alias(f"{name}_mc_error")
