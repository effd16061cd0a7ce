"""The best configurations of a model under a metric, their cost, and whether two metrics rank configurations alike."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor

from verax.attribution.names import is_reference, lime_methods
from verax.statistics.intervals import LEVEL, Estimate, estimates
from verax.statistics.paired import paired_difference, paired_differences
from verax.statistics.ranks import rank_correlation, ranks, tie_count, tied
from verax.study.summary import method_of
from verax.study.tables import (
    LEADING_DPC,
    LEADING_INFIDELITY,
    Floats,
    Matrix,
    MetricInfo,
    Places,
    Tables,
    common,
    estimate,
    interval,
    matrix,
)

_RANDOM = "Random"


@dataclass(frozen=True)
class Price:
    forward: float  # model rows
    backward: float  # those of them through which gradients are taken
    seconds: float  # measured; in proportion to the rows where the configuration shared some
    shared: bool  # whether these are the costs beside others of its family, because those of it alone are not known

    @property
    def rows(self) -> float:
        return self.forward + self.backward


@dataclass(frozen=True)
class Winner:
    """The explanation of a model that a metric rates best; references do not compete."""

    metric: MetricInfo
    configuration: str  # in its canonical form
    score: Estimate  # its mean over inputs
    inputs: int  # how many inputs that is
    others: int  # with how many other configurations it was compared
    ties: tuple[str, ...]  # those of them that are not significantly different from it, best first
    gain: Estimate | None  # how much better than chance, positive where it is better; None where chance is not known
    random: bool  # whether chance is the study's random attributions; else it is the metric's own number
    price: Price  # what it costs
    # the tie that needs the fewest model rows alone, and what it costs; None where no tie's are known
    cheapest: tuple[str, Price] | None

    @property
    def beats_chance(self) -> bool | None:
        """Whether it differs significantly from chance; None where chance is not known, or there is one input alone."""
        if self.gain is None or self.inputs < 2:
            return None
        return self.gain.low > 0


def winner(tables: Tables, model: str, metric: MetricInfo) -> Winner | None:
    """The best configuration of a model under a metric, or None where no explanation was measured.

    The best of many is compared with each of the others by the paired t-test over inputs, at ``1 - 0.05 / others``:
    however many there are, the one that is truly best is the winner or among its ties in 95 of 100 studies. Of
    configurations whose means differ by rounding alone the first is the winner and the others are ties.
    """
    scores = tables.matrix(model, metric.column)
    competing, values = _competing(scores, metric)
    if not competing:
        return None
    sign = _sign(metric)
    means = torch.from_numpy(tied(values.mean(1).numpy()))
    first, *rest = (int(place) for place in torch.sort(means, descending=True, stable=True).indices)
    level = 1 - (1 - LEVEL) / max(len(rest), 1)
    best = values[first]
    differences = zip(rest, paired_differences(best, values[rest], level) if rest else [], strict=True)
    ties = [
        competing[place] for place, difference in differences if means[place] == means[first] or difference.may_be_zero
    ]
    chance, random = _chance(scores, metric)
    costs = prices(tables, model)
    # what is shared depends on what else the study has, and is not compared
    cheapest = min((name for name in ties if not costs[name].shared), key=lambda name: costs[name].rows, default=None)
    return Winner(
        metric=metric,
        configuration=competing[first],
        score=estimates(sign * best[None])[0],
        inputs=len(scores.inputs),
        others=len(rest),
        ties=tuple(ties),
        gain=None if chance is None else paired_difference(best, sign * chance, level),
        random=random,
        price=costs[competing[first]],
        cheapest=None if cheapest is None else (cheapest, costs[cheapest]),
    )


def best_configuration(scores: pl.DataFrame, model: str, metric: MetricInfo) -> str | None:
    """The configuration that wins, without asking how sure that is; None where no explanation was measured."""
    competing, values = _competing(matrix(scores, model, metric.column), metric)
    return competing[int(tied(values.mean(1).numpy()).argmax())] if competing else None


def _competing(scores: Matrix, metric: MetricInfo) -> tuple[list[str], Tensor]:
    names = [name for name in scores.configurations if not is_reference(method_of(name))]
    return names, _sign(metric) * torch.tensor(scores.values[scores.places(names)])


def _sign(metric: MetricInfo) -> float:
    return 1.0 if metric.higher_is_better else -1.0


def prices(tables: Tables, model: str) -> dict[str, Price]:
    """What each configuration of a model costs per input, alone where that is known."""
    of_model = pl.col("model") == model
    costs = pl.col("attribution_rows", "attribution_rows_backward", "attribution_seconds").cast(pl.Float64)
    means = tables.scores.filter(of_model).group_by("configuration").agg(costs.mean().fill_null(0.0))
    alone = {name: (forward, backward) for _, name, forward, backward in tables.alone.filter(of_model).iter_rows()}
    costs_by_name = {}
    for name, forward, backward, seconds in means.iter_rows():
        if name in alone:
            scale = sum(alone[name]) / (forward + backward) if forward + backward else 1.0
            costs_by_name[name] = Price(*alone[name], seconds * scale, shared=False)
        else:
            costs_by_name[name] = Price(forward, backward, seconds, shared=True)
    return costs_by_name


def _chance(scores: Matrix, metric: MetricInfo) -> tuple[Tensor | None, bool]:
    random = [name for name in scores.configurations if method_of(name) == _RANDOM]
    if random:
        return torch.tensor(scores.values[scores.places(random)]).mean(0), True
    if metric.chance is None:
        return None, False
    return torch.full((len(scores.inputs),), metric.chance, dtype=torch.float64), False


SET_RESAMPLES = 200  # sets are found one by one
FRACTION = 0.1  # of the model's median norm: what is smaller is nearly zero


@dataclass(frozen=True)
class Agreement:
    """Spearman correlation of two metrics over configurations, with its 95 % interval over inputs.

    It is NaN where a metric ranks nothing, or with fewer than two configurations or inputs.
    """

    spearman: Estimate
    configurations: int
    inputs: int
    ties: tuple[int, int] = (0, 0)  # how many configurations share their rank with another, under either metric

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
    """The LIME configurations whose mean norm is below a tenth of the model's median: too much regularised."""
    norm = pl.col("attribution_norm")
    lime = configurations.filter(pl.col("method").cast(pl.String).is_in(lime_methods()))
    return lime.filter(norm / norm.median().over("model") < FRACTION)
