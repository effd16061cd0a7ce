"""Order: from attributions to the sequence in which features are removed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from verax.core.arrays import send, to_device
from verax.core.blocks import pieces, whole_batches
from verax.core.image_rows import can_write, rows_by_rank
from verax.core.shapes import Bool, Float, Int, Shaped
from verax.perturbation.feature_sums import FeatureSums, attribution_sums, direction_sums, predicted_sums
from verax.problem.attributed import Attributed, Task
from verax.problem.baselines import differs, must_choose, replaced
from verax.problem.features import Grid
from verax.problem.inputs import undirected
from verax.scoring.session import Session

Order = Literal["signed", "magnitude"]


def removal_order(
    attributions: Float[Tensor, "*batch features"], order: Order, counts: Int[Tensor, " inputs"] | None = None
) -> Int[Tensor, "*batch features"]:
    """List the features of each input from the most to the least important.

    Ties keep the order of the features (a stable sort), so the result is the same on every machine. With ``counts``,
    features beyond the count of their input (rows of a ragged group map) come last.
    """
    key = attributions.abs() if order == "magnitude" else attributions
    if counts is not None:
        absent = torch.arange(key.shape[-1], device=key.device) >= counts.to(key.device)[:, None]
        key = key.masked_fill(absent, -torch.inf)
    return key.sort(dim=-1, descending=True, stable=True).indices


def ranks(sequence: Int[Tensor, "*batch features"]) -> Int[Tensor, "*batch features"]:
    """Invert a removal order: the place of each feature in it, 0 for the first to go."""
    places = torch.arange(sequence.shape[-1], device=sequence.device, dtype=torch.int32).expand(sequence.shape)
    return torch.empty_like(places, memory_format=torch.contiguous_format).scatter_(-1, sequence, places)


def cut_points(counts: Int[Tensor, " inputs"], steps: int, most: int) -> Int[Tensor, "inputs points"]:
    """Features removed at each point ``t`` of a curve: ``(t * d) // n`` with ``n = min(steps, d)``.

    Inputs of a call may differ in their number of features (a group map for each); where one has ended before the
    curve of the input with the ``most`` features, its last point is repeated.

    The cut points of n steps are among those of every multiple of n, and all are among those of one feature per step:
    in one call, the finer number brings the scores of the coarser one. Others share what happens to coincide, as 20 and
    24 do at every fourth part.
    """
    steps_of_row = counts.clamp(max=steps)[:, None]
    return torch.minimum(torch.arange(min(steps, most) + 1), steps_of_row) * counts[:, None] // steps_of_row


@dataclass(frozen=True)
class Block:
    """Some inputs and some attributions of them, on the session's device, features already reduced."""

    rows: slice
    which: slice
    inputs: Shaped[Tensor, "b *shape"]
    baselines: Shaped[Tensor, "b *shape"]
    attribution: FeatureSums
    direction: FeatureSums
    predicted: FeatureSums | None
    counts: Int[Tensor, " c"]  # on the CPU: sizes follow from it

    @property
    def attributions(self) -> Float[Tensor, "k b features"]:
        """Of each feature."""
        return self.attribution.values


def load(session: Session, task: Task, rows: slice, which: slice, predicted: bool) -> Block:
    """Bring one block to the device and reduce it from elements to features."""
    problem = task.problem
    inputs = to_device(problem.inputs[rows], session.device)
    baselines = task.replaced(rows, session.device)
    stacked = to_device(problem.stacked(which, rows), session.device)
    precision, without = send(problem.precision[which], session.device), undirected(problem.given, inputs, baselines)
    attribution = attribution_sums(problem.features, stacked, precision, rows)
    direction = direction_sums(problem.features, inputs, baselines, rows, without)
    moves = (inputs, baselines, without)
    return Block(
        rows=rows,
        which=which,
        inputs=inputs,
        baselines=baselines,
        attribution=attribution,
        direction=direction,
        predicted=predicted_sums(problem.features, stacked, moves, rows, attribution, direction) if predicted else None,
        counts=problem.features.counts(rows).cpu(),
    )


def shared_blocks(
    problem: Attributed, experiments: int, jobs: int, budget: int, stretch: int
) -> Iterator[tuple[slice, list[slice]]]:
    """Blocks that hold all attributions of their inputs, because these share rows; ``jobs`` rows per attribution."""
    k, n = len(problem.attributions), len(problem)
    # keys, their sort and its indices; a sequence for every experiment, float64 sums for one
    per_pair = 48 * jobs + problem.features.most * (16 * experiments + 48)
    height = max(1, min(n, budget // (k * per_pair)))
    for rows in pieces(n, height, stretch):
        yield rows, [slice(0, k)]


def joint_blocks(
    problem: Attributed, experiments: int, jobs: int, budget: int, stretch: int
) -> Iterator[tuple[slice, list[slice]]]:
    """For inputs with many features: blocks of inputs with all attributions, or of one input with some after others."""
    k, n = len(problem.attributions), len(problem)
    pairs = max(1, budget // (_ranked_bytes(problem, experiments, jobs) + 16 * problem.features.most))
    for rows in pieces(n, max(1, min(n, pairs // k)), stretch):
        yield rows, list(pieces(k, pairs))


def lone_blocks(problem: Attributed, jobs: int, budget: int, batch_size: int, stretch: int) -> Iterator[slice]:
    """Blocks of inputs with many features and one attribution each, whose rows fill whole batches."""
    pairs = max(1, budget // _ranked_bytes(problem, 1, jobs))
    height = pairs // batch_size * batch_size or whole_batches(pairs, jobs, batch_size)
    yield from pieces(len(problem), min(len(problem), height), stretch)


def _ranked_bytes(problem: Attributed, experiments: int, jobs: int) -> int:
    """Of one attribution of one input: itself; a sequence and ranks for every experiment, float64 sums for one."""
    return problem.inputs[0].numel() * 8 + problem.features.most * (16 * experiments + 48) + 32 * jobs


Cuts = tuple[Int[Tensor, " m"], Int[Tensor, " m"], Bool[Tensor, " m"]]


class PerturbedRows:
    """Makes rows of a block's inputs from the features that go."""

    def __init__(self, session: Session, task: Task, block: Block) -> None:
        self.task, self.block = task, block
        dtype, self.layout = session.runner.dtype, session.runner.layout
        self.inputs = block.inputs.to(dtype, memory_format=self.layout)
        self.alike = block.baselines.stride(0) == 0  # the same for all inputs: nothing to look up
        baselines = block.baselines[:1] if self.alike else block.baselines
        self.baselines = baselines.to(dtype, memory_format=self.layout)
        self.chosen = must_choose(self.inputs, self.baselines)
        self.context = task.context(block.rows, session.device) if task.moves.setwise else None
        self.at_once = writes_at_once(session, task)

    def cut(
        self, ranks: Int[Tensor, "lines features"], cuts: Cuts, at: Int[Tensor, " m"]
    ) -> Shaped[Tensor, "m *shape"]:
        """Rows whose features before a cut of a ranking are gone, or those behind it.

        Args:
            ranks: The place of each feature in some rankings.
            cuts: For each row its line in ``ranks``, the rank where it is cut, and whether the features before stay.
            at: The place of each row's input in the block.
        """
        if self.at_once:
            inputs, baselines = (
                tensor.contiguous(memory_format=self.layout) for tensor in (self.inputs, self.baselines)
            )
            return rows_by_rank(inputs, baselines, at, ranks, cuts)
        line, bound, least = cuts
        return self((ranks[line] < bound[:, None]) != least[:, None], at)

    def __call__(self, removed: Shaped[Tensor, "m features"], at: Int[Tensor, " m"]) -> Shaped[Tensor, "m *shape"]:
        """Rows of their own, which a model may overwrite."""
        mask = self.task.problem.features.expand(removed, at + self.block.rows.start)
        if self.context is not None:
            return self._filled(mask.bool(), at)
        # advanced indexing keeps channels last; without them index_select is the faster one
        images = self.layout is torch.channels_last
        rows = self.inputs[at] if images else self.inputs.index_select(0, at)
        moved = self.baselines if self.alike else self.baselines[at] if images else self.baselines.index_select(0, at)
        return replaced(rows, moved, mask, chosen=self.chosen).to(memory_format=self.layout)

    def _filled(self, mask: Bool[Tensor, "m *#shape"], at: Int[Tensor, " m"]) -> Shaped[Tensor, "m *shape"]:
        """Rows whose removed elements depend on which others go."""
        rows = self.context.at(at)  # type: ignore[union-attr]
        mask = self.task.removable(mask.expand(rows.values.shape), at + self.block.rows.start)
        filled = self.task.moves.fill(rows, mask)
        return torch.where(mask, filled, rows.values).to(self.inputs.dtype).to(memory_format=self.layout)


def writes_at_once(session: Session, task: Task) -> bool:
    """Whether a kernel writes rows straight from ranks: pixels of images go, each to a baseline of its own."""
    features = task.problem.features
    pixelwise = isinstance(features, Grid) and features.most == task.problem.inputs[0, 0].numel()
    return pixelwise and not task.moves.setwise and can_write(session.device, session.runner.layout)


def features_that_matter(
    task: Task, rows: slice, inputs: Shaped[Tensor, "b *shape"], baselines: Shaped[Tensor, "b *shape"]
) -> Bool[Tensor, "b features"]:
    """Which features of some inputs differ from what they become: removing the others changes nothing."""
    features = task.problem.features
    if task.moves.setwise:  # what one becomes depends on the others
        counts = features.counts(rows).to(inputs.device)[:, None]
        return (torch.arange(features.most, device=inputs.device) < counts).expand(len(inputs), -1)
    return features.reduce(differs(inputs, baselines, task.problem.given.missing).double(), rows) > 0
