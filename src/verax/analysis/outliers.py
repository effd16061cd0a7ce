"""LIME configurations whose attributions are nearly zero, and how the metrics judge them."""

import polars as pl

from verax.analysis.tables import LIME_METHODS


def near_zero(configurations: pl.DataFrame, fraction: float = 0.1) -> pl.DataFrame:
    """The LIME configurations whose mean attribution norm is below a fraction of the model's median.

    Too strong a regularisation, or a kernel so narrow that no sample counts, leaves LIME with attributions near zero.
    The paper finds them worst under Infidelity and near zero under DPC.

    Columns, in the order of the table: ``dataset``, ``model``, ``configuration``, ``attribution_norm``;
    ``relative_norm``, by the median; ``infidelity`` and ``infidelity_rank``; ``dpc_magnitude`` and ``dpc_rank``. Ranks
    go from 0 (best of the model's LIME configurations) to 1 (worst), equal values share their mean rank.
    ``dpc_relative`` is DPC divided by the largest absolute DPC of the model's LIME configurations.

    Args:
        configurations: From ``summary.configurations``.
        fraction: What "nearly zero" means, as a share of the median norm.

    Example:
        >>> table = pl.DataFrame({
        ...     "dataset": "d", "model": "m", "method": "LimeTabular", "configuration": ["a", "b", "c"],
        ...     "attribution_norm": [1.0, 1.2, 0.01], "infidelity": [1.0, 2.0, 3.0], "dpc_magnitude": [0.5, -0.5, 0.0],
        ... })
        >>> near_zero(table).select("configuration", "infidelity_rank", "dpc_rank", "dpc_relative").row(0)
        ('c', 1.0, 0.5, 0.0)
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction: expected a number between 0 and 1, found {fraction!r}.")
    norm, dpc, infidelity = pl.col("attribution_norm"), pl.col("dpc_magnitude"), pl.col("infidelity")
    return (
        configurations.filter(pl.col("method").cast(pl.String).is_in(LIME_METHODS))
        .select("dataset", "model", "configuration", norm, infidelity, dpc)
        .with_columns(
            (norm / norm.median().over("model")).alias("relative_norm"),
            _rank(infidelity).alias("infidelity_rank"),
            _rank(-dpc).alias("dpc_rank"),
            (dpc / dpc.abs().max().over("model")).alias("dpc_relative"),
        )
        .filter(pl.col("relative_norm") < fraction)
    )


def _rank(value: pl.Expr) -> pl.Expr:
    others = value.count() - 1
    return ((value.rank("average") - 1) / pl.when(others > 0).then(others)).over("model")
