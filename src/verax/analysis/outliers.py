"""Configurations that stand out: the Pareto set of two metrics, and those of LIME with attributions near zero."""

import numpy as np
import numpy.typing as npt
import polars as pl

from verax.analysis.matrices import Floats, Matrix, interval
from verax.analysis.paper import PAPER_DPC, PAPER_INFIDELITY
from verax.attribution.names import lime_methods
from verax.statistics.intervals import Estimate
from verax.statistics.ranks import tied

SET_RESAMPLES = 200  # sets are found one by one
FRACTION = 0.1  # of the model's median norm: what is smaller is nearly zero


def pareto(configurations: pl.DataFrame, maximise: str = PAPER_DPC, minimise: str = PAPER_INFIDELITY) -> pl.DataFrame:
    """The rows that no other row of the same model dominates, in their order.

    A row dominates another if it is better in at least one metric and at least as good in the other. Equal rows do not
    dominate each other: either both stay or both go; means that differ by rounding alone are equal
    (``statistics.ranks.tied``). Rows that lack a metric are left out.
    """
    rows = configurations.filter(pl.col(maximise).is_not_null(), pl.col(minimise).is_not_null())
    keep = np.zeros(rows.height, dtype=bool)
    models = rows["model"].cast(pl.String).to_numpy()
    gains, losses = rows[maximise].to_numpy(), rows[minimise].to_numpy()
    for model in np.unique(models):
        of_model = models == model
        keep[of_model] = front(gains[of_model], losses[of_model])
    return rows.filter(pl.Series(keep))


def front(maximise: Floats, minimise: Floats) -> npt.NDArray[np.bool_]:
    """Which points are not dominated, values that differ by rounding alone being equal."""
    maximise, minimise = tied(maximise), tied(minimise)
    order = np.lexsort((-maximise, minimise))
    losses, gains = minimise[order], maximise[order]
    # The points are sorted: each has to beat, in gains, all that come before the first of those that equal it.
    new = np.concatenate(([True], (losses[1:] != losses[:-1]) | (gains[1:] != gains[:-1])))[: len(order)]
    first = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    best_before = np.maximum.accumulate(np.concatenate(([-np.inf], gains)))
    kept = np.empty(len(order), dtype=bool)
    kept[order] = gains > best_before[first]
    return kept


def front_size(maximise: Matrix, minimise: Matrix, resamples: int, seed: int) -> Estimate:
    """How many are not dominated, with the interval over inputs; of more than ``SET_RESAMPLES`` resamples those."""
    draws = [scores.resampled(min(SET_RESAMPLES, resamples), seed) for scores in (maximise, minimise)]
    size = front(maximise.values.mean(1), minimise.values.mean(1)).sum()
    return interval(size, [front(*means).sum() for means in zip(*draws, strict=True)])


def near_zero(configurations: pl.DataFrame) -> pl.DataFrame:
    """The LIME configurations whose mean attribution norm is below a tenth of the model's median.

    Too strong a regularisation, or a kernel so narrow that no sample counts, leaves LIME with attributions near zero.
    """
    norm = pl.col("attribution_norm")
    lime = configurations.filter(pl.col("method").cast(pl.String).is_in(lime_methods()))
    return lime.filter(norm / norm.median().over("model") < FRACTION)
