"""Scores of many inputs become one row per configuration, and one box per method."""

from collections.abc import Sequence

import polars as pl

from verax.analysis.tables import COST_COLUMNS, METRICS, higher_is_better

KEYS = ("dataset", "model", "modality", "method", "configuration", "local")


def configurations(scores: pl.DataFrame) -> pl.DataFrame:
    """One row per configuration of each model, in the order in which they first appear.

    Columns: ``dataset``, ``model``, ``modality``, ``method``, ``configuration``, ``local``; ``inputs``; for each metric
    of the table its mean over inputs under its own name and ``<metric>_error``, the standard error of that mean over
    inputs; for Infidelity also ``<metric>_mc_error``, the Monte-Carlo error of the mean, ``sqrt(sum se^2) / n``; the
    mean ``attribution_norm``; and the sums of the cost columns.

    Example:
        >>> scores = pl.DataFrame({
        ...     "dataset": ["d"] * 2, "model": ["m"] * 2, "modality": ["tabular"] * 2, "method": ["Gradient"] * 2,
        ...     "configuration": ["Gradient()"] * 2, "local": [True] * 2, "input": [0, 1],
        ...     "infidelity": [1.0, 3.0], "infidelity_se": [0.3, 0.4],
        ... })
        >>> row = configurations(scores).row(0, named=True)
        >>> row["inputs"], row["infidelity"], row["infidelity_error"], round(row["infidelity_mc_error"], 6)
        (2, 2.0, 1.0, 0.25)
    """
    there = [name for name in METRICS if name in scores.columns]
    noisy = [name for name in there if f"{name}_se" in scores.columns]
    costs = [name for name in COST_COLUMNS if name in scores.columns]
    norm = ["attribution_norm"] if "attribution_norm" in scores.columns else []
    grouped = scores.group_by(KEYS, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("inputs"),
        *(_wide(name).mean() for name in [*there, *norm]),
        *((_wide(name).std() / pl.col(name).count().sqrt()).alias(f"{name}_error") for name in there),
        *(_monte_carlo_error(name) for name in noisy),
        *(_wide(name).sum() for name in costs),
    )
    return grouped.with_columns(pl.col("dataset", "model", "modality", "method", "configuration").cast(pl.String))


def methods(
    configurations: pl.DataFrame, metric: str, by: Sequence[str] = ("dataset", "model", "method")
) -> pl.DataFrame:
    """One row per method of each model: the box of its configurations' means.

    Columns: those of ``by``; ``count``, ``min``, ``q1``, ``median``, ``q3``, ``max``; ``best``,
    ``median_configuration`` and ``worst``, canonical forms. Best is highest for PC and DPC and lowest for Infidelity;
    of an even number of configurations the better of the middle two is the median one; of equals the first counts as
    the better.

    Args:
        configurations: From ``configurations``.
        metric: Which mean.
        by: What makes a box. Add ``"local"`` to keep Integrated Gradients and DeepLiftSHAP with and without input
            multiplication apart, as the paper's figures do.

    Example:
        >>> table = pl.DataFrame({
        ...     "dataset": "d", "model": "m", "method": "SmoothGrad",
        ...     "configuration": ["a", "b", "c"], "pc": [0.1, 0.3, 0.2],
        ... })
        >>> methods(table, "pc").select("count", "median", "best", "median_configuration", "worst").row(0)
        (3, 0.2, 'b', 'c', 'a')
    """
    higher = higher_is_better(metric)
    value, name = pl.col(metric), pl.col("configuration")
    ranked = name.sort_by(value, descending=higher, maintain_order=True)
    return (
        configurations.filter(value.is_not_null())
        .group_by(by, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            value.min().alias("min"),
            *(value.quantile(q, "linear").alias(label) for label, q in (("q1", 0.25), ("median", 0.5), ("q3", 0.75))),
            value.max().alias("max"),
            ranked.first().alias("best"),
            ranked.get((pl.len() - 1) // 2).alias("median_configuration"),
            ranked.last().alias("worst"),
        )
    )


def _wide(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Float64)  # sums of many single-precision numbers lose digits


def _monte_carlo_error(name: str) -> pl.Expr:
    squares = _wide(f"{name}_se").pow(2)
    error = squares.sum().sqrt() / pl.col(f"{name}_se").count()
    return pl.when(pl.col(f"{name}_se").count() > 0).then(error).alias(f"{name}_mc_error")
