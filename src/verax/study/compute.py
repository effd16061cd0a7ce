"""One unit of work: all configurations of one model on some inputs, explained and measured, as a table."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from verax.attribution import Attribution, Family, families, stream
from verax.core.shapes import Float
from verax.evaluation.evaluate import evaluate
from verax.evaluation.result import Evaluation
from verax.metrics.base import GuidedMetric, SampledMetric
from verax.scoring.meter import Cost, Mark, Rows
from verax.study.explained_models import ExplainedModel, Machine, known_warnings_silenced
from verax.study.metrics import StudyMetrics, described, is_drawn
from verax.study.store import Cache
from verax.study.tables import COST_COLUMNS, scores_schema
from verax.study.units import attributions_key

Tell = Callable[[str], None]
Groups = dict[Family, list[Attribution]]
Spent = Callable[[], Cost]  # asked for when all is queued: to know it, the host waits for a GPU


@dataclass(frozen=True)
class Explanations:
    """Attributions of some inputs by every configuration, with what they cost."""

    values: dict[str, Float[Tensor, "n *shape"]]  # by the configuration's name in tables
    # rows forward, backward and seconds by the same name: an even share of what the family cost, and of the unperturbed
    # inputs. What came from the cache counts as much as when it was computed.
    shares: dict[str, tuple[float, float, float]]
    total: Cost  # what all cost


def explain(
    model: ExplainedModel,
    configurations: Sequence[Attribution],
    rows: slice,
    machine: Machine,
    cache: Cache,
    tell: Tell = lambda family: None,
    *,
    again: bool = False,
) -> Explanations:
    """Attributions of some inputs, from the cache where they are there, and put there where not.

    What is in the cache costs what it cost when it was computed, or nothing where that was counted before (``again``).
    """
    used = {method.canonical: model.used(method) for method in configurations}
    groups = families(list(dict.fromkeys(used.values())))  # two names may be computed as one
    inputs = model.inputs[rows].to(machine.device)
    keys = {family: attributions_key(model, rows, family, members) for family, members in groups.items()}
    values: dict[Attribution, Float[Tensor, "n *shape"]] = {}
    costs: dict[Family, Spent] = {}
    missing: Groups = {}
    for family, members in groups.items():
        kept = cache.get(keys[family], (len(members), *inputs.shape))
        if kept is None:
            missing[family] = members
        else:
            values |= dict(zip(members, kept[0].to(machine.device), strict=True))
            costs[family] = Cost if again else partial(Cost, kept[1].rows, kept[1].seconds)
    for family, stack, spent in _computed(model, missing, rows, inputs, machine, tell) if missing else ():
        if cache.takes(stack):
            cache.put(keys[family], stack, spent())
        values |= dict(zip(missing[family], stack, strict=True))
        costs[family] = spent
    counts = Counter(method.family for method in used.values())
    each: dict[Family, tuple[float, float, float]] = {}
    # the unperturbed inputs, which no family pays for alone
    clean = 0 if all(spent is Cost for spent in costs.values()) else len(inputs)
    total = Cost(Rows(clean))
    for family, spent in costs.items():
        cost, count = spent(), counts[family]
        forward = clean / len(used) + cost.rows.forward / count
        each[family] = (forward, cost.rows.backward / count, cost.seconds / count)
        total += cost
    shares = {name: each[method.family] for name, method in used.items()}
    return Explanations({name: values[method] for name, method in used.items()}, shares, total)


def _computed(
    model: ExplainedModel, groups: Groups, rows: slice, inputs: Float[Tensor, "n *shape"], machine: Machine, tell: Tell
) -> Iterator[tuple[Family, Float[Tensor, "k n *shape"], Spent]]:
    scorer = model.scorer(machine.compile)
    pieces = stream(groups, model.problem(rows, machine))
    start = end = Mark.of(scorer.counts, inputs.device)
    clean = Rows(-len(inputs))  # the unperturbed inputs are scored first and belong to no family
    current: Family | None = None
    values = torch.empty(0)

    def spent(start: Mark, end: Mark, further: Rows) -> Cost:
        return end.since(start) + Cost(further)

    for family, piece in pieces:
        if family is not current:
            if current is not None:
                yield current, values, partial(spent, start, end, clean)
                clean = Rows(0)
            current, start = family, end
            tell(groups[family][0].label)
            values = torch.empty(len(groups[family]), *inputs.shape, dtype=inputs.dtype, device=inputs.device)
        values[:, piece.rows] = piece.values.to(values)
        end = Mark.of(scorer.counts, inputs.device)
    if current is not None:
        yield current, values, partial(spent, start, end, clean)


@dataclass(frozen=True)
class UnitResult:
    table: pl.DataFrame
    costs: dict[str, Any]


def compute(
    model: ExplainedModel,
    rows: slice,
    metrics: StudyMetrics,
    machine: Machine,
    cache: Cache,
    tell: Tell = lambda family: None,
    *,
    again: bool = False,
) -> UnitResult:
    """Explain some inputs by every configuration of the model and measure every metric that some of them have."""
    began = time.perf_counter()
    scorer = model.scorer(machine.compile)
    at_first = scorer.model_seconds
    explanations = explain(model, model.configurations, rows, machine, cache, tell, again=again)
    tell("metrics")
    before, spared = scorer.model_seconds, scorer.rows_spared
    with known_warnings_silenced():
        problem = model.problem(rows, machine, background=False)
        evaluation = evaluate(problem, explanations.values, metrics.on_data(rows, model.background))
    guided, sampled = _costs(evaluation)
    table = _table(model, rows, explanations, evaluation, metrics)
    # a metric whose limit ends among the inputs was measured on all of them, for the same bits as without the limit
    place = pl.int_range(pl.len()) % (rows.stop - rows.start)
    table = table.with_columns(
        pl.when(place < count).then(pl.col(name)).alias(name)
        for column, count in metrics.cut(rows).items()
        for name in (column, f"{column}_se")
        if name in table.columns
    )
    costs = {
        "seconds": time.perf_counter() - began,
        "model_seconds": scorer.model_seconds - at_first if machine.device == "cpu" else None,
        "metric_model_seconds": scorer.model_seconds - before if machine.device == "cpu" else None,
        "attribution_seconds": explanations.total.seconds,
        "guided_seconds": guided.seconds,
        "sampled_seconds": sampled.seconds,
        "rows_forward": explanations.total.rows.forward + evaluation.rows,
        "rows_backward": explanations.total.rows.backward,
        "rows_spared": scorer.rows_spared - spared,
        "attribution_rows": explanations.total.rows.forward,
        "guided_rows": guided.rows.forward,
        "sampled_rows": sampled.rows.forward,
        "device": machine.name,
    }
    return UnitResult(table, costs)


def _costs(evaluation: Evaluation) -> tuple[Cost, Cost]:
    """What the guided pass cost, with the unperturbed inputs, and what all random draws cost."""
    results = evaluation.values()
    guided = next((result for result in results if isinstance(result.metric, GuidedMetric)), None)
    first = Cost() if guided is None else Cost(Rows(guided.rows), guided.seconds)
    if not any(isinstance(result.metric, SampledMetric) for result in results):
        return first, Cost()
    return first, Cost(Rows(evaluation.rows - first.rows.forward), evaluation.seconds - first.seconds)


def _table(
    model: ExplainedModel, rows: slice, explanations: Explanations, evaluation: Evaluation, metrics: StudyMetrics
) -> pl.DataFrame:
    """One row per configuration and input, configurations first; what was not measured is null."""
    names = _names(model, rows, evaluation)
    measured = _scores(explanations, evaluation) | _shares(model, rows.stop - rows.start, explanations, evaluation)
    infos = [
        described(name, metric, f"{name}_se" in measured if name in evaluation else is_drawn(metric))
        for name, metric in metrics.items()
    ]
    schema = scores_schema(infos)
    whole = names.with_columns(pl.Series(name, values, schema[name]) for name, values in measured.items())
    return whole.select(
        (pl.col(name) if name in whole.columns else pl.lit(None).alias(name)).cast(kind)
        for name, kind in schema.items()
    )


def _names(model: ExplainedModel, rows: slice, evaluation: Evaluation) -> pl.DataFrame:
    numbers = model.rows[rows].tolist()
    inputs = pl.DataFrame(
        {
            "dataset": model.dataset.name,
            "model": model.name,
            "modality": model.modality,
            "input": numbers,
            "input_id": [model.dataset.ids[row] for row in numbers],
            "target": next(iter(evaluation.values())).target.tolist(),
        }
    )
    configurations = pl.DataFrame(
        {
            "method": [type(method).__name__ for method in model.configurations],
            "configuration": [method.canonical for method in model.configurations],
            "local": [method.local for method in model.configurations],
        }
    )
    return configurations.join(inputs, how="cross", maintain_order="left_right")


def _scores(explanations: Explanations, evaluation: Evaluation) -> dict[str, Any]:
    norms = [
        torch.linalg.vector_norm(values.flatten(1), dim=1, dtype=torch.float64)
        for values in explanations.values.values()
    ]
    columns = {"attribution_norm": torch.stack(norms)}
    for name, result in evaluation.items():
        columns[name] = result.scores
        errors = getattr(result, "errors", getattr(result, "draw_errors", None))
        if errors is not None:
            columns[f"{name}_se"] = errors
    return {name: values.flatten().cpu().numpy() for name, values in columns.items()}


def _shares(model: ExplainedModel, n: int, explanations: Explanations, evaluation: Evaluation) -> dict[str, Any]:
    """Even shares of what families and metrics cost, so that sums over the table are totals; none of no such metric."""
    each = [explanations.shares[method.canonical] for method in model.configurations]
    count = len(each) * n
    columns = [np.repeat([share[place] / n for share in each], n) for place in range(3)]
    shares = dict(zip(COST_COLUMNS, columns, strict=False))
    for name, kind, cost in zip(("guided", "sampled"), (GuidedMetric, SampledMetric), _costs(evaluation), strict=True):
        if any(isinstance(result.metric, kind) for result in evaluation.values()):
            shares |= {f"{name}_rows": np.full(count, cost.rows.forward / count)}
            shares |= {f"{name}_seconds": np.full(count, cost.seconds / count)}
    return shares
