"""Whether the top features stay: with other seeds of the method, other draws of the background, and nearby inputs."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from verax.attribution.base import Attribution
from verax.core import noise
from verax.core.blocks import pieces
from verax.core.shapes import Float, Int
from verax.problem.problem import Problem

KINDS = ("seeds", "background", "neighbours")
_SAME_SCORE = 0.02  # of a probability; of other scores, of their range
_POOL = 4096  # inputs among which a neighbour is looked for
_ELEMENTS = 1 << 23  # of the differences that are held at a time

TopOf = Callable[[Problem, Mapping[str, Attribution]], dict[str, Int[Tensor, "n k"]]]


def agreement(
    problem: Problem,
    top: Mapping[str, Int[Tensor, "n k"]],
    methods: Mapping[str, Attribution],
    top_of: TopOf,
    repeats: int,
    seed: int,
) -> dict[str, Float[Tensor, "a n"]]:
    """The part of each input's top features that stays, by what is changed; NaN where it cannot be."""
    nothing = torch.full((len(problem),), torch.nan, dtype=torch.float64)
    seeded: dict[str, Any] = {name: method for name, method in methods.items() if hasattr(method, "seed")}
    agreements: dict[str, dict[str, Tensor]] = {kind: {} for kind in KINDS}
    if seeded and repeats:
        others = [
            {name: replace(method, seed=method.seed + turn) for name, method in seeded.items()}
            for turn in range(1, repeats + 1)
        ]
        agreements["seeds"] = _mean_overlap(top, [top_of(problem, other) for other in others])
    agreements["seeds"] |= {name: torch.ones_like(nothing) for name in methods if name not in seeded}
    if methods and repeats and (rows := problem.background) is not None:
        drawn = []
        for turn in range(1, repeats + 1):  # as many rows, drawn with replacement
            key = noise.input_keys(torch.zeros(1, 1), seed, f"background {turn}")
            lots = noise.words(key, 0, len(rows))[0].remainder(len(rows))
            drawn.append(top_of(problem.with_background_rows(lots.to(rows.device)), methods))
        agreements["background"] = _mean_overlap(top, drawn)
    nearest = neighbours(problem, torch.arange(len(problem)))
    agreements["neighbours"] = {name: overlap_with_neighbour(named, named, nearest) for name, named in top.items()}
    return {kind: torch.stack([agreements[kind].get(name, nothing) for name in top]) for kind in KINDS}


def overlap(first: Int[Tensor, "n k"], second: Int[Tensor, "n k"]) -> Float[Tensor, " n"]:
    """The part of the features of two lists that both name; 1 where neither names any.

    Example:
        >>> overlap(torch.tensor([[1, 2], [3, -1]]), torch.tensor([[2, 5], [3, -1]])).tolist()
        [0.5, 1.0]
    """
    both = ((first[:, :, None] == second[:, None]) & (first >= 0)[:, :, None]).any(-1).sum(-1)
    most = torch.maximum((first >= 0).sum(-1), (second >= 0).sum(-1))
    return torch.where(most > 0, both.double() / most.clamp(min=1), 1.0)


def overlap_with_neighbour(
    first: Int[Tensor, "n k"], every: Int[Tensor, "m k"], nearest: Int[Tensor, " n"]
) -> Float[Tensor, " n"]:
    """The overlap of each list with that of its neighbour among others; NaN where it has none."""
    return overlap(first, every[nearest.clamp(min=0)]).masked_fill(nearest < 0, torch.nan)


def _mean_overlap(
    top: Mapping[str, Int[Tensor, "n k"]], others: list[dict[str, Int[Tensor, "n k"]]]
) -> dict[str, Float[Tensor, " n"]]:
    return {name: torch.stack([overlap(top[name], other[name]) for other in others]).mean(0) for name in others[0]}


def neighbours(problem: Problem, rows: Int[Tensor, " m"]) -> Int[Tensor, " m"]:
    """For some inputs the nearest other one with the same target and nearly the same score; -1 where there is none.

    Distances are Euclidean, of amounts in standard deviations, of categories 1 where they differ. Beyond 4,096 inputs,
    neighbours are looked for among as many of them, drawn at random.
    """
    pool = noise.input_keys(problem.inputs.cpu(), 0, "neighbours").argsort(stable=True)[:_POOL].sort().values
    scored, place = np.unique(torch.cat((pool, rows)).numpy(), return_inverse=True)
    part = problem[scored]
    scores, classes = part.scores().double().cpu()[place], part.classes.cpu()[place]
    pool_scores, pool_classes = scores[: len(pool)], classes[: len(pool)]
    probability = problem.output == "probability" and problem.scorer.adapter.returns != "values"
    reach = _SAME_SCORE * (1.0 if probability else float(pool_scores.max() - pool_scores.min()))
    of_pool = problem.inputs[pool].flatten(1).double().cpu()
    spread = of_pool.nan_to_num().std(0, correction=0).clamp(min=1e-12)
    codes = problem.given.codes
    category = torch.zeros(of_pool.shape[1], dtype=torch.bool) if codes is None else codes.flatten().cpu()
    amounts, categories = (of_pool / spread)[:, ~category].nan_to_num(), of_pool[:, category]
    nearest_parts = []
    for some in pieces(len(rows), max(1, _ELEMENTS // max(1, of_pool.numel()))):
        which, beside = rows[some], slice(len(pool) + some.start, len(pool) + some.stop)
        values = problem.inputs[which].flatten(1).double().cpu()
        apart = ((values / spread)[:, None, ~category].nan_to_num() - amounts).square().sum(-1)
        apart += (values[:, None, category] != categories).sum(-1)
        allowed = (scores[beside, None] - pool_scores).abs() <= reach
        allowed &= (classes[beside, None] == pool_classes) & (which[:, None] != pool)
        nearest = pool[apart.masked_fill(~allowed, torch.inf).argmin(1)]
        nearest_parts.append(nearest.where(allowed.any(1), -1))
    return torch.cat(nearest_parts)
