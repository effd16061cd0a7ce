"""How uncertain is Infidelity? Monte-Carlo deviation by method and number of draws, and whether methods stay apart."""

from itertools import combinations

import polars as pl

_AVERAGED = (
    "inputs",
    "value",
    "resampled_sd",
    "analytic_se",
    "independent_sd",
    "per_input_resampled",
    "per_input_analytic",
)


def curves(uncertainty: pl.DataFrame) -> pl.DataFrame:
    """One row per model, method and number of draws: averages over the method's configurations, as in the paper.

    Columns: ``dataset``, ``model``, ``method``, ``draws``, ``configurations`` (how many), and the averages of
    ``inputs``, ``value`` and the five deviations. Methods in order of first appearance, draws ascending.

    Example:
        >>> table = pl.DataFrame({
        ...     "dataset": "d", "model": "m", "method": "SmoothGrad", "configuration": ["a", "b"], "draws": 20,
        ...     "inputs": 8, "value": [1.0, 2.0], "resampled_sd": [0.1, 0.3], "analytic_se": 0.2,
        ...     "independent_sd": 0.2, "per_input_resampled": 0.5, "per_input_analytic": 0.5,
        ... })
        >>> curves(table).select("configurations", "value", "resampled_sd").row(0)
        (2, 1.5, 0.2)
    """
    keys = ["dataset", "model", "method"]
    order = uncertainty.select(keys).unique(maintain_order=True).with_row_index("_order")
    averages = uncertainty.group_by(*keys, "draws").agg(
        pl.len().cast(pl.Int64).alias("configurations"), *(pl.col(name).cast(pl.Float64).mean() for name in _AVERAGED)
    )
    return averages.join(order, on=keys).sort("_order", "draws").drop("_order")


def overlaps(curves: pl.DataFrame, deviation: str = "resampled_sd") -> pl.DataFrame:
    """How many pairs of methods cannot be told apart, per model and number of draws.

    Two methods overlap where the distance of their values is at most the sum of their deviations, that is, where the
    bands "value plus or minus one standard deviation" of the paper's figure touch.

    Columns: ``dataset``, ``model``, ``draws``, ``pairs``, ``overlapping``, ``share``.

    Args:
        curves: From ``curves``.
        deviation: Which deviation makes the band: ``"resampled_sd"`` of the mean over all inputs,
            ``"per_input_resampled"`` for judging by one input, or another column.

    Example:
        >>> table = pl.DataFrame({
        ...     "dataset": "d", "model": "m", "method": ["a", "b", "c"], "draws": 20, "value": [1.0, 1.5, 9.0],
        ...     "resampled_sd": 0.3,
        ... })
        >>> overlaps(table).select("pairs", "overlapping").row(0)
        (3, 1)
    """
    rows = []
    for (dataset, model, draws), group in curves.group_by("dataset", "model", "draws", maintain_order=True):
        bands = list(zip(group["value"], group[deviation], strict=True))
        touching = [abs(a - b) <= s + t for (a, s), (b, t) in combinations(bands, 2)]
        pairs = len(touching)
        rows.append((dataset, model, draws, pairs, sum(touching), sum(touching) / pairs if pairs else None))
    schema = {
        "dataset": pl.String,
        "model": pl.String,
        "draws": pl.Int64,
        "pairs": pl.Int64,
        "overlapping": pl.Int64,
        "share": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")
