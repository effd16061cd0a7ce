"""Blocks: inputs with attributions reduced to features, the order in which these go, and the rows without them.

A sum over the elements of a feature that is 0 but for rounding has no sign.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from verax.core.arrays import send, to_device
from verax.core.blocks import pieces, whole_batches
from verax.core.image_rows import can_write, rows_by_rank
from verax.core.shapes import Bool, Float, Int, Shaped
from verax.problem.attributed import Attributed, Task
from verax.problem.baselines import differs, must_choose, replaced
from verax.problem.features import FeatureMap, Grid, spread
from verax.problem.inputs import undirected
from verax.scoring.session import Session

Order = Literal["signed", "magnitude"]
_PRODUCTS = 1 << 25  # numbers
_ALIKE = 1 - 1e-12  # sums of numbers of one sign equal the sums of their sizes, but for the order of adding


def removal_order(
    attributions: Float[Tensor, "*batch features"], order: Order, counts: Int[Tensor, " inputs"] | None = None
) -> Int[Tensor, "*batch features"]:
    """List the features of each input from the most to the least important; those beyond its count come last.

    Ties keep the order of the features (a stable sort), so the result is the same on every machine.
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

    Inputs may differ in their number of features: the last point of a shorter curve is repeated. The cut points of n
    steps are among those of every multiple of n: in one call, the finer number brings the scores of the coarser one.
    """
    steps_of_row = counts.clamp(max=steps)[:, None]
    return torch.minimum(torch.arange(min(steps, most) + 1), steps_of_row) * counts[:, None] // steps_of_row


@dataclass(frozen=True)
class FeatureSums:
    """A sum for each feature."""

    values: Float[Tensor, "*k b features"]  # the sums
    # the same sums of numbers without their signs; None where each is of one number
    sizes: Float[Tensor, "*k b features"] | None
    # numbers, added up, whose last digit was rounded to give those that are summed
    rounded: Float[Tensor, "*k b features"] | None
    # relative spacing of their format; one for all, or one for each attribution
    precision: float | Float[Tensor, "k 1 1"]

    @property
    def size(self) -> Float[Tensor, "*k b features"]:
        """The sums of numbers without their signs."""
        return self.values.abs() if self.sizes is None else self.sizes

    @property
    def spacing(self) -> float | Float[Tensor, "k 1 1 1"]:
        """The precision, for sums over the features of some steps of some curves."""
        return self.precision if isinstance(self.precision, float) else self.precision[..., None]

    @property
    def rounding(self) -> Float[Tensor, "*k b features"]:
        """How far the rounding of its numbers may have moved each sum."""
        return (self.size if self.rounded is None else self.rounded).double() * self.precision

    def signs(self) -> Shaped[Tensor, "*k b features"]:
        return self.values.sign() if self.sizes is None else signs(self.values, self.sizes, self.rounding)

    def free_signs(self) -> Shaped[Tensor, "*k b features"]:
        """Sign of each sum, or 1 where numbers cancel out: weighted one by one, they need not."""
        signs = self.signs()
        return signs.masked_fill((signs == 0) & (self.size > 0), 1)


def attribution_sums(
    features: FeatureMap, stacked: Float[Tensor, "k b *rest"], precision: Float[Tensor, "k 1 1"], rows: slice
) -> FeatureSums:
    sizes = None if _single_elements(features, stacked[0, 0].numel(), rows) else features.reduce(stacked.abs(), rows)
    return FeatureSums(features.reduce(stacked, rows), sizes, None, precision)


def direction_sums(
    features: FeatureMap,
    inputs: Shaped[Tensor, "b *shape"],
    baselines: Shaped[Tensor, "b *shape"],
    rows: slice,
    without: Bool[Tensor, "..."] | None = None,
) -> FeatureSums:
    """``x - baseline`` of each feature, which is as exact as both are; 0 for elements ``without`` a direction."""
    precision = _spacing(inputs)
    inputs, baselines = inputs.double(), _unexpanded(baselines).double()
    if without is not None:
        inputs, baselines = inputs.masked_fill(without, 0), baselines.masked_fill(without, 0)
    difference = inputs - baselines
    sizes = None if _single_elements(features, inputs[0].numel(), rows) else features.reduce(difference.abs(), rows)
    rounded = features.reduce(inputs.abs() + baselines.abs(), rows)
    return FeatureSums(features.reduce(difference, rows), sizes, rounded, precision)


def predicted_sums(
    features: FeatureMap,
    stacked: Float[Tensor, "k b *rest"],
    moves: tuple[Tensor, Tensor, Tensor | None],
    rows: slice,
    attribution: FeatureSums,
    direction: FeatureSums,
) -> FeatureSums:
    """The drop that attributions predict where a feature goes: ``a (x - baseline)``, summed over its elements."""
    inputs, baselines, without = moves
    if _single_elements(features, stacked[0, 0].numel(), rows):  # all elements of a feature share its number
        return size_times_sign(attribution, direction, attribution.signs())
    ends = inputs.double(), _unexpanded(baselines).double()
    difference, reach = ends[0] - ends[1], ends[0].abs() + ends[1].abs()
    if without is not None:
        difference, reach = difference.masked_fill(without, 0), reach.masked_fill(without, 0)
    shape = tuple(inputs.shape[1:])
    sums = []
    for some in pieces(len(stacked), _together(inputs)):  # products of all would be the largest thing in memory
        spread_out = spread(stacked[some], shape).double()
        parts = (spread_out * difference, (spread_out * difference).abs(), spread_out.abs() * reach)
        sums.append([features.reduce(part, rows) for part in parts])
    values, sizes, rounded = (torch.cat(part) for part in zip(*sums, strict=True))
    precision = torch.as_tensor(attribution.precision, device=values.device).clamp(min=_spacing(inputs))
    return FeatureSums(values, sizes, rounded, precision)


def _unexpanded(values: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "..."]:
    """Values that are seen again and again, such as one baseline for all, once, to be broadcast."""
    for axis, step in enumerate(values.stride()):
        values = values.narrow(axis, 0, 1) if step == 0 and values.shape[axis] else values
    return values


def _together(inputs: Shaped[Tensor, "b *shape"]) -> int:
    """Attributions whose products are made at once: one on a CPU, many on a GPU, where each operation is a launch."""
    return 1 if inputs.device.type == "cpu" else max(1, _PRODUCTS // inputs.numel())


def _single_elements(features: FeatureMap, numbers: int, rows: slice) -> bool:
    """Whether every feature of these inputs has one number."""
    return int(features.counts(rows).min()) == numbers


def _spacing(values: Tensor) -> float:
    """Relative spacing of the numbers of a format; whole numbers are exact."""
    return torch.finfo(values.dtype).eps if values.is_floating_point() else 0.0


def size_times_sign(attribution: FeatureSums, direction: FeatureSums, sign: Tensor) -> FeatureSums:
    """``sign |a| (x - baseline)`` of each feature; a product too small for a number keeps its sign."""
    size = attribution.values.double().abs() * direction.values.double().abs()
    values = sign * direction.signs() * size.clamp(min=torch.finfo(torch.float64).tiny)
    precision = torch.as_tensor(attribution.precision, device=values.device)
    # x - baseline was rounded where x and the baseline are, however close they are to each other
    rounded = None if direction.rounded is None else attribution.values.double().abs() * direction.rounded
    return FeatureSums(values, None, rounded, precision.clamp(min=direction.precision))


def signs(
    sums: Float[Tensor, "*shape"], sizes: Float[Tensor, "*shape"], rounding: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Signs of sums, 0 for those that cancel out but for rounding: theirs would be chance.

    Numbers of one sign do not cancel out, however small: a sum of one number has its sign.
    """
    size = sums.abs()
    return sums.sign().masked_fill((size <= rounding) & (size < sizes * _ALIKE), 0)


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
    drop, moves = None, (inputs, baselines, without)
    if predicted:
        drop = predicted_sums(problem.features, stacked, moves, rows, attribution, direction)
    return Block(rows, which, inputs, baselines, attribution, direction, drop, problem.features.counts(rows).cpu())


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


# of each row its line in some rankings, the rank where it is cut, and whether the features before stay
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
        # a kernel writes rows straight from ranks where pixels of images go, each to its baseline
        features, pixels = task.problem.features, task.problem.inputs[0, 0].numel()
        pixelwise = isinstance(features, Grid) and features.most == pixels and not task.moves.setwise
        self.at_once = pixelwise and can_write(session.device, session.runner.layout)

    def cut(
        self, ranks: Int[Tensor, "lines features"], cuts: Cuts, at: Int[Tensor, " m"]
    ) -> Shaped[Tensor, "m *shape"]:
        """Rows at some places of the block whose features before a cut of a ranking are gone, or those behind it."""
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


def features_that_matter(
    task: Task, rows: slice, inputs: Shaped[Tensor, "b *shape"], baselines: Shaped[Tensor, "b *shape"]
) -> Bool[Tensor, "b features"]:
    """Which features of some inputs differ from what they become: removing the others changes nothing."""
    features = task.problem.features
    if task.moves.setwise:  # what one becomes depends on the others
        counts = features.counts(rows).to(inputs.device)[:, None]
        return (torch.arange(features.most, device=inputs.device) < counts).expand(len(inputs), -1)
    return features.reduce(differs(inputs, baselines, task.problem.given.missing).double(), rows) > 0
