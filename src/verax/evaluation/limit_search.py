"""What limits need of a model: all removed sets of each input where the rows allow it, a beam search elsewhere."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from verax.attribution.coalitions import removable, spread_evenly, spread_over
from verax.attribution.shapley import exact_shapley
from verax.core import noise
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Bool, Float, Int
from verax.metrics.base import GuidedMetric
from verax.metrics.limit_reading import ChainReading, Extremes, signing_of
from verax.metrics.limits import beam_extremes, beam_rows, exact_extremes
from verax.metrics.weighted_area import DirectedArea
from verax.perturbation.block import Block, PerturbedRows, cut_points, direction_sums, load, ranks, removal_order
from verax.perturbation.guided import GuidedScores, guided_scores
from verax.perturbation.removed_sets import set_type
from verax.perturbation.set_scores import score_sets
from verax.problem.attributed import Attributed, Task
from verax.problem.features import FeatureMap
from verax.problem.inputs import undirected
from verax.problem.replacement import Replacement
from verax.scoring.session import Session

_FEWEST = 8  # inputs: the exact limits of fewer say less than bounds for all
_WIDEST = 32  # chains that a search follows: more hardly find better ones


@dataclass(frozen=True)
class Part:
    """Some inputs of a task as a task of their own."""

    session: Session  # the model, with what travels along with these inputs
    task: Task  # the inputs
    which: Int[Tensor, " m"]  # their numbers, on the session's device

    @property
    def features(self) -> int:
        """The most features that any has."""
        return self.task.problem.features.most

    def blocks(self, width: int) -> Iterator[Block]:
        """Cut the inputs so that the tables of a block, or its removed sets, stay small."""
        d = self.features
        each = width * d * (d + 64) if width else 128 * 2**d
        for rows in pieces(len(self.which), max(1, block_bytes(self.session.device) // each)):
            yield load(self.session, self.task, rows, slice(0, 1), False)

    @property
    def draws(self) -> list[Task]:
        """The task with each draw of what removed features become; itself where they are not drawn."""
        return [replace(self.task, draw=draw) for draw in range(self.task.moves.repeats)]

    def _drawn(self, block: Block) -> Iterator[tuple[Task, Block]]:
        for task in self.draws:
            again = block if task.draw == self.task.draw else load(self.session, task, block.rows, block.which, False)
            yield task, again

    def all_scores(self, block: Block) -> Float[Tensor, "b sets"]:
        """Mean scores over draws of all removed sets, feature ``i`` removed where bit ``i`` of the place is 1."""
        kind = set_type(self.features)
        sets = torch.arange(2**self.features, dtype=kind, device=self.session.device).expand(len(block.inputs), -1)
        drawn = (score_sets(self.session, task, again, sets) for task, again in self._drawn(block))
        return _mean(drawn, len(self.draws))

    def scores_of(self, block: Block) -> Callable[[Tensor], Tensor]:
        """What scores any removed sets ``(b, sets, features)`` of a block's inputs, on average over draws."""
        each = [partial(score_masks, PerturbedRows(self.session, *drawn), self.session) for drawn in self._drawn(block)]
        return lambda removed: _mean((score(removed) for score in each), len(each))


def score_masks(
    rows: PerturbedRows, session: Session, removed: Bool[Tensor, "b sets features"]
) -> Float[Tensor, "b sets"]:
    """Scores of a block's inputs without some of their features."""
    flat, sets = removed.flatten(0, 1), removed.shape[1]
    owner = torch.arange(len(flat), device=session.device) // sets

    def build(start: int, stop: int) -> Tensor:
        return rows(flat[start:stop], owner[start:stop])

    scores = session.target_scores(build, owner + rows.block.rows.start, rows.task.target, streamed=True)
    return scores.reshape(removed.shape[:2])


def _mean(drawn: Iterator[Tensor], count: int) -> Tensor:
    """The mean over so many draws, in double precision where there are several."""
    first = next(drawn)
    return first if count == 1 else sum((scores.double() for scores in drawn), start=first.double()) / count


def parts(session: Session, task: Task, which: Int[Tensor, " m"]) -> Iterator[Part]:
    """The inputs by their number of features."""
    counts = task.problem.features.counts(slice(None)).cpu().expand(len(task.problem))[which]
    for count in sorted(set(counts.tolist())):
        yield part_of(session, task, which[counts == count])


def part_of(session: Session, task: Task, which: Int[Tensor, " m"]) -> Part:
    """Some inputs as a task of their own."""
    places, problem = which.to(session.device), task.problem
    if len(which) == len(problem):
        return Part(session, task, places)
    some, first = problem.problem[which.cpu().numpy()], problem.attributions[0]
    attributions = (first[which.to(first.device)],)
    rated = replace(problem, problem=some, attributions=attributions, precision=problem.precision[:1])
    row_arguments = some.given.row_arguments
    beside = None if row_arguments is None else row_arguments.on(session.device)
    small = replace(task, problem=rated, target=task.target[places], clean=task.clean[places])
    return Part(replace(session, row_arguments=beside), small, places)


def _by_element(metric: GuidedMetric, features: FeatureMap) -> bool:
    """Whether a feature has the sign of what is predicted for its elements, which is free where any of them moves."""
    several = int(features.counts(slice(None)).min()) < math.prod(features.shape)
    return several and signing_of(metric) == "magnitude" and metric.experiment.rule != "sum"


def shared_out(task: Task, metric: GuidedMetric, values: Float[Tensor, "k n features"]) -> Float[Tensor, "k n *shape"]:
    """Give attributions of one value per feature to its elements, so that the metric reads the signs of the limits."""
    problem = task.problem
    features, rows = problem.features, slice(0, len(problem))
    if not _by_element(metric, features):
        return spread_evenly(features, values, rows)
    inputs = problem.inputs.to(values.device)
    baselines = replace(task, replacement=metric.experiment.replacement).replaced(rows, values.device)
    without = undirected(problem.given, inputs, baselines)
    # a value goes to elements that move as the feature does, or up where they cancel out: so predictions agree in sign
    ways = direction_sums(features, inputs, baselines, rows, without).free_signs().to(values)
    moves = (inputs.double() - baselines.double()).sign()
    if without is not None:
        moves = moves.masked_fill(without, 0)
    every = removable(features, rows, values)
    way = features.expand(ways, torch.arange(len(problem), device=values.device))
    return spread_over(features, values, rows, torch.where(way == 0, every, (moves == way).to(every)))


@dataclass(frozen=True)
class Group:
    """Metrics whose removed features become the same, so that they share model rows."""

    replacement: Replacement  # what they become
    metrics: dict[str, GuidedMetric]  # by name
    features: FeatureMap  # of the inputs
    which: Int[Tensor, " m"]  # numbers of the inputs whose limits are searched
    width: int  # of the beam search; 0 where all sets are scored

    def readings(self, count: int) -> dict[tuple[str, int], ChainReading]:
        """How the metrics read a chain of so many features."""
        return _readings(self.metrics, self.features, count)


def _readings(
    metrics: Mapping[str, GuidedMetric], features: FeatureMap, count: int
) -> dict[tuple[str, int], ChainReading]:
    """How metrics read a chain of so many features; where a step of several has one sign, also without signs."""
    by_metric = {}
    for name, metric in metrics.items():
        by_metric[name, 0] = ChainReading.of(metric, count, predicted=_by_element(metric, features))
        if metric.experiment.steps < features.most and signing_of(metric) == "magnitude":
            by_metric[name, 1] = ChainReading.of(metric, count, factor="none")
    return by_metric


def planned(problem: Attributed, metrics: Mapping[str, GuidedMetric], rows: int) -> list[Group]:
    """Which inputs the rows suffice for, and how they are searched; raises where they suffice for none."""
    replacements = {name: metric.experiment.replacement or problem.replacement for name, metric in metrics.items()}
    kinds, groups = list(dict.fromkeys(replacements.values())), []
    for kind in kinds:
        same = {name: metric for name, metric in metrics.items() if replacements[name] == kind}
        each = rows // (len(kinds) * problem.fitted(kind).repeats)
        groups.append(Group(kind, same, problem.features, *_affordable(problem, same, each)))
    return groups


def _affordable(problem: Attributed, metrics: Mapping[str, GuidedMetric], rows: int) -> tuple[Int[Tensor, " m"], int]:
    """Which inputs limits are searched for, and the width of the beam search, 0 where all sets are scored.

    Exact limits of all inputs where the rows allow it, then of some, then bounds for all, then for some.
    """
    count = len(problem)
    features = problem.features.counts(slice(None)).cpu().expand(count)
    # inputs that are drawn depend on their values alone
    lots = noise.input_keys(problem.inputs.cpu(), 0, "limits").argsort(stable=True)
    sets = 2.0 ** features.double()
    each = {
        d: sum(beam_rows(d, reading) for reading in set(_readings(metrics, problem.features, d).values()))
        for d in set(features.tolist())
    }
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


@dataclass(frozen=True)
class InputLimits:
    """The limits of all inputs under one metric, NaN where there are none."""

    extremes: Extremes  # best, worst and chance, with attributions of one value per feature
    shapley: Float[Tensor, "n features"] | None  # Shapley values of each feature; None where not all sets were scored
    exact: bool  # whether they are limits, not bounds
    method: str  # how they were computed, in words


def limits_of(session: Session, task: Task, group: Group) -> dict[str, InputLimits]:
    """Limits of metrics that share their model rows."""
    task, inputs, most = replace(task, replacement=group.replacement), len(task.problem), task.problem.features.most
    tables = {key: _blank(inputs, most, session.device) for key in group.readings(1)}  # one for each way to read chains
    shapley = _search(session, task, group, tables)
    limits = {}
    for name, metric in group.metrics.items():
        method = f"a search {group.width} wide" if group.width else "all removed sets"
        chains = [table for key, table in tables.items() if key[0] == name]
        extremes, coarse = chains[0], metric.experiment.steps < most
        if coarse:
            method += f", then in {metric.experiment.steps} steps"
            extremes = _blank(inputs, most, session.device)
            part = part_of(session, task, group.which)
            _put(extremes, part.which, _in_metric_steps(part, metric, chains))
        limits[name] = InputLimits(extremes, shapley, not coarse and not group.width, method)
    return limits


def _search(
    session: Session, task: Task, group: Group, tables: Mapping[tuple[str, int], Extremes]
) -> Float[Tensor, "n features"] | None:
    """Fill the tables, and give the Shapley values where all sets were scored."""
    shape = (len(task.problem), task.problem.features.most)
    shapley = torch.full(shape, torch.nan, dtype=torch.float64, device=session.device)
    for part in parts(session, task, group.which):
        readings = group.readings(part.features)
        for block in part.blocks(group.width):
            which, sums = part.which[block.rows], block.direction
            scores = None if group.width else part.all_scores(block)
            for reading in dict.fromkeys(readings.values()):
                direction = (sums.free_signs() if reading.predicted else sums.signs()).double()
                if scores is None:
                    extremes = beam_extremes(part.scores_of(block), direction, reading, group.width)
                else:
                    extremes = exact_extremes(scores, direction, reading)
                for key in (key for key, other in readings.items() if other == reading):
                    _put(tables[key], which, extremes)
            if scores is not None:  # whose places say what is removed; Shapley's say what is kept
                shapley[which, : part.features] = exact_shapley(scores.flip(1))
        part.session.settle()
    return None if group.width else shapley


def _in_metric_steps(part: Part, metric: GuidedMetric, chains: Sequence[Extremes]) -> Extremes:
    """The best and the worst of some attributions, scored as the metric does, in its steps with its rule."""
    first, *others = chains
    values = [first.attribution[part.which], first.opposite[part.which]]
    for other in others:
        alike = _one_sign_per_step(part, metric, other.attribution[part.which])
        values += [alike, -alike]
    stacked = torch.stack(values)
    drawn = [metric.reduce(_guided(replace(part, task=draw), metric, stacked)) for draw in part.draws]
    scores = torch.stack(drawn).mean(0).to(stacked)
    best, worst = scores.max(0), scores.min(0)
    rows = torch.arange(len(part.which), device=stacked.device)
    chance = first.chance[part.which]
    if isinstance(metric, DirectedArea) and metric.chance is None:  # steps of several features have other signs
        chance = torch.full_like(chance, torch.nan)
    return Extremes(best.values, worst.values, stacked[best.indices, rows], stacked[worst.indices, rows], chance)


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
    scores, features = _guided(part, metric, values[None]), part.task.problem.features
    counts = features.counts(slice(None)).cpu()
    order = removal_order(values.nan_to_num(), "magnitude", counts.expand(len(values)))
    cuts = cut_points(counts, metric.experiment.steps, features.most)[:, 1:].to(order.device)
    step = torch.searchsorted(cuts.expand(len(order), -1).contiguous(), ranks(order).long(), right=True)
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


def _blank(inputs: int, features: int, device: torch.device) -> Extremes:
    """Limits of inputs that are not known yet."""
    line, table = (
        torch.full(shape, torch.nan, dtype=torch.float64, device=device) for shape in ((inputs,), (inputs, features))
    )
    return Extremes(line, line.clone(), table, table.clone(), line.clone())


def _put(table: Extremes, which: Int[Tensor, " b"], extremes: Extremes) -> None:
    """Store the limits of some inputs."""
    for held, values in zip(vars(table).values(), vars(extremes).values(), strict=True):
        if held.ndim == 1:
            held[which] = values
        else:
            held[which, : values.shape[1]] = values
