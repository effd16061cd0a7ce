"""Parts of a task: inputs with equally many features, and the scores of their removed sets."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from verax.attribution.coalitions import removable, spread_evenly, spread_over
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Bool, Float, Int
from verax.metrics.base import GuidedMetric
from verax.metrics.limit_reading import signing_of
from verax.perturbation.block import Block, PerturbedRows, load
from verax.perturbation.feature_sums import direction_sums
from verax.perturbation.removed_sets import set_type
from verax.perturbation.set_scores import score_sets
from verax.problem.attributed import Task
from verax.problem.features import FeatureMap
from verax.problem.inputs import undirected
from verax.scoring.session import Session


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


def _mean(scores: Iterable[Tensor], count: int) -> Tensor:
    """The mean of so many scores, in double precision where there are several."""
    first, *others = scores if count == 1 else (drawn.double() for drawn in scores)
    return sum(others, start=first) / count if others else first


def parts(session: Session, task: Task, which: Int[Tensor, " m"]) -> Iterator[Part]:
    """The inputs by their number of features."""
    counts = task.problem.features.counts(slice(None)).cpu().expand(len(task.problem))[which]
    for count in sorted(set(counts.tolist())):
        yield part_of(session, task, which[counts == count])


def part_of(session: Session, task: Task, which: Int[Tensor, " m"]) -> Part:
    """Some inputs as a task of their own."""
    places = which.to(session.device)
    if len(which) == len(task.problem):
        return Part(session, task, places)
    problem = task.problem
    first = problem.attributions[0]
    some = problem.problem[which.cpu().numpy()]
    attributed = replace(
        problem,
        problem=some,
        attributions=(first[which.to(first.device)],),
        precision=problem.precision[:1],
    )
    row_arguments = some.given.row_arguments
    beside = None if row_arguments is None else row_arguments.on(session.device)
    small = replace(task, problem=attributed, target=task.target[places], clean=task.clean[places])
    return Part(replace(session, row_arguments=beside), small, places)


def by_element(metric: GuidedMetric, features: FeatureMap) -> bool:
    """Whether a feature has the sign of what is predicted for its elements, ``sum_i a_i (x_i - b_i)``.

    It is free where any of them moves, even if ``x - baseline`` sums to 0. In signed order ``x - baseline`` is summed
    alone, whatever the rule is.
    """
    several = int(features.counts(slice(None)).min()) < math.prod(features.shape)
    return several and signing_of(metric) == "magnitude" and metric.experiment.rule != "sum"


def shared_out(task: Task, metric: GuidedMetric, values: Float[Tensor, "k n features"]) -> Float[Tensor, "k n *shape"]:
    """Give attributions of one value per feature to its elements, so that the metric finds the signs of the limits.

    Where predictions of elements are summed, a feature's value goes to those that move as the feature does, or up where
    they cancel out: then no prediction is against another, and the sum has a sign.
    """
    problem = task.problem
    features, rows = problem.features, slice(0, len(problem))
    if not by_element(metric, features):
        return spread_evenly(features, values, rows)
    inputs = problem.inputs.to(values.device)
    baselines = replace(task, replacement=metric.experiment.replacement).replaced(rows, values.device)
    without = undirected(problem.given, inputs, baselines)
    ways = direction_sums(features, inputs, baselines, rows, without).free_signs().to(values)
    moves = (inputs.double() - baselines.double()).sign()
    if without is not None:
        moves = moves.masked_fill(without, 0)
    every = removable(features, rows, values)
    way = features.expand(ways, torch.arange(len(problem), device=values.device))
    return spread_over(features, values, rows, torch.where(way == 0, every, (moves == way).to(every)))
