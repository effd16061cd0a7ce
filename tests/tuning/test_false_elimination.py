"""Races are looked at in every round: how often they drop a candidate that is as good, simulated."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from verax.attribution import Gradient
from verax.statistics.anytime import AnytimeSums, ScoreRange, mean_below
from verax.tuning.race import Candidate, Rule, rounds

INPUTS, RACES = 1024, 200
RULE = Rule((1,), cost=False, tolerance=0.0, level=0.95)
Draw = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]


def normal(draws: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return draws.normal(0.4, 0.1, INPUTS), draws.normal(0.4, 0.1, INPUTS)


def skewed(draws: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return draws.beta(0.2, 2, INPUTS), draws.beta(0.2, 2, INPUTS)


def skewed_differences(draws: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    both = draws.uniform(0, 1, INPUTS)
    return both + draws.exponential(0.1, INPUTS) - 0.1, both


def rare(draws: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Better on 4 of 1,000 inputs, and alike on all others."""
    both = draws.uniform(0, 1, INPUTS)
    return both + np.where(draws.uniform(size=INPUTS) < 0.004, draws.uniform(0.5, 1, INPUTS), 0.0), both


def dropped(rule: Rule, *scores: np.ndarray) -> bool:
    """Whether the first candidate does not survive some round."""
    racing = [Candidate(at, 0, Gradient(), torch.from_numpy(one)[None], 1.0) for at, one in enumerate(scores)]
    for count in rounds(INPUTS):
        now = [Candidate(one.number, 0, Gradient(), one.scores[:, :count], 1.0) for one in racing]
        if 0 not in {one.number for one in rule.survivors(now, count)}:
            return True
    return False


@pytest.mark.parametrize("draw", [normal, skewed, skewed_differences, rare])
@pytest.mark.parametrize("sign", [1, -1], ids=["higher is better", "lower is better"])
def test_who_is_as_good_as_another_is_dropped_in_few_races(draw: Draw, sign: int) -> None:
    """At most 2.5 %; 5 % leave room for chance. Student's t in every round drops 12 to 86 %."""
    draws, rule = np.random.default_rng(0), Rule((sign,), cost=False, tolerance=0.0, level=0.95)
    count = sum(dropped(rule, *(sign * one for one in draw(draws))) for _ in range(RACES))
    assert count <= 0.05 * RACES


def test_who_is_worse_is_dropped_all_the_same() -> None:
    draws = np.random.default_rng(1)
    assert all(dropped(RULE, draws.normal(0.36, 0.1, INPUTS), draws.normal(0.4, 0.1, INPUTS)) for _ in range(50))


def test_a_candidate_that_is_alike_on_the_first_inputs_is_not_dropped() -> None:
    late = np.zeros(INPUTS)
    late[-300:] = 1.0
    assert not dropped(RULE, late, np.zeros(INPUTS))
    assert not dropped(RULE, np.full(INPUTS, 0.3), np.full(INPUTS, 0.3))


def test_a_difference_that_was_seen_is_needed_to_be_sure() -> None:
    zeros = torch.zeros(10_000)
    assert not mean_below(zeros, 0.01, ScoreRange())
    assert not mean_below(zeros, 0.01, ScoreRange(0.0, 0.0))
    assert mean_below(zeros, 0.01, ScoreRange(0.0, 1.0, certain=True))
    assert not mean_below(zeros[:100], 0.01, ScoreRange(0.0, 1.0, certain=True))


@pytest.mark.parametrize("count", [20, 100, 1000])
def test_the_bets_are_those_of_the_formula_and_their_interval_is_nearly_that_of_the_sums(count: int) -> None:
    known, draws = ScoreRange(-1.0, 1.0, certain=True), np.random.default_rng(2)
    scores = draws.normal(0.1, 0.3, count).clip(-1, 1)

    def wins(bound: float) -> bool:
        """A capital of 1 over 30 stakes, each multiplied by what it wins, against 2 / (1 - 0.95)."""
        capital = 0.0
        for power in range(30):
            factors = 1 + 0.9 / 2**power * ((1 - scores) / (1 - bound) - 1)
            capital += math.prod(factors.tolist()) / ((power + 1) * (power + 2))
        return capital >= 40

    bounds = np.linspace(scores.mean(), 1, 102)[1:-1]
    found = [mean_below(torch.from_numpy(scores), float(bound), known) for bound in bounds]
    assert found == [wins(bound) for bound in bounds]
    high = float(bounds[found.index(True)])
    assert (
        scores.mean() < high <= AnytimeSums.of(torch.from_numpy(scores), known).estimate().high + bounds[1] - bounds[0]
    )
