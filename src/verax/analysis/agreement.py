"""Do two metrics rank configurations alike? Spearman correlation over configurations, with an interval over inputs.

The paper's tables of correlations: DPC (higher is better) and local Infidelity (lower is better) agree where the
correlation is negative. LIME has far more configurations than the other methods together and is looked at alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from verax.analysis import canonical
from verax.analysis.matrices import Matrix, Places, common, estimate
from verax.attribution.names import is_reference, lime_methods
from verax.statistics.intervals import Estimate
from verax.statistics.ranks import rank_correlation, ranks, tie_count, tied


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
    methods = [canonical.method(name) for name in configurations]
    of_lime = frozenset(lime_methods())
    return np.flatnonzero([(name in of_lime) == lime and (lime or not is_reference(name)) for name in methods])
