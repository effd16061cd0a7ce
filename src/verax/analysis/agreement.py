"""Do two metrics rank configurations alike? Spearman correlation over configurations, with an interval over inputs.

The paper's tables of correlations: DPC (higher is better) and local Infidelity (lower is better) agree where the
correlation is negative. LIME has far more configurations than the other methods together and is looked at alone.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.stats import rankdata

from verax.analysis import canonical
from verax.analysis.matrices import Floats, Matrix, common, estimate, matrix, resampled_means
from verax.analysis.tables import LIME_METHODS, REFERENCE_METHODS


@dataclass(frozen=True)
class Agreement:
    """Spearman correlation of two metrics over configurations.

    Attributes:
        spearman: The correlation of the means over inputs; NaN where a metric ranks nothing, or with fewer than two
            configurations or inputs.
        low: Lower end of the 95 % interval over inputs.
        high: Upper end.
        configurations: How many configurations were ranked.
        inputs: How many inputs the means are over.
    """

    spearman: float
    low: float
    high: float
    configurations: int
    inputs: int

    def __str__(self) -> str:
        return f"{self.spearman:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def agreement(
    scores: pl.DataFrame,
    model: str,
    x: str = "dpc_magnitude",
    y: str = "infidelity",
    *,
    lime: bool = False,
    resamples: int = 1000,
    seed: int = 0,
) -> Agreement:
    """Spearman correlation between two metrics over the configurations of one model.

    The interval is a percentile bootstrap: inputs are drawn with replacement, all configurations are averaged over the
    same draw, and the correlation is taken again. Only inputs that have both metrics count.

    Args:
        scores: The study's scores.
        model: Which model.
        x: One metric.
        y: The other metric.
        lime: True takes the configurations of LIME alone; False takes all others but Random and Edges, which are 44 in
            the paper's grid.
        resamples: How many draws of inputs.
        seed: Which draws.

    Example:
        >>> scores = pl.DataFrame({
        ...     "model": "m", "input": [0, 1] * 3,
        ...     "configuration": [c for c in ("Gradient()", "GuidedBackprop()", "Other(a=1)") for _ in range(2)],
        ...     "dpc_magnitude": [3.0, 3.5, 2.0, 2.5, 1.0, 1.5],
        ...     "infidelity": [1.0, 1.1, 2.0, 2.1, 3.0, 3.1],
        ... })
        >>> print(agreement(scores, "m"))
        -1.00 [-1.00, -1.00]
    """
    return agreement_of(matrix(scores, model, x), matrix(scores, model, y), lime=lime, resamples=resamples, seed=seed)


def agreement_of(x: Matrix, y: Matrix, *, lime: bool, resamples: int = 1000, seed: int = 0) -> Agreement:
    """The same from matrices that are already there.

    Example:
        >>> values = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        >>> m = Matrix(("SmoothGrad(sigma=1)", "SmoothGrad(sigma=2)", "SmoothGrad(sigma=3)"), np.arange(2), values)
        >>> agreement_of(m, m, lime=False, resamples=10).spearman
        1.0
    """
    x, y = common(x, y)
    keep = [place for place, name in enumerate(x.configurations) if _belongs(name, lime)]
    count, inputs = len(keep), len(x.inputs)
    if count < 2 or inputs < 2:  # one configuration is not ranked, one input says nothing about others
        return Agreement(np.nan, np.nan, np.nan, count, inputs)
    means = [(m.values[keep].mean(1), resampled_means(m.values[keep], resamples, seed)) for m in (x, y)]
    found = estimate(spearman, *means)
    return Agreement(found.value, found.low, found.high, count, inputs)


def spearman(x: Floats, y: Floats) -> Floats:
    """Spearman correlation along the last axis; ties share their mean rank; NaN where all values are equal.

    Example:
        >>> float(spearman(np.array([1.0, 2.0, 3.0]), np.array([9.0, 8.0, 7.0])))
        -1.0
    """
    a, b = (ranks - ranks.mean(-1, keepdims=True) for ranks in (rankdata(x, axis=-1), rankdata(y, axis=-1)))
    scale = np.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    correlation: Floats = np.where(scale > 0, (a * b).sum(-1) / np.where(scale > 0, scale, 1.0), np.nan)
    return correlation


def _belongs(configuration: str, lime: bool) -> bool:
    name = canonical.method(configuration)
    return name in LIME_METHODS if lime else name not in (*LIME_METHODS, *REFERENCE_METHODS)
