"""Coalitions: copies of an input that keep some of its features and have the baseline in place of all others."""

from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from verax.core.shapes import Bool, Float, Int
from verax.problem.baselines import must_choose, replaced
from verax.problem.features import FeatureMap, Groups
from verax.problem.problem import Problem

Kept = Callable[[Int[Tensor, " rows"], Int[Tensor, " rows"]], Bool[Tensor, "rows features"]]
"""The features that are kept: by the place of each row's input and the number of its coalition."""

Over = Literal["baselines", "background"]
"""What stands in for removed features: the problem's baselines, or each row of its background, on average."""


def coalition_scores(
    problem: Problem, which: Int[Tensor, " b"], count: int, kept: Kept, over: Over = "baselines"
) -> Float[Tensor, "b {count}"]:
    """Score as many coalitions of each of some inputs, in bounded memory; over a background, their means."""
    session, fmap = problem.open_session, problem.features
    at_home = which.to(problem.inputs.device)
    inputs = problem.inputs.index_select(0, at_home).to(session.device, session.dtype)
    if over == "baselines":
        others, each = problem.baselines.index_select(0, at_home), 1
    else:  # features come from each row of the background in turn
        others = problem.need_background("a mean over the background")
        each = len(others)
    others = others.to(session.device, session.dtype)
    chosen = must_choose(inputs, others)

    def build(start: int, stop: int) -> Tensor:
        row = torch.arange(start, stop, device=session.device)
        coalition, at = row // each, row // (each * count)
        removed = ~kept(at, coalition % count)
        mask = fmap.expand(functional.pad(removed, (0, fmap.most - removed.shape[1])), which[at])
        return replaced(inputs[at], others[at if over == "baselines" else row % each], mask, chosen=chosen)

    scores = session.target_scores(build, which.repeat_interleave(count * each), problem.classes)
    scores = scores.reshape(len(which), count, each)
    return scores[..., 0] if over == "baselines" else scores.double().mean(2)


def by_count(features: FeatureMap, rows: slice, device: torch.device) -> Iterator[tuple[int, Int[Tensor, " b"]]]:
    """Inputs of a block that have equally many features: how many, and which inputs."""
    counts = features.counts(rows).to(device).expand(rows.stop - rows.start)
    for count in sorted(set(counts.tolist())):
        yield count, rows.start + (counts == count).nonzero()[:, 0]


def removable(features: FeatureMap, rows: slice, like: Tensor) -> Float[Tensor, "b *shape"]:
    """One for every element of a block, 0 where it is never removed; in the precision and place of another tensor."""
    which = torch.arange(rows.start, rows.stop, device=like.device)
    ones = like.new_ones(len(which), *features.shape)
    return ones * (features.at(which).numbers() >= 0).to(ones) if isinstance(features, Groups) else ones


def spread_evenly(
    features: FeatureMap, values: Float[Tensor, "k b features"], rows: slice
) -> Float[Tensor, "k b *shape"]:
    """Share the value of each feature out among its elements that can be removed; they sum to it again."""
    return spread_over(features, values, rows, removable(features, rows, values))


def spread_over(
    features: FeatureMap, values: Float[Tensor, "k b features"], rows: slice, elements: Float[Tensor, "b *shape"]
) -> Float[Tensor, "k b *shape"]:
    """Share the value of each feature out among some of its elements, which are 1; all others are 0."""
    which = torch.arange(rows.start, rows.stop, device=values.device)
    shares = values / features.reduce(elements, rows).clamp(min=1)
    return torch.stack([features.expand(share, which) * elements for share in shares])
