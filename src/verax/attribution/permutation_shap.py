"""PermutationShap: Shapley values as mean contributions of features that join one after the other."""

import functools
from collections import deque
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from verax.attribution.family import input_keys
from verax.attribution.kernel_shap import fit_of_pairs
from verax.attribution.shapley import Draws, ShapleyFamily, _Sampled
from verax.attribution.triples import Fit
from verax.core import noise, palette
from verax.core.shapes import Bool, Float, Int
from verax.problem.problem import Problem

_TURNS = 3  # orders from one, each turned further
_FITTED = 4  # walks from which more sets are known than features


@dataclass(frozen=True)
class PermutationShap(_Sampled):
    """Shapley values of the logit over any features, by walks through random orders (Castro, Gomez, Tejada 2009).

    A walk starts at the baseline and lets one feature after the other take its value from the input; a feature's
    contribution is how far the score moves when it joins, and its value is the mean over walks. Every second walk goes
    the order of the one before backwards, so that it meets the complements of its coalitions (Mitchell et al. 2022).
    Three orders are one random order, turned by a third: a feature joins early, halfway and late.

    From the second walk there and back on, contributions are not averaged: all sets that were met are fitted together,
    with the interactions that ``KernelShap`` allows for, which leaves less error from the same rows.

    The values always sum to the difference of the scores of the input and of the baseline. A budget uses whole walks of
    ``d - 1`` rows for ``d`` features, from four on as many back as there. One that is too small for a whole walk takes
    longer steps, and features that join together share their contribution evenly.

    Args:
        samples: Model rows per input at most, those of the input and of the baseline included. Budgets are prefixes:
            the first walks are the same whatever their number, so that many budgets together cost the rows of the
            largest. From ``2^d`` rows on all coalitions are scored and the values are exact. Standard errors are in
            ``verax.explain(...).standard_errors``; they are somewhat too small: two of them hold 84 to 95 % of the
            exact values (``python benchmarks/outside.py --part shapley``), two of ``KernelShap``'s 95 to 97 %.
        seed: Orders are a function of the seed and the input's values.
        over: ``"baselines"``, or ``"background"``: a coalition's score is the mean over all rows of the background, as
            in shap (marginal, or interventional), and costs as many model rows.

    Example:
        >>> import verax
        >>> model, x = torch.nn.Linear(20, 2), torch.randn(3, 20)
        >>> found = PermutationShap(samples=64)(verax.Problem(model, x, target=1, explained="logit", baselines=0.5))
        >>> bool(torch.allclose(found, model.weight[1] * (x - 0.5), atol=1e-5))
        True
    """

    label: ClassVar[str] = "Permutation SHAP"
    colour: ClassVar[str | None] = palette.FOREST
    citation: ClassVar[str] = (
        "Castro, Gomez, Tejada: Polynomial calculation of the Shapley value based on sampling, 2009; backwards: "
        "Mitchell et al.: Sampling permutations for Shapley value estimation, JMLR 2022"
    )

    @property
    def family(self) -> "PermutationShapFamily":
        """All budgets of a seed."""
        return PermutationShapFamily(self.seed, self.over)


@dataclass(frozen=True)
class _Walks(Draws):
    """Walks there and back; ``joins`` says when each feature joins on the way there."""

    joins: Int[Tensor, "b orders features"]


@dataclass(frozen=True)
class PermutationShapFamily(ShapleyFamily):
    """One sequence of walks; every budget takes the mean of its first ones."""

    version: ClassVar[int] = 4

    def used(self, features: int, samples: int) -> int:
        """Whole walks, as many back as there where they are fitted; or a part of the first one."""
        length = max(1, features - 1)
        walks = (samples - 2) // length
        return (walks - walks % 2 if walks >= _FITTED else walks) * length or samples - 2

    def draws(self, problem: Problem, which: Int[Tensor, " b"], features: int, count: int) -> _Walks:
        """Draw orders; the points of each walk come halfway first, so that a part of it spans all of it."""
        length = max(1, features - 1)
        keys = input_keys(problem, which, self.seed, "permutation-shap")
        orders = max(1, -(-count // (2 * length)))
        lots = noise.drawn_words(keys, 0, -(-orders // _TURNS), features)
        joins = lots.argsort(dim=-1, stable=True).argsort(dim=-1)
        turns = torch.tensor([0, *halfway_first(_TURNS)], device=which.device) * features // _TURNS
        joins = ((joins[:, :, None] + turns[:, None]) % features).flatten(1, 2)[:, :orders]
        points = torch.tensor(halfway_first(features), device=which.device)

        def kept(at: Int[Tensor, " rows"], number: Int[Tensor, " rows"]) -> Bool[Tensor, "rows features"]:
            walk, point = number // length, points[number % length, None]
            place = joins[at, walk // 2]
            return torch.where((walk % 2 == 0)[:, None], place < point, place >= features - point)

        return _Walks(kept, count, joins)

    def estimates(
        self, draws: _Walks, scores: Float[Tensor, "b used"], ends: Float[Tensor, "b 2"], features: int
    ) -> Fit:
        """The mean contribution over the walks of a budget, or what fits all sets of several walks there and back."""
        points = halfway_first(features)[: scores.shape[1]]
        walks = max(1, scores.shape[1] // max(1, features - 1))
        if walks >= _FITTED:
            return _fitted(draws.joins[:, : walks // 2], scores.reshape(len(scores), walks, -1), points, ends)
        at = torch.tensor([0, *points, features], device=scores.device)
        path = scores.reshape(len(scores), walks, -1)
        first, last = (ends[:, None, end, None].expand(-1, walks, 1) for end in (0, 1))
        at, order = at.sort()
        path = torch.cat((first, path, last), dim=2)[..., order]
        steps = path.diff(dim=2) / at.diff()  # of each feature that joins in one step
        joined = steps.repeat_interleave(at.diff(), dim=2)
        joined[:, 1::2] = joined[:, 1::2].flip(-1)  # the way back
        joins = draws.joins.repeat_interleave(2, dim=1)[:, :walks]
        return Fit.without_errors(joined.gather(2, joins).mean(1))


def _fitted(
    joins: Int[Tensor, "b orders features"],
    scores: Float[Tensor, "b walks points"],
    points: list[int],
    ends: Float[Tensor, "b 2"],
) -> Fit:
    """Fit the sets of walks there, each with its complement, which the walk back met."""
    features = joins.shape[2]
    sizes, order = torch.tensor(points, device=scores.device).sort()
    path = scores[..., order]
    odd = (path[:, 0::2] - path[:, 1::2].flip(-1)) / 2
    half = joins[:, :, None] < sizes[:, None]
    size = sizes.repeat(joins.shape[1]).to(scores)
    return fit_of_pairs(half.flatten(1, 2), size, odd.flatten(1), 1 / (size * (features - size)), ends)


@functools.lru_cache(maxsize=64)
def halfway_first(features: int) -> list[int]:
    """The numbers from 1 up to the last but one, each halfway between earlier ones.

    Example:
        >>> halfway_first(8)
        [4, 2, 6, 1, 3, 5, 7]
    """
    places: list[int] = []
    waiting = deque([(0, features)])
    while waiting:
        low, high = waiting.popleft()
        if high - low > 1:
            middle = (low + high) // 2
            places.append(middle)
            waiting += [(low, middle), (middle, high)]
    return places
