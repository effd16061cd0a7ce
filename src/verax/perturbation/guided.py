"""The guided perturbation experiment: features are replaced step by step, most relevant first and least relevant first.

All curves of a call are one stream of model rows. A row is a set of removed features, found by comparing ranks with
cut points; rows of one input that remove the same set are scored once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from verax.arguments import Task
from verax.perturbation import memo
from verax.perturbation.block import Block, block_bytes, load, rectangles, separate_blocks, shared_blocks
from verax.perturbation.order import Order, cut_points, ranks, removal_order
from verax.scoring import Session
from verax.shapes import Float, Int
from verax.transfer import send, to_device


@dataclass(frozen=True)
class Experiment:
    """One guided perturbation experiment: how features are ordered and in how many steps they go."""

    order: Order
    steps: int


@dataclass(frozen=True)
class GuidedScores:
    """What came out of an experiment. MoRF is curve 0, LeRF curve 1.

    Attributes:
        curves: Class scores, point 0 unperturbed, last point with everything replaced.
        attribution_sign: Sign of the attributions removed in each step, summed (A_t in the definition of DPC).
        direction_sign: Sign of ``x - baseline`` over the same features, summed (D_t).
        points: How many points of each input's curves are its own; those after them repeat the last one.
    """

    curves: Float[Tensor, "k n 2 points"]
    attribution_sign: Int[Tensor, "k n 2 steps"]
    direction_sign: Int[Tensor, "k n 2 steps"]
    points: Int[Tensor, " n"]


def guided_scores(session: Session, task: Task, experiments: Sequence[Experiment]) -> list[GuidedScores]:
    """Run several experiments on all attributions in one pass.

    Args:
        session: The model.
        task: Inputs, attributions, baselines, features, classes.
        experiments: What to run. Rows that occur in several are scored once.
    """
    problem = task.problem
    results = [_empty_result(task, experiment, session.device) for experiment in experiments]
    jobs = sum(2 * min(experiment.steps, problem.features.most) for experiment in experiments)
    sizes = (len(experiments), jobs, block_bytes(session.device))
    if problem.features.most <= memo.MOST_FEATURES:
        for rows, (which,) in shared_blocks(problem, *sizes):
            block = load(session, problem, rows, which)
            plans = [_Plan(block, experiment) for experiment in experiments]
            sets = torch.cat([plan.bit_masks() for plan in plans], dim=1)
            _store(results, plans, block, *memo.score_sets(session, task, block, sets))
    else:
        replaced = _everything_replaced(session, task)
        for rows, parts in separate_blocks(problem, *sizes, session.batch_size):
            for which in parts:
                block = load(session, problem, rows, which)
                plans = [_Plan(block, experiment) for experiment in experiments]
                scores = torch.cat([_score_ranked(session, task, block, plan) for plan in plans], dim=1)
                _store(results, plans, block, scores, replaced[rows])
        session.finite.settle()
    return [_at_home(result, problem.inputs.device) for result in results]


class _Plan:
    """The removed sets of one experiment on one block, in the fixed layout (input, attribution, curve, inner point)."""

    def __init__(self, block: Block, experiment: Experiment) -> None:
        device = block.attributions.device
        cuts = cut_points(block.counts, experiment.steps, block.attributions.shape[-1])
        self.block = block
        self.longest = int(cuts.diff().max())
        self.cuts = send(cuts, device)
        self.counts = send(block.counts, device)[:, None]
        self.sequence = removal_order(block.attributions, experiment.order, self.counts[:, 0])

    @property
    def inner(self) -> int:
        """Points between the two shared ends."""
        return self.cuts.shape[1] - 2

    @property
    def jobs(self) -> int:
        """Rows of each input."""
        return len(self.block.attributions) * 2 * self.inner

    def bit_masks(self) -> Int[Tensor, "b jobs"]:
        """Write every removed set as the bits of one integer."""
        prefixes = memo.prefix_bits(self.sequence)
        everything = memo.prefix_bits(torch.arange(prefixes.shape[-1] - 1, device=prefixes.device))
        inner = self.cuts[:, 1:-1]
        first = _along(prefixes, inner)
        last = everything[self.counts] ^ _along(prefixes, self.counts - inner)
        return torch.stack((first, last), dim=2).transpose(0, 1).reshape(prefixes.shape[1], self.jobs)

    def places(self) -> Int[Tensor, "pairs 2 features"]:
        """Ranks of the features for every pair of an input and an attribution, from the top and from the bottom.

        At a point with cut c, features with ranks below c are gone: for MoRF from the top, for LeRF from the bottom,
        which is MoRF's exact reverse.
        """
        top = ranks(self.sequence)
        bottom = (self.counts.to(top.dtype) - 1) - top
        return torch.stack((top, bottom), dim=2).transpose(0, 1).flatten(0, 1)

    def signs(self, values: Float[Tensor, "k b features"]) -> Int[Tensor, "k b 2 steps"]:
        """Sign of the sum of what each step removes. Summed in float64, each step on its own: 0 stays exactly 0."""
        ordered = torch.take_along_dim(values.double(), self.sequence, dim=-1)
        place = self.cuts[:, :-1, None] + torch.arange(self.longest, device=self.cuts.device)
        inside = place < self.cuts[:, 1:, None]
        last = self.counts[..., None] - 1
        shape = (*values.shape[:-1], *place.shape[1:])
        sums = [
            (_along(ordered, at.clamp(0, values.shape[-1] - 1).flatten(1)).reshape(shape) * inside).sum(-1)
            for at in (place, last - place)
        ]
        return torch.stack(sums, dim=2).sign().to(torch.int8)


def _along(values: Tensor, index: Int[Tensor, "c m"]) -> Tensor:
    """Pick entries of the last axis, with one index for all inputs or one each."""
    if len(index) == 1:
        return values[..., index[0]]
    return torch.take_along_dim(values, index.expand(*values.shape[:-1], -1), dim=-1)


def _score_ranked(session: Session, task: Task, block: Block, plan: _Plan) -> Float[Tensor, "b jobs"]:
    """Score every removed set of a block whose features are too many for bit masks."""
    k, b, _ = plan.sequence.shape
    places, cuts = plan.places(), plan.cuts[:, 1:-1].to(torch.int32)
    dtype, layout = session.runner.dtype, session.runner.layout
    inputs, baselines = (one.to(dtype, memory_format=layout) for one in (block.inputs, block.baselines))
    row = torch.arange(b, device=session.device).repeat_interleave(k)  # the input of each pair

    def build(start: int, stop: int) -> Tensor:
        """Make rows in one go for each rectangle of pairs and points of their curves, straight into the batch."""
        batch = torch.empty_like(inputs[:1].expand(stop - start, *inputs.shape[1:]), memory_format=_dense(layout))
        done = 0
        for pairs, points in rectangles(start, stop, 2 * plan.inner):
            bound = cuts if len(cuts) == 1 else cuts[row[pairs]]
            removed = (places[pairs, :, None] < bound[:, None, :, None]).flatten(1, 2)[:, points]
            height, width = removed.shape[:2]
            owner = row[pairs].repeat_interleave(width) + block.rows.start
            mask = task.problem.features.expand(removed.flatten(0, 1), owner)
            part = batch[done : done + height * width]
            at = pairs if k == 1 else row[pairs]
            values = (_as_table(mask, height), baselines[at][:, None], inputs[at][:, None])
            torch.where(*values, out=_as_table(part, height))
            done += height * width
        return batch

    owner = torch.arange(block.rows.start, block.rows.stop, device=session.device).repeat_interleave(plan.jobs)
    return session.target_scores(build, owner, task.target, streamed=True).reshape(b, plan.jobs)


def _as_table(rows: Tensor, height: int) -> Tensor:
    """See rows as a table of rows, whatever their memory layout."""
    return rows.view(height, len(rows) // height, *rows.shape[1:])


def _dense(layout: torch.memory_format) -> torch.memory_format:
    return layout if layout is torch.channels_last else torch.contiguous_format


def _everything_replaced(session: Session, task: Task) -> Float[Tensor, " n"]:
    """Score all inputs with everything replaced, in whole batches."""
    dtype, layout = session.runner.dtype, session.runner.layout

    def build(start: int, stop: int) -> Tensor:
        batch = to_device(task.problem.baselines[start:stop], session.device)
        return batch.to(dtype, copy=True, memory_format=layout)

    owner = torch.arange(len(task.problem), device=session.device)
    return session.target_scores(build, owner, task.target, streamed=True)


def _store(
    results: list[GuidedScores], plans: list[_Plan], block: Block, scores: Tensor, replaced: Float[Tensor, " b"]
) -> None:
    k, b = block.attributions.shape[:2]
    shape = (b, k, 2)
    for result, plan, part in zip(
        results, plans, torch.split(scores, [plan.jobs for plan in plans], dim=1), strict=True
    ):
        curves = result.curves[block.which, block.rows]
        curves[..., 1:-1] = part.reshape(*shape, plan.inner).transpose(0, 1).to(curves)
        curves[..., -1] = replaced[:, None].to(curves)
        result.attribution_sign[block.which, block.rows] = plan.signs(block.attributions)
        result.direction_sign[block.which, block.rows] = plan.signs(block.direction.expand(k, -1, -1))


def _empty_result(task: Task, experiment: Experiment, device: torch.device) -> GuidedScores:
    problem = task.problem
    k, n = len(problem.attributions), len(problem)
    steps = min(experiment.steps, problem.features.most)
    curves = torch.empty(k, n, 2, steps + 1, dtype=problem.layout.dtype, device=device)
    curves[..., 0] = task.clean[:, None].to(curves)
    signs = torch.empty(2, k, n, 2, steps, dtype=torch.int8, device=device)
    points = problem.features.counts(slice(None)).clamp(max=experiment.steps) + 1
    return GuidedScores(curves, signs[0], signs[1], send(points, device).expand(n))


def _at_home(result: GuidedScores, device: torch.device) -> GuidedScores:
    """Bring results to where the inputs are."""
    return replace(result, **{field: value.to(device) for field, value in vars(result).items()})
