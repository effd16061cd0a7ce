"""What removing features does, and so which reasons are false, what is left out, and what share reasons have."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Literal

import torch
from torch import Tensor

from verax.core import noise
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Bool, Float, Int
from verax.evaluation.limit_search import Part, parts, score_masks
from verax.perturbation.block import Block, PerturbedRows, load
from verax.perturbation.removed_sets import MOST_FEATURES, set_type
from verax.perturbation.set_scores import score_sets
from verax.problem.attributed import Attributed, Task, attributed
from verax.problem.problem import Problem
from verax.scoring.class_scores import Scale

_FEWEST = 8  # inputs: exact shares of fewer say less than bounds for all
_WIDTH, _CANDIDATES = 8, 64  # of the search where all subsets are too many: subsets kept, features tried
_TIE = 1e-5  # of the largest effect of an input: effects that differ by less are equal
_SPACINGS = 8  # of the score's number format: a change below is rounding

Direction = Literal["either", "raises", "lowers"]
Effects = Callable[[Bool[Tensor, "b sets features"]], Float[Tensor, "b sets"]]


@dataclass(frozen=True)
class Removals:
    """How far scores fall when features are removed; below 0 where they rise. Double precision, on the CPU."""

    single: Float[Tensor, "n features"]  # of each feature alone; NaN where an input has no such feature
    # named: of the features that an explanation names, the fall that removing those said to raise the score makes and
    # the rise that removing those said to lower it makes, together
    named: Float[Tensor, "k n"]
    best: Float[Tensor, " n"]  # the most that naming so many features could have; NaN for inputs that were not searched
    exact: bool  # whether all subsets of that size were tried; if not, ``best`` may be too small
    rounding: Float[Tensor, " n"]  # a change that counts as none, for each input


def removals(
    problem: Problem,
    top: Int[Tensor, "a n k"],
    sign: Float[Tensor, "a n features"],
    ways: tuple[bool, bool],
    rows: int,
) -> Removals:
    """Remove features and score what is left; signs say what the features at the top do to the score."""
    rated = attributed(problem, {"none": torch.zeros(()).expand(problem.inputs.shape)})
    count, most = len(problem), problem.features.most
    single = torch.full((count, most), torch.nan, dtype=torch.float64)
    best = torch.full((count,), torch.nan, dtype=torch.float64)
    together, size = torch.zeros(top.shape[:2], dtype=torch.float64), top.shape[-1]
    named = sign * _mask(top, most)
    searched, exact = _searched(rated, size, rows)
    with problem.session(effects_scale(problem)) as session:
        task = Task(rated, *problem.begin(session), session.score_name)
        for part in parts(session, task, torch.arange(count)):
            for block in _blocks(part):
                effects = _effects(part, block)
                which = part.which[block.rows].cpu()
                alone = effects(torch.eye(part.features, dtype=torch.bool).expand(len(which), -1, -1))
                single[which, : part.features] = alone
                for way in (1, -1):
                    mask = (named[:, which, : part.features] == way).transpose(0, 1)
                    together[:, which] += way * effects(mask).T if bool(mask.any()) else 0
                for place in searched[which].nonzero()[:, 0].tolist():
                    row = slice(block.rows.start + place, block.rows.start + place + 1)
                    of_row = _effects(part, load(part.session, part.task, row, slice(0, 1), False))
                    best[which[place]] = _best(of_row, alone[place], size, ways, exact)
        clean = task.clean.double().cpu()
        spacing = torch.finfo(session.dtype).eps
    largest = single.nan_to_num().abs().amax(1)
    return Removals(single, together, best, exact, _SPACINGS * spacing * (clean.abs() + largest))


def effects_scale(problem: Problem) -> Scale:
    """The score whose changes count: log-odds, which move as the probability does, unless that itself is explained.

    Not a class's logit: with several classes it may rise while the probability of the class falls.
    """
    return "probability" if problem.explained == "probability" else "log_odds"


def _searched(rated: Attributed, size: int, rows: int) -> tuple[Bool[Tensor, " n"], bool]:
    """For which inputs the best subset is searched, and whether among all: of as many as the rows allow, by lot."""
    features = rated.features.counts(slice(None)).cpu().expand(len(rated)).tolist()
    every = torch.tensor([float(sum(comb(d, taken) for taken in range(1, min(size, d) + 1))) for d in features])
    some = torch.tensor([2.0 * _WIDTH * min(d, _CANDIDATES) * size for d in features])
    lots = noise.input_keys(rated.inputs.cpu(), 0, "reasons").argsort(stable=True)
    fits, falls = (each[lots].cumsum(0) <= rows for each in (every, some))
    exact = int(fits.sum()) >= min(_FEWEST, len(rated)) or int(falls.sum()) <= int(fits.sum())
    chosen = torch.zeros(len(rated), dtype=torch.bool)
    chosen[lots[fits if exact else falls]] = True
    return chosen, exact


def _blocks(part: Part) -> Iterator[Block]:
    """Inputs some at a time, so that removed sets of single features stay small."""
    height = max(1, block_bytes(part.session.device) // (16 * max(1, part.features) ** 2))
    for rows in pieces(len(part.which), height):
        yield load(part.session, part.task, rows, slice(0, 1), False)


def _effects(part: Part, block: Block) -> Effects:
    """What gives the fall of the score for removed sets of a block's inputs."""
    session, task = part.session, part.task
    most, clean = task.problem.features.most, task.clean[block.rows].double().cpu()

    def effects(removed: Bool[Tensor, "b sets features"]) -> Float[Tensor, "b sets"]:
        masks = removed.to(session.device)
        if most <= MOST_FEATURES:
            kind = set_type(masks.shape[-1])
            bits = torch.arange(masks.shape[-1], dtype=kind, device=masks.device)
            packed = (masks * (torch.ones_like(bits) << bits)).sum(-1, dtype=kind)
            scores = score_sets(session, task, block, packed)
        else:
            scores = score_masks(PerturbedRows(session, task, block), session, masks)
        part.session.settle()
        return clean[:, None] - scores.double().cpu()

    return effects


def _best(
    effects: Effects, alone: Float[Tensor, " features"], size: int, ways: tuple[bool, bool], exact: bool
) -> float:
    """The most that ``size`` features of one input can have: those that raise the score, and those that lower it."""
    size = min(size, len(alone))
    every = [_of_all(effects, len(alone), taken) for taken in range(1, size + 1)] if exact else []
    most = []
    for sign, counts in zip((1.0, -1.0), ways, strict=True):
        largest = [float((sign * values).max()) for values in every] or _of_some(effects, sign, alone, size)
        most.append([max(0.0, 0.0, *largest[:taken]) if counts else 0.0 for taken in range(size + 1)])
    raising, lowering = most
    return max(raising[taken] + lowering[size - taken] for taken in range(size + 1))


def _of_all(effects: Effects, features: int, taken: int) -> Float[Tensor, " sets"]:
    """The effect of every subset of a size."""
    subsets = torch.tensor(list(combinations(range(features), taken)))
    effects_by_size = []
    for part in pieces(len(subsets), max(1, (1 << 22) // features)):
        removed = torch.zeros(part.stop - part.start, features, dtype=torch.bool)
        effects_by_size.append(effects(removed.scatter_(1, subsets[part], True)[None])[0])
    return torch.cat(effects_by_size)


def _of_some(effects: Effects, sign: float, alone: Float[Tensor, " features"], size: int) -> list[float]:
    """The greatest effect of each size that a beam search finds among the features with the greatest of their own."""
    tried = (sign * alone).argsort(descending=True, stable=True)[:_CANDIDATES]
    kept = torch.zeros(1, len(alone), dtype=torch.bool)
    largest = []
    for _ in range(size):
        wider = kept[:, None].repeat(1, len(tried), 1)
        wider[:, torch.arange(len(tried)), tried] = True
        wider = torch.unique(wider.flatten(0, 1), dim=0)
        values = sign * effects(wider[None])[0]
        order = values.argsort(descending=True, stable=True)[:_WIDTH]
        kept = wider[order]
        largest.append(float(values[order[0]]))
    return largest


def _mask(top: Int[Tensor, "a n k"], features: int) -> Bool[Tensor, "a n features"]:
    wide = torch.zeros(*top.shape[:2], features + 1, dtype=torch.bool)
    return wide.scatter_(-1, top.where(top >= 0, features), True)[..., :features]


def judged(
    effects: Removals,
    top: Int[Tensor, "a n k"],
    sign: Float[Tensor, "a n features"],
    direction: Direction,
    tolerance: float,
) -> dict[str, Tensor]:
    """Which reasons are false, which features are left out, and what share the reasons have."""
    single, k = effects.single, top.shape[-1]
    none = effects.rounding + tolerance
    moved = (single * sign).gather(-1, top.clamp(min=0))
    false = (top >= 0) & ~(moved > none[:, None])
    strength = {"either": single.abs(), "raises": single, "lowers": -single}[direction].nan_to_num(nan=-torch.inf)
    mask = _mask(top, single.shape[-1])
    # the strongest that are not named, against the weakest that are: each takes the place of one
    others = strength.masked_fill(mask, -torch.inf)
    strongest = others.argsort(dim=-1, descending=True, stable=True)[..., :k]
    rivals = others.gather(-1, strongest)
    weakest = strength.expand_as(mask).gather(-1, top.clamp(min=0)).clamp(min=0).masked_fill(top < 0, 0)
    weakest = weakest.sort(dim=-1).values[..., : rivals.shape[-1]]
    tie = none + _TIE * single.nan_to_num().abs().amax(1)
    beaten = (rivals > weakest + tie[:, None]) & (rivals > none[:, None])
    omitted = torch.zeros_like(mask).scatter_(-1, strongest, beaten)
    real = (strength > none[:, None]).sum(-1).clamp(max=k)
    best = effects.best if effects.exact else torch.maximum(effects.best, effects.named.amax(0))
    share = (effects.named / best.masked_fill(~(best > none), torch.nan)).clamp(0, 1)
    return {"top": top, "false": false, "omitted": omitted, "strongest": real.expand(len(top), -1), "share": share}
