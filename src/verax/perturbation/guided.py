"""The guided perturbation experiment: features are replaced step by step, most relevant first and least relevant first.

All curves of a call are one stream of model rows. A row is a set of removed features, found by comparing ranks with
cut points; rows of one input that remove the same set are scored once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from verax.core import noise
from verax.core.arrays import send
from verax.core.blocks import block_bytes, rectangles
from verax.core.shapes import Float, Int, Shaped
from verax.perturbation.block import (
    Block,
    PerturbedRows,
    joint_blocks,
    load,
    lone_blocks,
    shared_blocks,
    writes_at_once,
)
from verax.perturbation.feature_sums import FeatureSums
from verax.perturbation.removed_sets import MOST_FEATURES, CoherentSets, Experiment, RemovedSets, prefix_bits
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
    results = [_empty_result(task, experiment, session.device) for experiment in experiments]
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
            scores = score_sets(session, task, block, _removed_sets(block, removals))
            _store(results, removals, block, scores[:, 1:], scores[:, 0], same)
    elif len(problem.attributions) * len(experiments) > 1 or split or repeats or task.moves.setwise:
        replaced = everything_replaced(session, task)
        for rows, parts in joint_blocks(problem, *sizes):
            known = SetScoreCache(session, task, rows, replaced[rows])
            for which in parts:
                block = load(session, task, rows, which, predicted)
                removals = [_sets(block, experiment) for experiment in experiments]
                _store(results, removals, block, known.score(block, removals), replaced[rows])
    else:  # one ranking of each input: its sets differ, so that nothing has to wait until they are compared
        replaced = everything_replaced(session, task)
        for rows in lone_blocks(problem, jobs - experiments[0].curves, budget, session.batch_size, sizes[-1]):
            block = load(session, task, rows, slice(0, 1), predicted)
            removal = RemovedSets(block, experiments[0])
            _store(results, [removal], block, _score_ranked(session, task, block, removal), replaced[rows])
    session.settle()
    home = problem.inputs.device
    brought = [{name: held.to(home) for name, held in vars(result).items() if held is not None} for result in results]
    return [replace(result, **held) for result, held in zip(results, brought, strict=True)]


def _sets(block: Block, experiment: Experiment) -> RemovedSets:
    return (CoherentSets if experiment.rule == "coherent" else RemovedSets)(block, experiment)


def _removed_sets(block: Block, removals: Sequence[RemovedSets]) -> Int[Tensor, "b jobs"]:
    """The set of everything, then the sets of each removal, as bits."""
    features = torch.arange(block.attributions.shape[-1], device=block.attributions.device)
    everything = prefix_bits(features)[send(block.counts, features.device)][:, None]
    widths = [1, *(removal.jobs for removal in removals)]
    sets = torch.empty(len(block.inputs), sum(widths), dtype=everything.dtype, device=features.device)
    first, *others = torch.split(sets, widths, dim=1)
    first[:] = everything
    for removal, part in zip(removals, others, strict=True):
        removal.write_bit_masks(part, everything)
    return sets


def _score_ranked(session: Session, task: Task, block: Block, removal: RemovedSets) -> Float[Tensor, "b jobs"]:
    """Score every removed set of a block with one attribution, whose features are too many for bit masks."""
    if writes_at_once(session, task):
        rows = PerturbedRows(session, task, block)
        ranked, lines = removal.ranks(), [part.flatten() for part in removal.lines()]
        at = torch.arange(len(block.inputs), device=session.device).repeat_interleave(removal.jobs)

        def write(start: int, stop: int) -> Tensor:
            line, bound, least = (part[start:stop] for part in lines)
            return rows.cut(ranked, (line, bound, least), at[start:stop])

        scores = session.target_scores(write, at + block.rows.start, task.target, streamed=True)
        return scores.reshape(-1, removal.jobs)
    return _score_rectangles(session, task, block, removal)


def _score_rectangles(session: Session, task: Task, block: Block, removal: RemovedSets) -> Float[Tensor, "b jobs"]:
    """The same in rectangles of inputs and points of their curves, where no kernel makes rows at once."""
    ranks, cuts, counts = removal.ranks(), removal.cuts[:, 1:-1].to(torch.int32), removal.counts.to(torch.int32)
    curves = removal.experiment.curves
    places = torch.stack((ranks, (counts - 1) - ranks)[:curves], dim=1)  # from the top for MoRF, the bottom for LeRF
    dtype, layout = session.runner.dtype, session.runner.layout
    dense = layout if layout is torch.channels_last else torch.contiguous_format
    inputs, baselines = (tensor.to(dtype, memory_format=layout) for tensor in (block.inputs, block.baselines))
    owner = torch.arange(block.rows.start, block.rows.stop, device=session.device)

    def build(start: int, stop: int) -> Tensor:
        """Make rows in one go for each rectangle, straight into the batch."""
        batch = torch.empty_like(inputs[:1].expand(stop - start, *inputs.shape[1:]), memory_format=dense)
        done = 0
        for rows, points in rectangles(start, stop, curves * removal.inner):
            bound = cuts if len(cuts) == 1 else cuts[rows]
            removed = (places[rows, :, None] < bound[:, None, :, None]).flatten(1, 2)[:, points]
            height, width = removed.shape[:2]
            mask = task.problem.features.expand(removed.flatten(0, 1), owner[rows].repeat_interleave(width))
            part = batch[done : done + height * width]
            values = (_as_table(mask, height), baselines[rows][:, None], inputs[rows][:, None])
            torch.where(*values, out=_as_table(part, height))
            done += height * width
        return batch

    jobs = owner.repeat_interleave(removal.jobs)
    return session.target_scores(build, jobs, task.target, streamed=True).reshape(len(owner), removal.jobs)


def _as_table(rows: Tensor, height: int) -> Tensor:
    """See rows as a table of rows, whatever their memory layout."""
    return rows.view(height, len(rows) // height, *rows.shape[1:])


def everything_replaced(session: Session, task: Task) -> Float[Tensor, " n"]:
    """Score all inputs with everything replaced, in whole batches."""
    dtype, layout = session.runner.dtype, session.runner.layout

    def build(start: int, stop: int) -> Tensor:
        batch = task.replaced(slice(start, stop), session.device)
        return batch.to(dtype, copy=True, memory_format=layout)

    owner = torch.arange(len(task.problem), device=session.device)
    return session.target_scores(build, owner, task.target, streamed=True)


def _store(
    results: list[GuidedScores],
    removals: list[RemovedSets],
    block: Block,
    scores: Tensor,
    replaced: Float[Tensor, " b"],
    same: SharedRankings | None = None,
) -> None:
    k, b = block.attributions.shape[:2]
    to_all: Callable[[Tensor], Tensor] = same.to_all if same is not None else lambda values: values
    for result, removal, part in zip(
        results, removals, torch.split(scores, [removal.jobs for removal in removals], dim=1), strict=True
    ):
        inner = part.reshape(b, k, removal.experiment.curves, removal.inner).transpose(0, 1)
        curves = result.curves[block.which, block.rows]
        each = removal.experiment.points
        curves[..., 1:-1] = to_all(inner[..., each - 1 :: each]).to(curves)
        curves[..., -1] = replaced[:, None].to(curves)
        if result.within is not None:
            within = torch.stack((inner[..., ::each], inner[..., 1::each]), -1)
            result.within[block.which, block.rows] = to_all(within).to(curves)
        if result.predicted_sign is not None:
            result.predicted_sign[block.which, block.rows] = to_all(removal.signs(removal.predicted()))
        if result.mixed is not None and removal.longest > 1:
            result.mixed[block.which, block.rows] = to_all(removal.mixed_steps())
        if result.attribution is not None and result.direction is not None:
            result.attribution[block.which, block.rows] = removal.sums(block.attribution).to(curves)
            result.direction[block.which, block.rows] = removal.sums(block.direction).to(curves)
        result.attribution_sign[block.which, block.rows] = to_all(removal.signs(block.attribution))
        result.direction_sign[block.which, block.rows] = to_all(removal.signs(block.direction))


def _empty_result(task: Task, experiment: Experiment, device: torch.device) -> GuidedScores:
    problem = task.problem
    k, n = len(problem.attributions), len(problem)
    steps = min(experiment.steps, problem.features.most)
    shape = (k, n, experiment.curves)
    curves = torch.empty(*shape, steps + 1, dtype=problem.layout.dtype, device=device)
    curves[..., 0] = task.clean[:, None].to(curves)
    signs = torch.empty(3, *shape, steps, dtype=torch.int8, device=device)
    points = problem.features.counts(slice(None)).clamp(max=experiment.steps) + 1
    return GuidedScores(
        curves,
        signs[0],
        signs[1],
        send(points, device).expand(n),
        signs[2] if experiment.rule == "dot" else None,
        curves.new_empty(*shape, steps, 2) if experiment.rule == "coherent" else None,
        torch.zeros(k, n, dtype=torch.int32, device=device) if experiment.rule == "sum" else None,
        *(curves.new_empty(2, *shape, steps) if experiment.sums else (None, None)),
    )
