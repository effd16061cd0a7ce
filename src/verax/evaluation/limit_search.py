"""Runs what limits need of a model: all removed sets of each input where the rows allow it, a beam search elsewhere."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from verax.attribution.shapley import exact_shapley
from verax.core import noise
from verax.core.shapes import Float, Int
from verax.evaluation.limit_parts import Part, by_element, part_of, parts, shared_out
from verax.metrics.base import GuidedMetric
from verax.metrics.limit_reading import ChainReading, Extremes, signing_of
from verax.metrics.limits import beam_extremes, beam_rows, exact_extremes
from verax.metrics.weighted_area import DirectedArea
from verax.perturbation.block import cut_points, ranks, removal_order
from verax.perturbation.guided import GuidedScores, guided_scores
from verax.problem.attributed import Attributed, Task
from verax.problem.features import FeatureMap
from verax.problem.replacement import Replacement
from verax.scoring.session import Session

_FEWEST = 8  # inputs: the exact limits of fewer say less than bounds for all
_WIDEST = 32  # chains that a search follows: more hardly find better ones


def _planned(
    problem: Attributed, readings: Callable[[int], Iterable[ChainReading]], rows: int
) -> tuple[Int[Tensor, " m"], int]:
    """Which inputs limits are found for, and the width of the beam search, 0 where all sets are scored.

    Exact limits of all inputs where the rows allow it, then of some, then bounds for all, then for some; some are drawn
    at random, by their values alone.
    """
    count = len(problem)
    features = problem.features.counts(slice(None)).cpu().expand(count)
    lots = noise.input_keys(problem.inputs.cpu(), 0, "limits").argsort(stable=True)
    sets = 2.0 ** features.double()
    each = {d: sum(beam_rows(d, reading) for reading in set(readings(d))) for d in set(features.tolist())}
    searched = torch.tensor([each[d] for d in features.tolist()]).double()
    # as many inputs as fit into the rows, in the order of their lots; listed in their own
    exact, search = (lots[each_rows[lots].cumsum(0) <= rows].sort().values for each_rows in (sets, searched))
    if len(exact) >= max(1, min(_FEWEST, count, len(search))):
        return exact, 0
    if len(search) == 0:
        least = int(torch.minimum(sets, searched).min())
        raise ValueError(
            f"features: limits of an input with {int(features.min()):,} features take {least:,} model rows or more, "
            f"and {rows:,} can be spent on them; group the features (superpixels, columns that belong together), or "
            "raise rows."
        )
    return search, max(1, min(_WIDEST, int(rows / searched.sum())))


def in_own_steps(
    session: Session, task: Task, metric: GuidedMetric, which: Int[Tensor, " m"], chains: Sequence[Extremes]
) -> Extremes:
    """The best and the worst of some attributions, scored as the metric does, in its own steps with its own rule."""
    part = part_of(session, task, which)
    first, *others = chains
    values = [first.attribution[part.which], first.opposite[part.which]]
    for other in others:
        alike = _one_sign_per_step(part, metric, other.attribution[part.which])
        values += [alike, -alike]
    stacked = torch.stack(values)
    drawn = [metric.reduce(_guided(replace(part, task=task), metric, stacked)) for task in part.draws]
    scores = torch.stack(drawn).mean(0).to(stacked)
    best, worst = scores.max(0), scores.min(0)
    rows = torch.arange(len(which), device=stacked.device)
    chance = first.chance[part.which]
    if isinstance(metric, DirectedArea) and metric.chance is None:  # steps of several features have other signs
        chance = torch.full_like(chance, torch.nan)
    return Extremes(
        best=best.values,
        worst=worst.values,
        attribution=stacked[best.indices, rows],
        opposite=stacked[worst.indices, rows],
        chance=chance,
    )


def _guided(part: Part, metric: GuidedMetric, values: Float[Tensor, "k m features"]) -> GuidedScores:
    """Run the metric's experiment on attributions of one value per feature."""
    problem = part.task.problem
    spread = shared_out(part.task, metric, values.nan_to_num()).to(problem.inputs.device)
    rated = replace(
        problem,
        attributions=tuple(spread),
        precision=torch.full((len(values), 1, 1), torch.finfo(torch.float64).eps, dtype=torch.float64),
        layout=replace(problem.layout, form="stack", names=()),
    )
    (scores,) = guided_scores(part.session, replace(part.task, problem=rated), [metric.experiment])
    return scores


def _one_sign_per_step(
    part: Part, metric: GuidedMetric, values: Float[Tensor, "m features"]
) -> Float[Tensor, "m features"]:
    """Keep the order of a positive attribution, and give all features of a MoRF step the sign for which it counts."""
    scores = _guided(part, metric, values[None])
    problem = part.task.problem
    counts = problem.features.counts(slice(None)).cpu()
    order = removal_order(values.nan_to_num(), "magnitude", counts.expand(len(values)))
    cuts = cut_points(counts, metric.experiment.steps, problem.features.most)[:, 1:].to(order.device)
    place = ranks(order).long()
    step = torch.searchsorted(cuts.expand(len(order), -1).contiguous(), place, right=True)
    signs = _step_signs(metric, scores).to(values)
    return values * signs.gather(1, step.clamp(max=signs.shape[1] - 1))


def _step_signs(metric: GuidedMetric, scores: GuidedScores) -> Float[Tensor, "m steps"]:
    """For each MoRF step, the sign of attributions for which its change, and that of the LeRF step over it, count."""
    curves, direction = scores.curves[0].double(), scores.direction_sign[0, :, 0]
    weights = curves.new_zeros((len(scores.points), curves.shape[-1] - 1))
    for points in set(scores.points.tolist()):
        fall = ChainReading.of(metric, points - 1).fall or ()
        weights[scores.points == points, : points - 1] = torch.tensor(fall).to(weights)
    change = weights[:, None] * curves.diff(dim=-1)
    gain = -change[:, 0]
    if curves.shape[1] > 1:
        step = torch.arange(weights.shape[1], device=weights.device)
        gain = gain + change[:, 1].gather(1, (scores.points[:, None] - 2 - step).clamp(min=0))
    return torch.where(gain * direction < 0, -1.0, 1.0)


@dataclass(frozen=True)
class InputLimits:
    """The limits of all inputs under one metric, NaN where there are none."""

    extremes: Extremes  # best, worst and chance, with attributions of one value per feature
    shapley: Float[Tensor, "n features"] | None  # Shapley values of each feature; None where not all sets were scored
    exact: bool  # whether they are limits, not bounds
    method: str  # how they were found, in words


def caution(problem: Attributed, metrics: Mapping[str, GuidedMetric], rows: int) -> str | None:
    """Raise, before any work, for what the rows do not allow; say for how many inputs they do, where not for all."""
    fewest = min(len(group.which) for group in _alike(problem, metrics, rows))
    if fewest == len(problem):
        return None
    return (
        f"limits: {rows:,} model rows allow those of {fewest:,} of {len(problem):,} inputs, drawn at random; the "
        "others are NaN. Raise rows, or pass fewer inputs."
    )


def found_limits(
    session: Session, task: Task, metrics: Mapping[str, GuidedMetric], rows: int
) -> dict[str, InputLimits]:
    """Limits of several metrics; those whose removed features become the same share their model rows."""
    limits: dict[str, InputLimits] = {}
    for alike in _alike(task.problem, metrics, rows):
        limits |= _limits_of(session, replace(task, replacement=alike.replacement), alike)
    return {name: limits[name] for name in metrics}


@dataclass(frozen=True)
class _Alike:
    """Metrics whose removed features become the same, so that they share model rows."""

    replacement: Replacement  # what they become
    metrics: dict[str, GuidedMetric]  # by name
    features: FeatureMap  # of the inputs
    which: Int[Tensor, " m"]  # numbers of the inputs whose limits are found
    width: int  # of the beam search; 0 where all sets are scored


def _alike(problem: Attributed, metrics: Mapping[str, GuidedMetric], rows: int) -> list[_Alike]:
    replacements = {name: metric.experiment.replacement or problem.replacement for name, metric in metrics.items()}
    kinds, groups = list(dict.fromkeys(replacements.values())), []
    for kind in kinds:
        same = {name: metric for name, metric in metrics.items() if replacements[name] == kind}

        def readings(count: int, same: dict[str, GuidedMetric] = same) -> Iterable[ChainReading]:
            return _readings(same, problem.features, count).values()

        each = rows // (len(kinds) * problem.fitted(kind).repeats)
        groups.append(_Alike(kind, same, problem.features, *_planned(problem, readings, each)))
    return groups


def _limits_of(session: Session, task: Task, alike: _Alike) -> dict[str, InputLimits]:
    inputs, most = len(task.problem), task.problem.features.most
    keys = _readings(alike.metrics, alike.features, 1)  # of each metric, one for each way to read chains
    tables = {key: _blank(inputs, most, session.device) for key in keys}
    shapley = _search(session, task, alike, tables)
    limits = {}
    for name, metric in alike.metrics.items():
        method = f"a search {alike.width} wide" if alike.width else "all removed sets"
        chains = [table for key, table in tables.items() if key[0] == name]
        extremes, coarse = chains[0], metric.experiment.steps < most
        if coarse:
            method += f", then in {metric.experiment.steps} steps"
            extremes = _blank(inputs, most, session.device)
            _put(extremes, alike.which.to(session.device), in_own_steps(session, task, metric, alike.which, chains))
        limits[name] = InputLimits(extremes, shapley, not coarse and not alike.width, method)
    return limits


def _readings(
    metrics: Mapping[str, GuidedMetric], features: FeatureMap, count: int
) -> dict[tuple[str, int], ChainReading]:
    """How metrics read a chain of so many features; where steps hold several, also as the metric would without signs.

    In magnitude order a step of several features has one sign, and the best chain without signs has steps of one sign.
    """
    by_metric = {}
    for name, metric in metrics.items():
        by_metric[name, 0] = ChainReading.of(metric, count, predicted=by_element(metric, features))
        if metric.experiment.steps < features.most and signing_of(metric) == "magnitude":
            by_metric[name, 1] = ChainReading.of(metric, count, factor="none")
    return by_metric


def _search(
    session: Session, task: Task, alike: _Alike, tables: Mapping[tuple[str, int], Extremes]
) -> Float[Tensor, "n features"] | None:
    """Fill the tables, and give the Shapley values where all sets were scored."""
    shape = (len(task.problem), task.problem.features.most)
    shapley = torch.full(shape, torch.nan, dtype=torch.float64, device=session.device)
    for part in parts(session, task, alike.which):
        readings = _readings(alike.metrics, alike.features, part.features)
        for block in part.blocks(alike.width):
            which = part.which[block.rows]
            scores = None if alike.width else part.all_scores(block)
            for reading in dict.fromkeys(readings.values()):
                sums = block.direction
                direction = (sums.free_signs() if reading.predicted else sums.signs()).double()
                if scores is None:
                    extremes = beam_extremes(part.scores_of(block), direction, reading, alike.width)
                else:
                    extremes = exact_extremes(scores, direction, reading)
                for key in (key for key, other in readings.items() if other == reading):
                    _put(tables[key], which, extremes)
            if scores is not None:  # whose places say what is removed; Shapley's say what is kept
                shapley[which, : part.features] = exact_shapley(scores.flip(1))
        part.session.settle()
    return None if alike.width else shapley


def _blank(inputs: int, features: int, device: torch.device) -> Extremes:
    """Limits of inputs that are not known yet."""
    line, table = (
        torch.full(shape, torch.nan, dtype=torch.float64, device=device) for shape in ((inputs,), (inputs, features))
    )
    return Extremes(line, line.clone(), table, table.clone(), line.clone())


def _put(table: Extremes, which: Int[Tensor, " b"], extremes: Extremes) -> None:
    """Store the limits of some inputs."""
    table.best[which], table.worst[which], table.chance[which] = extremes.best, extremes.worst, extremes.chance
    table.attribution[which, : extremes.attribution.shape[1]] = extremes.attribution
    table.opposite[which, : extremes.opposite.shape[1]] = extremes.opposite
