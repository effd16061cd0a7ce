"""The guided perturbation experiment: features are replaced step by step, most relevant first and least relevant first.

All curves of a call are one stream of model rows. A row is a set of removed features, found by comparing ranks with
cut points; rows of one input that remove the same set are scored once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from verax.arguments import Task
from verax.perturbation import memo
from verax.perturbation.block import Block, block_bytes, load, separate_blocks, shared_blocks
from verax.perturbation.order import Order, cut_points, ranks, removal_order
from verax.scoring import Session
from verax.shapes import Float, Int


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
    results = [_empty_result(task, experiment) for experiment in experiments]
    use_memo = problem.features.most <= memo.MOST_FEATURES
    jobs = sum(2 * min(experiment.steps, problem.features.most) for experiment in experiments)
    cut = shared_blocks if use_memo else separate_blocks
    blocks = cut(problem, len(experiments), jobs, block_bytes(session.device))
    for rows, parts in blocks:
        replaced: Tensor | None = None  # scores with everything replaced, once per input
        for which in parts:
            block = load(session, problem, rows, which)
            plans = [_Plan(block, experiment) for experiment in experiments]
            if use_memo:
                sets = torch.cat([plan.bit_masks() for plan in plans], dim=1)
                scores, replaced = memo.score_sets(session, task, block, sets)
            else:
                replaced = _everything_replaced(session, task, block) if replaced is None else replaced
                scores = torch.cat([_score_ranked(session, task, block, plan) for plan in plans], dim=1)
            _store(results, plans, block, scores, replaced)
    return results


class _Plan:
    """The removed sets of one experiment on one block, in the fixed layout (input, attribution, curve, inner point)."""

    def __init__(self, block: Block, experiment: Experiment) -> None:
        device = block.attributions.device
        self.block = block
        self.counts = block.counts.to(device)[:, None]
        self.cuts = cut_points(block.counts, experiment.steps, block.attributions.shape[-1]).to(device)
        self.sequence = removal_order(block.attributions, experiment.order, block.counts)

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

    def signs(self, values: Float[Tensor, "k b features"]) -> Int[Tensor, "k b 2 steps"]:
        """Sign of the sum of what each step removes. Summed in float64, each step on its own: 0 stays exactly 0."""
        ordered = torch.take_along_dim(values.double(), self.sequence, dim=-1)
        length = int((self.cuts[:, 1:] - self.cuts[:, :-1]).max())
        place = self.cuts[:, :-1, None] + torch.arange(length, device=self.cuts.device)
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
    place = ranks(plan.sequence).transpose(0, 1).flatten(0, 1)
    each = 2 * plan.inner
    owner = torch.arange(b, device=session.device).repeat_interleave(k * each)

    def build(start: int, stop: int) -> Tensor:
        job = torch.arange(start, stop, device=session.device)
        pair, curve, point = job // each, job % each // plan.inner, job % plan.inner + 1
        row = pair // k
        cut = plan.cuts.expand(b, -1)[row, point]
        # LeRF is MoRF's exact reverse: with d features, rank >= d - cut goes, which is not (rank < d - cut)
        bound = torch.where(curve == 0, cut, plan.counts.expand(b, 1)[row, 0] - cut).to(place.dtype)
        removed = (place[pair] < bound[:, None]) ^ (curve == 1)[:, None]
        mask = task.problem.features.expand(removed, row + block.rows.start)
        return torch.where(mask, block.baselines[row], block.inputs[row])

    return session.target_scores(build, owner + block.rows.start, task.target).reshape(b, plan.jobs)


def _everything_replaced(session: Session, task: Task, block: Block) -> Float[Tensor, " b"]:
    owner = torch.arange(block.rows.start, block.rows.stop, device=session.device)
    return session.target_scores(lambda start, stop: block.baselines[start:stop], owner, task.target)


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
        result.attribution_sign[block.which, block.rows] = plan.signs(block.attributions).to(curves.device)
        direction = block.direction.expand(k, -1, -1)
        result.direction_sign[block.which, block.rows] = plan.signs(direction).to(curves.device)


def _empty_result(task: Task, experiment: Experiment) -> GuidedScores:
    problem = task.problem
    k, n = len(problem.attributions), len(problem)
    steps = min(experiment.steps, problem.features.most)
    curves = torch.empty(k, n, 2, steps + 1, dtype=problem.layout.dtype, device=problem.inputs.device)
    curves[..., 0] = task.clean[:, None].to(curves)
    signs = torch.empty(2, k, n, 2, steps, dtype=torch.int8, device=problem.inputs.device)
    points = problem.features.counts(slice(None)).clamp(max=experiment.steps).to(curves.device) + 1
    return GuidedScores(curves, signs[0], signs[1], points.expand(n))
