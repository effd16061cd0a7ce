"""What the metrics and the methods cost, in model rows and in seconds, and what sharing evaluations saves.

An *attribution* here is one configuration on one input, the unit in which the paper counts: DPC needs 40 rows per
attribution at 20 steps; Infidelity needs its draws, 640 or 1,280, which all attributions of an input can share.
"""

from dataclasses import dataclass

import polars as pl

KINDS = ("attribution", "guided", "sampled")


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
    number of features.
    """
    for name, value in (("steps", steps), ("draws", draws), ("features", features)):
        if value is not None and value < 1:
            raise ValueError(f"{name}: expected a positive number, got {value!r}.")
    guided = 2 * min(steps, features or steps)
    return Crossover(guided, draws, draws / guided, -(-draws // guided))


def together(steps: int, features: int | None = None, *, signed: bool = False) -> int:
    """Rows per attribution of PC and DPC together.

    With ``signed`` both rank by signed attribution and share every row. Otherwise DPC ranks by magnitude and shares
    only the end points with PC: ``2 + 4 (n - 1)``.
    """
    n = min(steps, features or steps)
    return 2 + (2 if signed else 4) * (n - 1) if n > 1 else 2


def by_kind(configurations: pl.DataFrame) -> pl.DataFrame:
    """One row per model and kind of work (``"guided"`` and ``"sampled"`` are metrics), evaluations shared.

    Attributions are those for which the work was done: metrics with a limit leave some out.
    """
    frames = [
        configurations.group_by("dataset", "model", maintain_order=True)
        .agg(
            pl.lit(kind).alias("kind"),
            pl.col(f"{kind}_inputs").sum().alias("attributions"),
            *(pl.col(f"{kind}_{what}").cast(pl.Float64).sum().alias(what) for what in ("rows", "seconds")),
        )
        .with_row_index("_order")
        for kind in KINDS
    ]
    each = (pl.col("rows", "seconds") / pl.col("attributions")).name.suffix("_per_attribution")
    return pl.concat(frames).sort("_order", maintain_order=True).drop("_order").with_columns(each)


def sharing(costs: pl.DataFrame) -> pl.DataFrame:
    """One row per model: rows run, rows that a run without sharing would need, and how many times more that is."""
    rows, unshared = pl.col("rows_forward"), pl.col("rows_forward_unshared")
    return costs.group_by("dataset", "model", maintain_order=True).agg(
        pl.col("device").unique(maintain_order=True).str.join(", "),
        pl.col("seconds", "model_seconds", "rows_forward", "rows_forward_unshared").sum(),
        pl.when(rows.sum() > 0).then(unshared.sum() / rows.sum()).alias("saving"),
        pl.col("rows_backward", "rows_backward_unshared").sum(),
    )
