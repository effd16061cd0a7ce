"""Do two metrics rank configurations alike? Spearman correlation over configurations, with an interval over inputs.

The paper's tables of correlations: DPC (higher is better) and local Infidelity (lower is better) agree where the
correlation is negative. LIME has far more configurations than the other methods together and is looked at alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from verax.attribution.names import is_reference, lime_methods
from verax.statistics.intervals import Estimate
from verax.statistics.ranks import rank_correlation, ranks, tie_count, tied
from verax.study.matrices import Floats, Matrix, Places, common, estimate, interval
from verax.study.summary import method_of
from verax.study.tables import LEADING_DPC, LEADING_INFIDELITY

SET_RESAMPLES = 200  # sets are found one by one
FRACTION = 0.1  # of the model's median norm: what is smaller is nearly zero


@dataclass(frozen=True)
class Agreement:
    """Spearman correlation of two metrics over configurations, with its 95 % interval over inputs.

    It is NaN where a metric ranks nothing, or with fewer than two configurations or inputs.

    Attributes:
        ties: How many configurations share their rank with another, under either metric.
    """

    spearman: Estimate
    configurations: int
    inputs: int
    ties: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return f"{self.spearman:+.2f}"


def agreement(x: Matrix, y: Matrix, *, lime: bool, resamples: int = 1000, seed: int = 0) -> Agreement:
    """Agreement of two metrics of one model over the configurations of LIME, or over all others but references.

    The interval is a percentile bootstrap: inputs are drawn with replacement, all configurations are averaged over the
    same draw, and the correlation is taken again. Only inputs that have both metrics count.
    """
    x, y = common(x, y)
    keep = compared(x.configurations, lime=lime)
    count, inputs = len(keep), len(x.inputs)
    if count < 2 or inputs < 2:  # one configuration is not ranked, one input says nothing about others
        return Agreement(Estimate(np.nan, np.nan, np.nan, np.nan), count, inputs)
    parts = x.part(keep), y.part(keep)
    means = [part.values.mean(1) for part in parts]
    ranked = [
        (ranks(tied(mean)), part.resampled_ranks(resamples, seed)) for mean, part in zip(means, parts, strict=True)
    ]
    ties = (tie_count(means[0]), tie_count(means[1]))
    return Agreement(estimate(rank_correlation, *ranked), count, inputs, ties)


def compared(configurations: Sequence[str], *, lime: bool) -> Places:
    """The places of LIME's configurations, or of all others but references."""
    methods = [method_of(name) for name in configurations]
    of_lime = frozenset(lime_methods())
    return np.flatnonzero([(name in of_lime) == lime and (lime or not is_reference(name)) for name in methods])


def pareto(
    configurations: pl.DataFrame, maximise: str = LEADING_DPC, minimise: str = LEADING_INFIDELITY
) -> pl.DataFrame:
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
