"""What the metrics and the methods cost, in model rows and in seconds, and what sharing evaluations saves.

An *attribution* here is one configuration on one input, the unit in which the paper counts: DPC needs 40 rows per
attribution at 20 steps; Infidelity needs its draws, 640 or 1,280, which all attributions of an input can share.
"""

from dataclasses import dataclass

import polars as pl

KINDS = ("attribution", "guided", "infidelity")


@dataclass(frozen=True)
class Crossover:
    """Rows of DPC and Infidelity for one input.

    Attributes:
        guided_rows: Rows of DPC per attribution.
        draws: Rows of Infidelity per input, if shared by all attributions, or per attribution, if not.
        ratio: How many times fewer rows DPC needs for one attribution alone.
        attributions: From how many attributions of one input on shared Infidelity needs no more rows than DPC.
    """

    guided_rows: int
    draws: int
    ratio: float
    attributions: int


def crossover(steps: int = 20, draws: int = 640, features: int | None = None) -> Crossover:
    """Where Infidelity whose draws are shared becomes cheaper than DPC.

    DPC alone costs ``2 n`` rows for ``n`` steps (two curves that share their end points), ``n`` being at most the
    number of features. ``k`` attributions of one input cost ``2 n k`` rows under DPC and ``draws`` under shared
    Infidelity.

    Example:
        >>> crossover()
        Crossover(guided_rows=40, draws=640, ratio=16.0, attributions=16)
    """
    for name, value in (("steps", steps), ("draws", draws), ("features", features)):
        if value is not None and value < 1:
            raise ValueError(f"{name}: expected a positive number, found {value!r}.")
    guided = 2 * min(steps, features or steps)
    return Crossover(guided, draws, draws / guided, -(-draws // guided))


def together(steps: int, features: int | None = None, *, signed: bool = False) -> int:
    """Rows per attribution of PC and DPC together.

    With ``signed`` both rank by signed attribution and share every row. Otherwise DPC ranks by magnitude and shares
    only the end points with PC: ``2 + 4 (n - 1)``.

    Example:
        >>> together(20), together(20, signed=True)
        (78, 40)
    """
    n = min(steps, features or steps)
    return 2 + (2 if signed else 4) * (n - 1) if n > 1 else 2


def by_method(configurations: pl.DataFrame) -> pl.DataFrame:
    """One row per model, method and kind of work: what an attribution cost in this study, evaluations shared.

    Columns: ``dataset``, ``model``, ``method``, ``kind`` (``"attribution"``, ``"guided"`` for PC and DPC together,
    ``"infidelity"``), ``attributions`` (configurations times inputs), ``rows``, ``seconds``, ``rows_per_attribution``,
    ``seconds_per_attribution``.

    Example:
        >>> table = pl.DataFrame({
        ...     "dataset": "d", "model": "m", "method": "Gradient", "inputs": [10], "attribution_rows": [10.0],
        ...     "attribution_seconds": [0.5], "guided_rows": [400.0], "guided_seconds": [2.0],
        ...     "infidelity_rows": [640.0], "infidelity_seconds": [3.0],
        ... })
        >>> by_method(table).select("kind", "rows_per_attribution").rows()
        [('attribution', 1.0), ('guided', 40.0), ('infidelity', 64.0)]
    """
    return _per_attribution(configurations, ["dataset", "model", "method"])


def by_metric(configurations: pl.DataFrame) -> pl.DataFrame:
    """One row per model and kind of work: as ``by_method``, over all methods.

    Example:
        >>> table = pl.DataFrame({
        ...     "dataset": "d", "model": "m", "method": ["Gradient", "Random"], "inputs": 10,
        ...     "attribution_rows": [10.0, 0.0], "attribution_seconds": 0.5, "guided_rows": 400.0,
        ...     "guided_seconds": 2.0, "infidelity_rows": 320.0,
        ...     "infidelity_seconds": 3.0,
        ... })
        >>> by_metric(table).select("kind", "attributions", "rows_per_attribution").rows()
        [('attribution', 20, 0.5), ('guided', 20, 40.0), ('infidelity', 20, 32.0)]
    """
    return _per_attribution(configurations, ["dataset", "model"])


def sharing(costs: pl.DataFrame) -> pl.DataFrame:
    """One row per model: rows run, rows that a run without sharing would need, and how many times more that is.

    Columns: ``dataset``, ``model``, ``device``, ``seconds``, ``model_seconds``, ``rows_forward``,
    ``rows_forward_unshared``, ``saving``, ``rows_backward``, ``rows_backward_unshared``.

    Example:
        >>> table = pl.DataFrame({
        ...     "dataset": "d", "model": "m", "unit": ["a", "b"], "seconds": 1.0, "model_seconds": 0.5, "device": "cpu",
        ...     "rows_forward": [10.0, 10.0], "rows_backward": 0.0, "rows_forward_unshared": [100.0, 20.0],
        ...     "rows_backward_unshared": 0.0,
        ... })
        >>> sharing(table).select("seconds", "rows_forward", "rows_forward_unshared", "saving").row(0)
        (2.0, 20.0, 120.0, 6.0)
    """
    summed = ["seconds", "model_seconds", "rows_forward", "rows_forward_unshared"]
    rows, unshared = pl.col("rows_forward"), pl.col("rows_forward_unshared")
    return (
        costs.group_by("dataset", "model", maintain_order=True)
        .agg(
            pl.col("device").unique(maintain_order=True).str.join(", "),
            pl.col(*summed, "rows_backward", "rows_backward_unshared").sum(),
        )
        .with_columns(pl.when(rows > 0).then(unshared / rows).alias("saving"))
        .select("dataset", "model", "device", *summed, "saving", "rows_backward", "rows_backward_unshared")
    )


def _per_attribution(configurations: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    frames = [
        configurations.group_by(keys, maintain_order=True)
        .agg(
            pl.lit(kind).alias("kind"),
            pl.col("inputs").sum().alias("attributions"),
            pl.col(f"{kind}_rows").cast(pl.Float64).sum().alias("rows"),
            pl.col(f"{kind}_seconds").cast(pl.Float64).sum().alias("seconds"),
        )
        .with_row_index("_order")
        for kind in KINDS
    ]
    attributions = pl.col("attributions")
    return (
        pl.concat(frames)
        .sort("_order", maintain_order=True)
        .drop("_order")
        .with_columns(
            (pl.col("rows") / attributions).alias("rows_per_attribution"),
            (pl.col("seconds") / attributions).alias("seconds_per_attribution"),
        )
    )
