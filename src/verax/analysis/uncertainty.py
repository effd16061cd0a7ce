"""How uncertain is Infidelity? Monte-Carlo deviation by method and number of draws, and whether methods stay apart."""

from itertools import combinations

import polars as pl

_AVERAGED = ("value", "resampled_sd", "analytic_se", "independent_sd", "per_input_resampled")


def curves(uncertainty: pl.DataFrame) -> pl.DataFrame:
    """One row per model, method and number of draws: averages over the method's configurations, as in the paper.

    Methods are in order of first appearance, draws ascend.
    """
    keys = ["dataset", "model", "method"]
    order = uncertainty.select(keys).unique(maintain_order=True).with_row_index("_order")
    averages = uncertainty.group_by(*keys, "draws").agg(pl.col(_AVERAGED).cast(pl.Float64).mean())
    return averages.join(order, on=keys).sort("_order", "draws").drop("_order")


def overlaps(curves: pl.DataFrame, deviation: str = "resampled_sd") -> pl.DataFrame:
    """How many pairs of methods cannot be told apart, per model and number of draws.

    Two methods overlap where the distance of their values is at most the sum of their deviations, that is, where the
    bands "value plus or minus one standard deviation" of the paper's figure touch. ``"resampled_sd"`` is that of the
    mean over all inputs, ``"per_input_resampled"`` is for judging by one input.
    """
    rows = []
    for (dataset, model, draws), group in curves.group_by("dataset", "model", "draws", maintain_order=True):
        bands = list(zip(group["value"], group[deviation], strict=True))
        touching = [abs(a - b) <= s + t for (a, s), (b, t) in combinations(bands, 2)]
        pairs = len(touching)
        rows.append((dataset, model, draws, pairs, sum(touching), sum(touching) / pairs if pairs else None))
    names, counts = ("dataset", "model"), ("draws", "pairs", "overlapping")
    schema = dict.fromkeys(names, pl.String) | dict.fromkeys(counts, pl.Int64) | {"share": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")
