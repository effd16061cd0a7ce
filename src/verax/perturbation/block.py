"""Blocks: how inputs and attributions are cut so that working memory stays bounded, whatever their number."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from verax.arguments import Problem
from verax.scoring import Session
from verax.shapes import Float, Int


def block_bytes(device: torch.device) -> int:
    """Working memory of one block; results and the model's own activations come on top.

    Small enough for a laptop on a CPU, large enough to fill many batches of images on an accelerator.
    """
    return 1 << 26 if device.type == "cpu" else 1 << 30


@dataclass(frozen=True)
class Block:
    """Some inputs and some attributions of them, on the session's device, features already reduced."""

    rows: slice
    which: slice
    inputs: Float[Tensor, "b *shape"]
    baselines: Float[Tensor, "b *shape"]
    attributions: Float[Tensor, "k b features"]
    direction: Float[Tensor, "b features"]
    counts: Int[Tensor, " c"]


def load(session: Session, problem: Problem, rows: slice, which: slice) -> Block:
    """Bring one block to the device and reduce it from elements to features."""
    inputs = problem.inputs[rows].to(session.device)
    baselines = problem.baselines[rows].to(session.device)
    stacked = torch.stack([one[rows] for one in problem.attributions[which]]).to(session.device)
    return Block(
        rows=rows,
        which=which,
        inputs=inputs,
        baselines=baselines,
        attributions=problem.features.reduce(stacked, rows),
        direction=problem.features.reduce((inputs.double() - baselines.double()), rows),
        counts=problem.features.counts(rows),
    )


def shared_blocks(problem: Problem, experiments: int, jobs: int, budget: int) -> Iterator[tuple[slice, list[slice]]]:
    """Blocks that hold all attributions of their inputs, because these share rows; ``jobs`` rows per attribution."""
    k, n = len(problem.attributions), len(problem)
    # keys, their sort and its indices; a sequence for every experiment, float64 sums for one
    per_pair = 48 * jobs + problem.features.most * (16 * experiments + 48)
    height = max(1, min(n, budget // (k * per_pair)))
    for rows in pieces(n, height):
        yield rows, [slice(0, k)]


def separate_blocks(problem: Problem, experiments: int, jobs: int, budget: int) -> Iterator[tuple[slice, list[slice]]]:
    """Blocks of inputs and, for each, blocks of attributions, for inputs with many features."""
    k, n = len(problem.attributions), len(problem)
    # the attribution itself; a sequence and ranks for every experiment, float64 sums for one
    per_pair = problem.inputs[0].numel() * 8 + problem.features.most * (16 * experiments + 48) + 32 * jobs
    pairs = max(1, budget // per_pair)
    height = min(n, pairs)
    for rows in pieces(n, height):
        yield rows, list(pieces(k, max(1, pairs // height)))


def pieces(count: int, size: int) -> Iterator[slice]:
    """Cut ``count`` things into slices of at most ``size``."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
