"""Configurations that no other beats: the Pareto set of two metrics."""

import numpy as np
import numpy.typing as npt
import polars as pl

from verax.analysis.matrices import Floats


def pareto(configurations: pl.DataFrame, maximise: str = "dpc_magnitude", minimise: str = "infidelity") -> pl.DataFrame:
    """The rows that no other row of the same model dominates, in their order.

    A row dominates another if it is better in at least one metric and at least as good in the other. Equal rows do not
    dominate each other: either both stay or both go. Rows that lack a metric are left out.

    Args:
        configurations: One row per configuration, e.g. from ``summary.configurations``, filtered to the method asked
            about.
        maximise: A column where more is better.
        minimise: A column where less is better.

    Example:
        >>> table = pl.DataFrame({
        ...     "model": "m", "configuration": ["a", "b", "c"], "dpc_magnitude": [1.0, 2.0, 0.5],
        ...     "infidelity": [1.0, 2.0, 2.0],
        ... })
        >>> pareto(table)["configuration"].to_list()
        ['a', 'b']
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
    """Which points are not dominated.

    Example:
        >>> front(np.array([1.0, 2.0, 0.5]), np.array([1.0, 2.0, 2.0])).tolist()
        [True, True, False]
    """
    points, place = np.unique(np.column_stack((minimise, -maximise)), axis=0, return_inverse=True)
    # The points are sorted: each has to beat, in the second number, all that are better in the first.
    best_before = np.minimum.accumulate(np.concatenate(([np.inf], points[:-1, 1])))
    kept: npt.NDArray[np.bool_] = (points[:, 1] < best_before)[place.reshape(-1)]
    return kept
