"""Runs what limits need of a model: all removed sets of each input where the rows allow it, a beam search elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from verax.attribution.shapley import exact_shapley
from verax.core.shapes import Float, Int
from verax.evaluation.limit_elements import by_element
from verax.evaluation.limit_parts import parts
from verax.evaluation.limit_plan import Plan, planned
from verax.evaluation.limit_steps import in_own_steps
from verax.metrics.limit_beam import beam_extremes
from verax.metrics.limit_reading import ChainReading, Extremes
from verax.metrics.limits import exact_extremes
from verax.metrics.weighted_area import WeightedArea
from verax.problem.attributed import Attributed, Task
from verax.problem.features import FeatureMap
from verax.problem.replacement import Replacement
from verax.scoring.session import Session


@dataclass(frozen=True)
class Found:
    """The limits of all inputs under one metric, NaN where there are none.

    Attributes:
        extremes: Best, worst and chance, with attributions of one value per feature.
        shapley: Shapley values of each feature; None where not all sets were scored.
        exact: Whether they are limits, not bounds.
        method: How they were found, in words.
    """

    extremes: Extremes
    shapley: Float[Tensor, "n features"] | None
    exact: bool
    method: str


def caution(problem: Attributed, metrics: Mapping[str, WeightedArea], rows: int) -> str | None:
    """Refuse, before any work, what the rows do not allow; say for how many inputs they do, where not for all."""
    fewest = min(len(one.plan.which) for one in _alike(problem, metrics, rows))
    if fewest == len(problem):
        return None
    return (
        f"limits: {rows:,} model rows allow those of {fewest:,} of {len(problem):,} inputs, drawn at random; the "
        "others are NaN. Raise rows, or pass fewer inputs."
    )


def found_limits(session: Session, task: Task, metrics: Mapping[str, WeightedArea], rows: int) -> dict[str, Found]:
    """Limits of several metrics; those whose removed features become the same share their model rows.

    Args:
        session: The model.
        task: Inputs, baselines, features, classes.
        metrics: What is measured, by name.
        rows: Model rows to spend in all.
    """
    found: dict[str, Found] = {}
    for alike in _alike(task.problem, metrics, rows):
        found |= _found(session, replace(task, replacement=alike.replacement), alike)
    return {name: found[name] for name in metrics}


@dataclass(frozen=True)
class _Alike:
    """Metrics whose removed features become the same, so that they share model rows.

    Attributes:
        replacement: What they become.
        metrics: By name.
        readings: How each reads chains.
        plan: For which inputs, and how.
    """

    replacement: Replacement
    metrics: dict[str, WeightedArea]
    readings: dict[str, list[ChainReading]]
    plan: Plan


def _alike(problem: Attributed, metrics: Mapping[str, WeightedArea], rows: int) -> list[_Alike]:
    own = {name: metric.experiment.replacement or problem.replacement for name, metric in metrics.items()}
    kinds, found = list(dict.fromkeys(own.values())), []
    for kind in kinds:
        same = {name: metric for name, metric in metrics.items() if own[name] == kind}
        readings = {name: _readings(metric, problem.features) for name, metric in same.items()}
        distinct = list(dict.fromkeys(reading for several in readings.values() for reading in several))
        found.append(_Alike(kind, same, readings, planned(problem, distinct, rows // len(kinds))))
    return found


def _found(session: Session, task: Task, alike: _Alike) -> dict[str, Found]:
    plan, (inputs, most) = alike.plan, (len(task.problem), task.problem.features.most)
    tables = {one: _blank(inputs, most, session.device) for several in alike.readings.values() for one in several}
    shapley = _search(session, task, plan, tables)
    found = {}
    for name, metric in alike.metrics.items():
        method = f"a search {plan.width} wide" if plan.width else "all removed sets"
        chains, steps = [tables[one] for one in alike.readings[name]], alike.readings[name][0].steps
        extremes = chains[0]
        if steps is not None:
            method += f", then in {steps} steps"
            extremes = _blank(inputs, most, session.device)
            _put(extremes, plan.which.to(session.device), in_own_steps(session, task, metric, plan.which, chains))
        found[name] = Found(extremes, shapley, steps is None and not plan.width, method)
    return found


def _readings(metric: WeightedArea, features: FeatureMap) -> list[ChainReading]:
    """How a metric reads a chain of removed sets; where its steps hold several features, also as PC would read it.

    In magnitude order a step of several features has one sign, and PC's best chain has steps of one sign.
    """
    factor, experiment = metric.signing, metric.experiment
    steps = None if experiment.steps >= features.most else experiment.steps
    as_pc = ChainReading("none", experiment.area, metric.form, steps)
    own = replace(as_pc, factor=factor, predicted=by_element(metric, features))
    return [own] if steps is None or factor != "magnitude" else [own, as_pc]


def _search(
    session: Session, task: Task, plan: Plan, tables: Mapping[ChainReading, Extremes]
) -> Float[Tensor, "n features"] | None:
    """Fill the tables, and give the Shapley values where all sets were scored."""
    shape = (len(task.problem), task.problem.features.most)
    shapley = torch.full(shape, torch.nan, dtype=torch.float64, device=session.device)
    for part in parts(session, task, plan.which):
        for block in part.blocks(plan.width):
            which = part.which[block.rows]
            scores = None if plan.width else part.all_scores(block)
            for reading, table in tables.items():
                sums = block.direction
                direction = (sums.free_signs() if reading.predicted else sums.signs()).double()
                if scores is None:
                    _put(table, which, beam_extremes(part.scores_of(block), direction, reading, plan.width))
                else:
                    _put(table, which, exact_extremes(scores, direction, reading))
            if scores is not None:  # whose places say what is removed; Shapley's say what is kept
                shapley[which, : part.features] = exact_shapley(scores.flip(1))
        part.session.settle()
    return None if plan.width else shapley


def _blank(inputs: int, features: int, device: torch.device) -> Extremes:
    """Limits of inputs that are not known yet."""
    line, table = (
        torch.full(shape, torch.nan, dtype=torch.float64, device=device) for shape in ((inputs,), (inputs, features))
    )
    return Extremes(line, line.clone(), table, table.clone(), line.clone())


def _put(table: Extremes, which: Int[Tensor, " b"], found: Extremes) -> None:
    """Store the limits of some inputs."""
    table.best[which], table.worst[which], table.chance[which] = found.best, found.worst, found.chance
    table.attribution[which, : found.attribution.shape[1]] = found.attribution
    table.opposite[which, : found.opposite.shape[1]] = found.opposite
