"""Adaptive steps: estimates of scores at one feature per step, refined where curves bend or directions conflict.

At one feature per step a weighted area is a weighted sum of signed changes of the score. Its curves are cut into
intervals. Within an interval it is known how often and with which weight each sign occurs, so that what the interval
adds follows from what the features of each sign change together. Intervals in doubt are cut further, all curves of a
block at once, until the doubt left is small enough or every feature has its own step.

How far an interval's value may be off is estimated by two parts, taken for independent errors. What the two orders of
its kinds disagree about; and how unevenly it may fall: between its ends a curve is taken for a random walk whose
roughness is that of the slopes of the intervals around it, drawn towards that of all features, so that the sum over the
interval, given its ends, varies with the spread of the weights. Curves that are level here and jump there may jump to
and fro where they look level, as rarely as they jump elsewhere. Where the kinds are not known apart, changes may cancel
out that count with one sign: each may be as large as it is where they are known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from verax.core.arrays import send
from verax.core.blocks import block_bytes
from verax.core.shapes import Float, Int
from verax.perturbation.adaptive_curves import (
    LEAST,
    AdaptiveExperiment,
    CurveLines,
    Intervals,
    cut,
    first_intervals,
    several_kinds,
)
from verax.perturbation.block import cut_points, joint_blocks, load
from verax.perturbation.guided import everything_replaced
from verax.perturbation.removed_sets import Experiment
from verax.perturbation.sampled import put_block
from verax.perturbation.set_scores import SetScoreCache
from verax.problem.attributed import Task
from verax.scoring.session import Session

SHOWN = 20  # steps of the curves that results keep
_FIRST = 8  # intervals to begin with
SURE = 4.0  # standard errors that the stated error has; chosen and measured by benchmarks/adaptive_steps.py
_TOWARDS = 2.0  # how far the variance of an interval is drawn towards that of the whole curve
_AGREE = 1.5  # two orders agree by chance more often than all orders would
_ROUNDING = 1e-10  # squared changes, as part of the typical one, that count as none
_BOLD = 3.0  # intervals that are parted for the first time are cut into this many fewer pieces
_SIZES = (20, 256)  # of a pair's working memory: sequences and sums along its lines, rows of a round


@dataclass(frozen=True)
class AdaptiveScores:
    """What came out of an adaptive experiment. Curves are interpolated between the points that were scored."""

    curves: Float[Tensor, "k n curves points"]  # class scores on a grid of steps, MoRF, then LeRF where it was run
    directed: Float[Tensor, "k n curves points"]  # the same with signed changes
    # how many points of each input's curves are its own; those after them repeat the last one
    points: Int[Tensor, " n"]
    value: Float[Tensor, "k n"]  # the estimated score
    error: Float[Tensor, "k n"]  # how far it may be from the score at one feature per step; 0 where it is that score
    steps_used: Int[Tensor, "k n"]  # steps in which the curve went that took more of them


def adaptive_scores(
    session: Session, task: Task, experiments: Sequence[AdaptiveExperiment]
) -> dict[Experiment, AdaptiveScores]:
    """Run adaptive experiments on all attributions; those with the same replacement share model rows."""
    results: dict[AdaptiveExperiment, dict[str, Tensor]] = {experiment: {} for experiment in experiments}
    for replacement in dict.fromkeys(experiment.replacement for experiment in experiments):
        alike = {experiment: result for experiment, result in results.items() if experiment.replacement == replacement}
        _same_replacement(session, replace(task, replacement=replacement), alike)
    session.settle()
    problem = task.problem
    home, points = problem.inputs.device, problem.features.counts(slice(None)).clamp(max=SHOWN) + 1
    return {
        experiment: AdaptiveScores(
            **{name: values.to(home) for name, values in held.items()}, points=points.to(home).expand(len(problem))
        )
        for experiment, held in results.items()
    }


def _same_replacement(session: Session, task: Task, results: dict[AdaptiveExperiment, dict[str, Tensor]]) -> None:
    replaced = everything_replaced(session, task)
    predicted = any(experiment.rule != "sum" for experiment in results)
    stretch = session.chunk_size(task.problem.inputs)
    for rows, parts in joint_blocks(task.problem, *_SIZES, block_bytes(session.device), stretch):
        known = SetScoreCache(session, task, rows, replaced[rows])
        for which in parts:
            block = load(session, task, rows, which, predicted)
            for experiment, held in results.items():
                lines = CurveLines(block, known, experiment)
                measured = _measured(lines, *_refined(lines, experiment.tolerance), task.problem.layout.dtype)
                put_block(held, (len(task.problem.attributions), len(task.problem)), which, rows, measured)


def _refined(lines: CurveLines, tolerance: float) -> tuple[Intervals, Float[Tensor, " pairs"]]:
    """Cut intervals in doubt until the error of each attribution of each input is small enough."""
    intervals = first_intervals(lines, _FIRST)
    head = (intervals.low == 0) & ~intervals.parted  # of every curve something is known in full
    intervals = intervals.pick(~head).joined(cut(lines, intervals.pick(head), torch.ones_like(intervals.low[head])))
    while True:
        doubt = _doubts(lines, intervals)
        error = SURE * _per_pair(lines, intervals, doubt**2).sqrt()
        open_ends = _per_pair(lines, intervals, (doubt > 0).double()).clamp(min=1)
        pair = intervals.line // lines.curves
        small = (tolerance / SURE / open_ends.sqrt())[pair]  # if no doubt of a pair is larger, its error is small
        chosen = (error > tolerance)[pair] & (doubt > small)
        if not bool(chosen.any()):
            return intervals, error
        whole = intervals.pick(chosen)
        pieces = _pieces(lines, whole, (doubt / small)[chosen])
        intervals = intervals.pick(~chosen).joined(cut(lines, whole, pieces))


def _pieces(lines: CurveLines, whole: Intervals, excess: Float[Tensor, " m"]) -> Int[Tensor, " m"]:
    """Into how many pieces to cut intervals, by how many times their doubt is too large.

    Several kinds depend on each other less by the square of the number. Long unparted intervals may need parting alone.
    """
    mixed = several_kinds(lines, whole.line, whole.low, whole.high)
    number = torch.where(mixed, excess.sqrt().ceil().clamp(min=2), 2.0)
    unparted = ~whole.parted & (whole.length >= LEAST)
    number = torch.where(unparted, (excess.sqrt() / _BOLD).ceil(), number)
    number = torch.where(unparted & (whole.length >= 2 * LEAST), 1.0, number)
    return torch.minimum(number.long(), whole.length)


def _doubts(lines: CurveLines, intervals: Intervals) -> Float[Tensor, " m"]:
    """Standard error of what each interval adds; none for single features."""
    sums = (lines.numbers, lines.weights, lines.squares)
    number, weight, squares = (
        lines.within(sums_of_sign, intervals.line, intervals.low, intervals.high)[:, :2] for sums_of_sign in sums
    )
    spread = (squares - weight**2 / number.clamp(min=1)).clamp(min=0).sum(1)
    typical = _typical_squares(lines, intervals)
    uneven = torch.maximum(_variance(intervals, intervals.change, typical), _stairs(lines, intervals, typical)) * spread
    cancelled = torch.maximum(_variance(intervals, intervals.stop - intervals.start, typical), typical)
    hidden = torch.where(intervals.parted, 0.0, cancelled * weight.sum(1) ** 2)
    depends = (_AGREE * intervals.conflict) ** 2
    return torch.where(intervals.length > 1, uneven + depends + hidden, 0.0).sqrt()


def _typical_squares(lines: CurveLines, intervals: Intervals) -> Float[Tensor, " m"]:
    """Mean square of the change of one feature, over those intervals of both curves whose kinds are known apart."""
    known = intervals.parted.double()
    features = _per_pair(lines, intervals, known * intervals.length)
    total = _per_pair(lines, intervals, known * intervals.squares)
    return (total / features.clamp(min=1))[intervals.line // lines.curves]


def _stairs(lines: CurveLines, intervals: Intervals, typical: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
    """Variance of the change of one feature if curves are stairs: their squared height, by how often they come.

    Where all points nearby are level, only stairs elsewhere show that two between them may cancel out. The height is a
    geometric mean, which is small where a curve comes to rest little by little.
    """
    moved = intervals.parted & (intervals.squares > _ROUNDING * typical)
    counted = (moved, (intervals.parted & ~moved) * intervals.length, intervals.parted * intervals.length)
    stairs, level, features = (_per_pair(lines, intervals, count.double()) for count in counted)
    logarithms = _per_pair(lines, intervals, torch.where(moved, intervals.squares, 1.0).log())
    height = (logarithms / stairs.clamp(min=1)).exp()
    features = features.clamp(min=1)
    return (height * stairs / features * level / features)[intervals.line // lines.curves]


def _variance(intervals: Intervals, change: Float[Tensor, " m"], typical: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
    """Variance of the change of one feature: the roughness nearby, drawn towards what is typical of the input.

    Intervals that are left came out smooth, by chance among others. A geometric mean stays small where a curve is flat.
    """
    local = _roughness(intervals, change)
    return local + _TOWARDS * (local * typical).sqrt()


def _roughness(intervals: Intervals, change: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
    """How much the slopes of neighbouring intervals differ, as the variance of the change of one feature.

    The largest of two differences to each side: one alone is small by chance too often.
    """
    length = intervals.length.double()
    slope, same = change / length, intervals.line.diff() == 0
    jump = slope.diff() ** 2 / (1 / length[1:] + 1 / length[:-1]) * same
    left, right = _shifted(jump, 1), _shifted(jump, -1)
    nearby = torch.maximum(left, right)
    further = torch.maximum(_shifted(left[:-1] * same, 1), _shifted(right[1:] * same, -1))
    alone = ~(_shifted(same, 1) | _shifted(same, -1))
    return torch.where(alone, change**2 / length, torch.maximum(nearby, further))


def _shifted(between: Tensor, side: int) -> Tensor:
    """What lies between neighbours, as seen by the one after it (1) or before it (-1); nothing at the ends."""
    nothing = between.new_zeros(1)
    return torch.cat((nothing, between) if side == 1 else (between, nothing))


def _per_pair(lines: CurveLines, intervals: Intervals, values: Float[Tensor, " m"]) -> Float[Tensor, " pairs"]:
    """Sums over the intervals of each attribution of each input."""
    total = values.new_zeros(len(lines.counts) // lines.curves)
    return total.index_add(0, intervals.line // lines.curves, values)


def _measured(
    lines: CurveLines, intervals: Intervals, error: Float[Tensor, " pairs"], dtype: torch.dtype
) -> dict[str, Tensor]:
    """What the intervals of a block's lines say of each of its attributions and inputs."""
    block = lines.block
    shape = block.attributions.shape[:2]
    sign = torch.tensor((-1.0, 1.0), device=error.device, dtype=error.dtype)[intervals.line % lines.curves]
    steps = torch.zeros(len(lines.counts), dtype=torch.int64, device=error.device)
    steps.index_add_(0, intervals.line, torch.ones_like(intervals.line))
    value = _per_pair(lines, intervals, sign * intervals.value)
    grid = send(cut_points(block.counts, SHOWN, block.attributions.shape[-1]), error.device)
    at = grid.expand(shape[1], -1)[lines.rows]
    first = (intervals.low == 0).nonzero()[:, 0][intervals.line]  # where the line of each begins
    total = intervals.change.cumsum(0) - intervals.change
    directed = intervals.start[first] + (total - total[first])
    curves = [
        _interpolated(intervals, start, change, at).reshape(*shape, lines.curves, -1).to(dtype)
        for start, change in ((intervals.start, intervals.stop - intervals.start), (directed, intervals.change))
    ]
    return {
        "curves": curves[0],
        "directed": curves[1],
        "value": value.reshape(shape).to(dtype),
        "error": error.reshape(shape).to(dtype),
        "steps_used": steps.reshape(*shape, lines.curves).amax(-1),
    }


def _interpolated(
    intervals: Intervals, start: Float[Tensor, " m"], change: Float[Tensor, " m"], at: Int[Tensor, "lines points"]
) -> Float[Tensor, "lines points"]:
    """Values after some features are gone, on straight lines through the intervals."""
    width = int(at.max()) + 1
    line = torch.arange(len(at), device=at.device)[:, None]
    ends = intervals.line * width + intervals.high
    which = torch.searchsorted(ends, line * width + at)
    part = (at - intervals.low[which]).double() / intervals.length[which]
    return start[which] + part * change[which]
