"""Scores of many inputs become one row per configuration, one box per method, curves over draws, and costs."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import polars as pl

from verax.study.tables import COST_COLUMNS, MetricInfo

_ROWS = ("attribution_rows", "guided_rows", "sampled_rows")  # what each kind of work cost; null where it was not done
KEYS = ("dataset", "model", "modality", "method", "configuration", "local")
KINDS = ("attribution", "guided", "sampled")
_AVERAGED = ("value", "resampled_sd", "analytic_se", "independent_sd", "per_input_resampled")


def configurations(scores: pl.DataFrame, metrics: Sequence[MetricInfo]) -> pl.DataFrame:
    """One row per configuration of each model, in the order in which they first appear.

    For each metric there is its mean over inputs under its own name and ``<metric>_error``, the standard error of that
    mean over inputs; for noisy ones also ``<metric>_mc_error``, the Monte-Carlo error of the mean,
    ``sqrt(sum se^2) / n``. Costs are summed; ``<kind>_inputs`` says over how many inputs.
    """
    columns = [metric.column for metric in metrics]
    costs = [name for name in COST_COLUMNS if name in scores.columns]
    norm = ["attribution_norm"] if "attribution_norm" in scores.columns else []
    grouped = scores.group_by("model", "configuration", maintain_order=True).agg(  # which settle the other keys
        pl.col("dataset", "modality", "method", "local").first(),
        pl.len().cast(pl.Int64).alias("inputs"),
        *(_wide(name).mean() for name in [*columns, *norm]),
        *((_wide(name).std() / pl.col(name).count().sqrt()).alias(f"{name}_error") for name in columns),
        *(
            pl.when(squares.count() > 0).then(squares.sum().sqrt() / squares.count()).alias(f"{column}_mc_error")
            for column in (metric.column for metric in metrics if metric.noisy)
            for squares in (_wide(f"{column}_se").pow(2),)
        ),
        *(_wide(name).sum() for name in costs),
        *(
            pl.col(name).count().cast(pl.Int64).alias(name.replace("_rows", "_inputs"))
            for name in costs
            if name in _ROWS
        ),
    )
    names = pl.col("dataset", "model", "modality", "method", "configuration").cast(pl.String)
    return grouped.select(*KEYS, pl.exclude(KEYS)).with_columns(names)


def methods(
    configurations: pl.DataFrame, metric: MetricInfo, by: Sequence[str] = ("dataset", "model", "method")
) -> pl.DataFrame:
    """One row per method of each model: count, extremes, median, best and worst of its configurations' means.

    Of equals the first counts as the better. Add ``"local"`` to ``by`` to keep Integrated Gradients and DeepLiftSHAP
    with and without input multiplication apart, as the paper's figures do.
    """
    value = pl.col(metric.column)
    ranked = pl.col("configuration").sort_by(value, descending=metric.higher_is_better, maintain_order=True)
    return (
        configurations.filter(value.is_not_null())
        .group_by(by, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            value.min().alias("min"),
            value.median().alias("median"),
            value.max().alias("max"),
            ranked.first().alias("best"),
            ranked.last().alias("worst"),
        )
    )


def _wide(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Float64)  # sums of many single-precision numbers lose digits


def curves(uncertainty: pl.DataFrame) -> pl.DataFrame:
    """One row per model, method and number of draws: averages over the method's configurations, as in the paper.

    Methods are in order of first appearance, draws ascend.
    """
    keys = ["dataset", "model", "method"]
    order = uncertainty.select(keys).unique(maintain_order=True).with_row_index("_order")
    averages = uncertainty.group_by(*keys, "draws").agg(pl.col(_AVERAGED).cast(pl.Float64).mean())
    return averages.join(order, on=keys).sort("_order", "draws").drop("_order")


def overlaps(curves: pl.DataFrame, deviation: str = "resampled_sd") -> pl.DataFrame:
    """How many pairs of methods have touching bands of one standard deviation, per model and number of draws.

    ``"resampled_sd"`` is that of the mean over all inputs, ``"per_input_resampled"`` is for judging by one input.
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


@dataclass(frozen=True)
class Crossover:
    """Rows of DPC and Infidelity for one input."""

    guided_rows: int  # rows of DPC per attribution
    draws: int  # rows of Infidelity per input, if shared by all attributions, or per attribution, if not
    ratio: float  # how many times fewer rows DPC needs for one attribution alone
    attributions: int  # from how many attributions of one input on shared Infidelity needs no more rows than DPC


def crossover(steps: int = 20, draws: int = 640, features: int | None = None) -> Crossover:
    """Where Infidelity whose draws are shared becomes cheaper than DPC: two curves of at most a step per feature."""
    for name, value in (("steps", steps), ("draws", draws), ("features", features)):
        if value is not None and value < 1:
            raise ValueError(f"{name}: expected a positive number, got {value!r}.")
    guided = 2 * min(steps, features or steps)
    return Crossover(guided, draws, draws / guided, -(-draws // guided))


def together(steps: int, features: int | None = None, *, signed: bool = False) -> int:
    """Rows per attribution of PC and DPC together: ``signed``, they share all rows, otherwise the end points alone."""
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


def settings_of(configuration: str) -> dict[str, Any]:
    """The settings of a configuration by name; a setting that is itself a configuration stays text.

    Example:
        >>> settings_of("IntegratedGradients(baseline='max', multiply_by_inputs=True, points=64)")
        {'baseline': 'max', 'multiply_by_inputs': True, 'points': 64}
        >>> settings_of("LimeImage(alpha=0.1, segmenter=Slic(n_segments=48, sigma=4.0))")["segmenter"]
        'Slic(n_segments=48, sigma=4.0)'
    """
    try:
        call = ast.parse(configuration, mode="eval").body
    except SyntaxError:
        call = None
    if not isinstance(call, ast.Call) or call.args:
        raise ValueError(f"configuration: expected a form such as 'SmoothGrad(sigma=0.1)', got {configuration!r}.")
    return {
        word.arg: ast.unparse(word.value) if isinstance(word.value, ast.Call) else ast.literal_eval(word.value)
        for word in call.keywords
        if word.arg is not None
    }


def method_of(configuration: str) -> str:
    return configuration.partition("(")[0]


def with_other_input_factor(configuration: str) -> str | None:
    """The configuration that differs only in whether it multiplies by the inputs, or None for other methods."""
    multiplied, alone = "multiply_by_inputs=True", "multiply_by_inputs=False"
    if multiplied in configuration:
        return configuration.replace(multiplied, alone)
    return configuration.replace(alone, multiplied) if alone in configuration else None
