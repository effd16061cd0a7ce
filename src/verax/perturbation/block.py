"""Blocks: how inputs and attributions are cut so that working memory stays bounded, whatever their number."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from verax.core.arrays import send, to_device
from verax.core.blocks import pieces, whole_batches
from verax.core.shapes import Float, Int, Shaped
from verax.perturbation.feature_sums import FeatureSums, attribution_sums, direction_sums, predicted_sums
from verax.problem.attributed import Attributed, Task
from verax.problem.checked_inputs import undirected
from verax.scoring.session import Session


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
    """Bring one block to the device and reduce it from elements to features.

    Args:
        session: The model.
        task: Inputs and attributions.
        rows: Which inputs.
        which: Which attributions.
        predicted: Whether the change that an attribution predicts for each feature is needed, too.
    """
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
