"""Shapley values: exactly, from the scores of all coalitions, and what methods share that estimate them from some."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor

from verax.attribution.base import Attribution
from verax.attribution.coalitions import Kept, Over, by_count, coalition_scores, spread_evenly
from verax.attribution.family import Family, Piece, Place
from verax.attribution.triples import Fit
from verax.core.arguments import checked_choice, checked_count, checked_seed, settle
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Bool, Float, Int
from verax.problem.problem import Problem
from verax.scoring.meter import Rows


def exact_shapley(scores: Float[Tensor, "b coalitions"]) -> Float[Tensor, "b features"]:
    """Shapley values from the scores of all ``2^d`` coalitions, feature ``i`` kept where bit ``i`` of the place is 1.

    ``phi_i = sum_S |S|! (d - |S| - 1)! / d! (v(S + i) - v(S))`` over all sets ``S`` without ``i`` (Shapley 1953).

    Example:
        >>> exact_shapley(torch.tensor([[0.0, 1.0, 2.0, 7.0]]))  # none, the first, the second, both
        tensor([[3., 4.]], dtype=torch.float64)
    """
    features = scores.shape[1].bit_length() - 1
    sizes = torch.zeros(1, dtype=torch.int64, device=scores.device)
    for _ in range(features):
        sizes = torch.cat((sizes, sizes + 1))
    size = torch.arange(features + 1, dtype=torch.float64, device=scores.device)
    ways = torch.exp(torch.lgamma(size[-1] + 1) - torch.lgamma(size + 1) - torch.lgamma(size[-1] - size + 1)).round()
    joined = torch.where(size > 0, 1 / (size * ways), 0)  # (|S| - 1)! (d - |S|)! / d!, for sets with the feature
    lacked = torch.where(size < features, 1 / ((features - size) * ways), 0)  # for sets without it
    worth = scores.double() - scores[:, :1].double()
    within = worth * (joined + lacked)[sizes]
    every = (worth * lacked[sizes]).sum(1)
    by_bit = [within.reshape(len(scores), -1, 2, 1 << bit)[:, :, 1].sum((1, 2)) for bit in range(features)]
    return torch.stack(by_bit, dim=1) - every[:, None] if by_bit else worth[:, :0]


@dataclass(frozen=True)
class _Sampled(Attribution):
    """Settings of the methods that estimate Shapley values."""

    samples: int = 1024
    seed: int = 0
    over: Over = "baselines"

    random: ClassVar[bool] = True
    local: ClassVar[bool] = False
    worth_showing: ClassVar[tuple[str, ...] | None] = ("samples",)

    def __post_init__(self) -> None:
        settle(self, samples=checked_count("samples", self.samples, least=2), seed=checked_seed(self.seed))
        checked_choice("over", self.over, get_args(Over))


@dataclass(frozen=True)
class Draws:
    """Coalitions of some inputs with equally many features, drawn in an order of which budgets use the first."""

    kept: Kept  # the features of each
    count: int  # how many

    def masks(self, inputs: int, features: int, device: torch.device) -> Bool[Tensor, "{inputs} count {features}"]:
        """All of them at once, for few features."""
        at = torch.arange(inputs, device=device).repeat_interleave(self.count)
        number = torch.arange(self.count, device=device).repeat(inputs)
        return self.kept(at, number).reshape(inputs, self.count, features)


@dataclass(frozen=True)
class ShapleyFamily(Family):
    """All budgets of one method and seed: each uses the first coalitions of one draw.

    Scores of the input and of the baseline are known to all. A budget that holds all coalitions of an input gives
    exact values; then smaller budgets find the scores of theirs among them.
    """

    seed: int
    over: Over

    def check(self, members: Sequence[Any], problem: Problem) -> None:
        if self.over == "background":
            problem.need_background(f"{type(members[0]).__name__}(over='background')")

    @abstractmethod
    def used(self, features: int, samples: int) -> int:
        """Coalitions that a budget draws, besides the one with all features and the one with none."""

    @abstractmethod
    def draws(self, problem: Problem, which: Int[Tensor, " b"], features: int, count: int) -> Draws:
        """Draw so many coalitions for some inputs with equally many features."""

    @abstractmethod
    def estimates(self, draws: Any, scores: Float[Tensor, "b used"], ends: Float[Tensor, "b 2"], features: int) -> Fit:
        """Values and errors from the scores of the first coalitions, and of those with no and with all features."""

    def rows(self, members: Sequence[_Sampled], problem: Problem, place: Place) -> Rows:
        """Those of the largest budget, for each input; the input itself is counted elsewhere."""
        counts = problem.features.counts(slice(0, len(problem.inputs)))
        each = [self._rows(members, int(features)) for features in counts]
        return Rows(sum(each) * (len(problem.inputs) if len(each) == 1 else 1) * self._others(problem))

    def _others(self, problem: Problem) -> int:
        """Rows that a coalition costs."""
        return 1 if self.over == "baselines" or problem.background is None else len(problem.background)

    def pieces(self, members: Sequence[_Sampled], problem: Problem) -> Iterator[Piece]:
        fmap, device = problem.features, problem.open_session.device
        most = fmap.most
        exact = any(_is_exact(member, most) for member in members)
        per_input = (self._rows(members, most) + 1) * (64 if exact else 24 * (most + 4))
        per_input += 8 * self._rows(members, most) * self._others(problem)
        for rows in pieces(len(problem.inputs), max(1, block_bytes(device) // per_input)):
            count = rows.stop - rows.start
            fits = torch.zeros(2, len(members), count, most, dtype=torch.float64, device=device)
            for features, which in by_count(fmap, rows, device):
                for place, fit in enumerate(self._fits(members, problem, which, features)):
                    fits[:, place, which - rows.start, :features] = torch.stack((fit.values, fit.errors))
            values, errors = (spread_evenly(fmap, part, rows) for part in fits)
            yield Piece(rows, values, errors=errors)

    def _rows(self, members: Sequence[_Sampled], features: int) -> int:
        if any(_is_exact(member, features) for member in members):
            return int(2**features) - 1
        return 1 + max(self.used(features, member.samples) for member in members)

    def _fits(
        self, members: Sequence[_Sampled], problem: Problem, which: Int[Tensor, " b"], features: int
    ) -> list[Fit]:
        """Values of some inputs with equally many features, for each member."""
        budgets = [None if _is_exact(budget, features) else self.used(features, budget.samples) for budget in members]
        most = max((budget for budget in budgets if budget is not None), default=0)
        draws, bits = self.draws(problem, which, features, most), torch.arange(features, device=which.device)
        full, exact = problem.scores()[which, None], torch.empty(0)
        if None in budgets:  # the coalition with all features is the input itself

            def kept(_: Tensor, number: Tensor) -> Tensor:
                return (number[:, None] >> bits) % 2 == 1

            every = torch.cat((coalition_scores(problem, which, 2**features - 1, kept, self.over), full), dim=1)
            exact, empty = exact_shapley(every), every[:, :1]
            places = (draws.masks(len(which), features, which.device).long() << bits).sum(-1)
            scores = every.gather(1, places)
        else:
            scores = coalition_scores(problem, which, draws.count, draws.kept, self.over)
            empty = coalition_scores(problem, which, 1, lambda at, _: at.new_zeros(len(at), features).bool(), self.over)
        ends = torch.cat((empty, full), dim=1).double()
        return [
            Fit(exact, torch.zeros_like(exact))
            if used is None
            else self.estimates(draws, scores[:, :used].double(), ends, features)
            for used in budgets
        ]


def _is_exact(member: _Sampled, features: int) -> bool:
    return features < 63 and 2**features <= member.samples
