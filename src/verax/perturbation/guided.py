"""The guided perturbation experiment: features are replaced step by step, most relevant first and least relevant first.

All curves of a call are one stream of model rows. A row is a set of removed features, made by comparing ranks with
cut points; rows of one input that remove the same set are scored once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from verax.core import noise
from verax.core.arrays import send
from verax.core.blocks import block_bytes
from verax.core.shapes import Float, Int, Shaped
from verax.perturbation.block import (
    Block,
    FeatureSums,
    PerturbedRows,
    joint_blocks,
    load,
    lone_blocks,
    shared_blocks,
)
from verax.perturbation.removed_sets import MOST_FEATURES, CoherentSets, Experiment, RemovedSets, set_type
from verax.perturbation.sampled import put_block
from verax.perturbation.set_scores import SetScoreCache, score_sets
from verax.problem.attributed import Task
from verax.scoring.session import Session

_FEWEST = 8  # attributions among which to search
_WORTH = 0.75  # of them that may be left: to find fewer pays for the search


@dataclass(frozen=True)
class GuidedScores:
    """What came out of an experiment. MoRF is curve 0, LeRF, where it was run, curve 1.

    Attributes:
        curves: Class scores, point 0 unperturbed, last point with everything replaced.
        attribution_sign: Sign of the attributions removed in each step, summed (A_t in the definition of DPC).
        direction_sign: Sign of ``x - baseline`` over the same features, summed (D_t).
        points: How many points of each input's curves are its own; those after them repeat the last one.
        predicted_sign: With the rule ``"dot"``: sign of the drop that the attribution predicts for the step.
        within: With the rule ``"coherent"``: class scores within each step, after the features that are predicted to
            lower it, and after those that are predicted to raise it.
        mixed: With the rule ``"sum"``: steps, of all curves of an input, that hold features of unlike predictions.
        attribution: The sum of the attributions removed in each step (A_t); None with ``Experiment(..., sums=False)``.
        direction: Likewise the sum of ``x - baseline`` over the same features (D_t).

    Example: the first step removes the features with attributions 3 and 1, whose ``x - baseline`` is 2 and -1.
        >>> from dataclasses import dataclass
        >>> import torch, verax
        >>> from verax.metrics import Experiment, GuidedMetric
        >>> @dataclass(frozen=True)
        ... class FirstSum(GuidedMetric):
        ...     name, higher_is_better, kind = "first_sum", True, "baseline"
        ...     experiment = Experiment("signed", steps=2)
        ...     def reduce(self, scores):
        ...         return scores.attribution[:, :, 0, 0] * scores.direction[:, :, 0, 0]
        >>> x = torch.tensor([[5.0, 2.0, -1.0, 5.0]])
        >>> FirstSum()(verax.Problem(torch.nn.Linear(4, 2), x), torch.tensor([[0.0, 3.0, 1.0, -2.0]])).value.tolist()
        [4.0]
    """

    curves: Float[Tensor, "k n curves points"]
    attribution_sign: Int[Tensor, "k n curves steps"]
    direction_sign: Int[Tensor, "k n curves steps"]
    points: Int[Tensor, " n"]
    predicted_sign: Int[Tensor, "k n curves steps"] | None = None
    within: Float[Tensor, "k n curves steps 2"] | None = None
    mixed: Int[Tensor, "k n"] | None = None
    attribution: Float[Tensor, "k n curves steps"] | None = None
    direction: Float[Tensor, "k n curves steps"] | None = None


@dataclass(frozen=True)
class SharedRankings:
    """Attributions that rank features alike, with the same signs: their curves are the same and computed once."""

    chosen: Int[Tensor, "kinds b"]  # one of each kind; inputs that have fewer kinds repeat their first
    kind: Int[Tensor, "k b"]  # the kind of each attribution, as a place among the chosen

    def only(self, block: Block) -> Block:
        """A block of the chosen ones."""
        predicted = None if block.predicted is None else self._only(block.predicted)
        return replace(block, attribution=self._only(block.attribution), predicted=predicted)

    def _only(self, sums: FeatureSums) -> FeatureSums:
        exact = torch.zeros(len(self.chosen), 1, 1, device=self.chosen.device)  # as signs of single numbers are
        return FeatureSums(_along(sums.values, self.chosen), None, None, exact)

    def to_all(self, results: Shaped[Tensor, "kinds b *rest"]) -> Shaped[Tensor, "k b *rest"]:
        """Results of the chosen ones, for all."""
        return _along(results, self.kind)


def shared_rankings(block: Block, removals: Sequence[RemovedSets]) -> SharedRankings | None:
    """Find attributions that rank their features alike, with the same signs; None where too few do."""
    if len(block.attributions) < _FEWEST:
        return None
    if block.attribution.sizes is not None or any(removal.longest > 1 for removal in removals):
        return None  # sums of several numbers count, too
    if any(removal.experiment.sums for removal in removals):
        return None  # attributions that rank alike differ in their sums
    digests = _digests(block, removals)
    ordered, position = digests.T.contiguous().sort(dim=1, stable=True)
    fresh = torch.ones_like(ordered, dtype=torch.bool)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    place = fresh.cumsum(1) - 1
    kinds = int(place[:, -1].max()) + 1
    if kinds > _WORTH * len(digests):
        return None
    chosen = position[:, :1].repeat(1, kinds)
    (row, at) = fresh.nonzero(as_tuple=True)
    chosen[row, place[row, at]] = position[row, at]
    kind = torch.empty_like(position).scatter_(1, position, place)
    return SharedRankings(chosen.T, kind.T)


def _digests(block: Block, removals: Sequence[RemovedSets]) -> Int[Tensor, "k b"]:
    """Sums of random words: for the place of each feature in each ranking, and for its signs."""
    features, device = block.attributions.shape[-1], block.attributions.device
    orders = {removal.experiment.order: removal.sequence for removal in removals}
    streams = torch.arange(len(orders) + 1, device=device) << 32  # far apart
    of_signs, *of_places = noise.words(streams, 0, features * features)
    digests: Tensor = (block.attribution.signs().long() * of_signs[:features]).sum(-1)
    first = torch.arange(0, features * features, features, device=device)
    for words, sequence in zip(of_places, orders.values(), strict=True):
        digests += words.take(first + sequence).sum(-1)
    return digests


def _along(values: Shaped[Tensor, "k b *rest"], which: Int[Tensor, "m b"]) -> Shaped[Tensor, "m b *rest"]:
    """Pick one of the first axis for each input."""
    count = values.shape[1]
    line = which * count + torch.arange(count, device=which.device)
    return values.flatten(0, 1).index_select(0, line.flatten()).reshape(*which.shape, *values.shape[2:])


def guided_scores(session: Session, task: Task, experiments: Sequence[Experiment]) -> list[GuidedScores]:
    """Run several experiments on all attributions in one pass."""
    scores_by_experiment: dict[Experiment, GuidedScores] = {}
    for replacement in dict.fromkeys(experiment.replacement for experiment in experiments):
        group = [experiment for experiment in experiments if experiment.replacement == replacement]
        scores = _same_replacement(session, replace(task, replacement=replacement), group)
        scores_by_experiment |= zip(group, scores, strict=True)
    return [scores_by_experiment[experiment] for experiment in experiments]


def _same_replacement(session: Session, task: Task, experiments: Sequence[Experiment]) -> list[GuidedScores]:
    """Run experiments whose removed features become the same, so that they can share rows."""
    problem = task.problem
    held: list[dict[str, Tensor]] = [{} for _ in experiments]
    predicted = any(experiment.rule != "sum" for experiment in experiments)
    split = any(experiment.rule == "coherent" for experiment in experiments)
    jobs = sum(
        experiment.curves * experiment.points * min(experiment.steps, problem.features.most)
        for experiment in experiments
    )
    budget = block_bytes(session.device)
    sizes = (len(experiments) + 3 * split, jobs, budget, session.chunk_size(problem.inputs))  # split ones are longer
    # an input with fewer features than steps repeats its last row, which only those who compare sets will see
    repeats = int(problem.features.counts(slice(None)).min()) < min(problem.features.most, experiments[0].steps)
    if problem.features.most <= MOST_FEATURES:
        for rows, (which,) in shared_blocks(problem, *sizes):
            block = load(session, task, rows, which, predicted)
            removals = [_sets(block, experiment) for experiment in experiments]
            same = shared_rankings(block, removals)
            if same is not None:
                jobs, block = sum(removal.jobs for removal in removals), same.only(block)
                removals = [removal.only(block, same.chosen) for removal in removals]
                session.counts.rows_spared += len(block.inputs) * (jobs - sum(removal.jobs for removal in removals))
            bits = _bits(block)
            sets = [bits.sum(1, keepdim=True, dtype=bits.dtype), *(removal.digests(bits) for removal in removals)]
            scores = score_sets(session, task, block, torch.cat(sets, dim=1))
            _store(held, removals, task, block, scores[:, 1:], scores[:, 0], same)
    elif len(problem.attributions) * len(experiments) > 1 or split or repeats or task.moves.setwise:
        replaced = everything_replaced(session, task)
        for rows, parts in joint_blocks(problem, *sizes):
            known = SetScoreCache(session, task, rows, replaced[rows])
            for which in parts:
                block = load(session, task, rows, which, predicted)
                removals = [_sets(block, experiment) for experiment in experiments]
                _store(held, removals, task, block, known.score(block, removals), replaced[rows])
    else:  # one ranking of each input: its sets differ, so that nothing has to wait until they are compared
        replaced = everything_replaced(session, task)
        for rows in lone_blocks(problem, jobs - experiments[0].curves, budget, session.batch_size, sizes[-1]):
            block = load(session, task, rows, slice(0, 1), predicted)
            removal = RemovedSets(block, experiments[0])
            _store(held, [removal], task, block, _score_ranked(session, task, block, removal), replaced[rows])
    session.settle()
    home, counts = problem.inputs.device, problem.features.counts(slice(None))
    points = [(counts.clamp(max=experiment.steps) + 1).to(home).expand(len(problem)) for experiment in experiments]
    return [
        GuidedScores(**{name: values.to(home) for name, values in results.items()}, points=ends)
        for results, ends in zip(held, points, strict=True)
    ]


def _sets(block: Block, experiment: Experiment) -> RemovedSets:
    return (CoherentSets if experiment.rule == "coherent" else RemovedSets)(block, experiment)


def _bits(block: Block) -> Int[Tensor, "b features"]:
    """A bit for each feature that an input has, so that the sum of some is a set."""
    features, device = block.attributions.shape[-1], block.attributions.device
    place = torch.arange(features, dtype=set_type(features), device=device)
    present = place < send(block.counts, device)[:, None]
    return ((torch.ones_like(place) << place) * present).expand(len(block.inputs), -1)


def _score_ranked(session: Session, task: Task, block: Block, removal: RemovedSets) -> Float[Tensor, "b jobs"]:
    """Score every removed set of a block with one attribution, whose features are too many for bit masks."""
    rows, ranked, lines = PerturbedRows(session, task, block), removal.ranks(), removal.lines()
    line, bound, least = (part.flatten() for part in lines)
    at = torch.arange(len(block.inputs), device=session.device).repeat_interleave(removal.jobs)

    def build(start: int, stop: int) -> Tensor:
        chosen = slice(start, stop)
        return rows.cut(ranked, (line[chosen], bound[chosen], least[chosen]), at[chosen])

    return session.target_scores(build, at + block.rows.start, task.target, streamed=True).reshape(-1, removal.jobs)


def everything_replaced(session: Session, task: Task) -> Float[Tensor, " n"]:
    """Score all inputs with everything replaced, in whole batches."""
    dtype, layout = session.runner.dtype, session.runner.layout

    def build(start: int, stop: int) -> Tensor:
        batch = task.replaced(slice(start, stop), session.device)
        return batch.to(dtype, copy=True, memory_format=layout)

    owner = torch.arange(len(task.problem), device=session.device)
    return session.target_scores(build, owner, task.target, streamed=True)


def _store(
    held: list[dict[str, Tensor]],
    removals: list[RemovedSets],
    task: Task,
    block: Block,
    scores: Tensor,
    replaced: Float[Tensor, " b"],
    same: SharedRankings | None = None,
) -> None:
    k, b = block.attributions.shape[:2]
    problem, clean = task.problem, task.clean[block.rows]
    shape, dtype = (len(problem.attributions), len(problem)), problem.layout.dtype
    to_all: Callable[[Tensor], Tensor] = same.to_all if same is not None else lambda values: values
    widths = [removal.jobs for removal in removals]
    for kept, removal, part in zip(held, removals, torch.split(scores, widths, dim=1), strict=True):
        experiment, each = removal.experiment, removal.experiment.points
        inner = part.reshape(b, k, experiment.curves, removal.inner).transpose(0, 1)
        between = to_all(inner[..., each - 1 :: each])
        first, last = (end[:, None, None].expand(*between.shape[:3], 1) for end in (clean, replaced))
        results = {
            "curves": torch.cat([values.to(dtype) for values in (first, between, last)], dim=-1),
            "attribution_sign": to_all(removal.signs(block.attribution)),
            "direction_sign": to_all(removal.signs(block.direction)),
        }
        if experiment.rule == "dot":
            results["predicted_sign"] = to_all(removal.signs(removal.predicted()))
        elif experiment.rule == "coherent":
            results["within"] = to_all(torch.stack((inner[..., ::each], inner[..., 1::each]), -1)).to(dtype)
        else:
            results["mixed"] = to_all(removal.mixed_steps())
        if experiment.sums:
            results["attribution"] = removal.sums(block.attribution).to(dtype)
            results["direction"] = removal.sums(block.direction).to(dtype)
        put_block(kept, shape, block.which, block.rows, results)
