"""The test for a fall: its capital by hand, its false alarms over many windows, and that it finds falls."""

import math

import numpy as np
import pytest
import torch

from verax.statistics.anytime import _STAKES_ON_FALL, BettingTest
from verax.statistics.sums import ScoreSums


def test_the_capital_is_the_sum_over_beginnings_and_stakes() -> None:
    draws = np.random.default_rng(0)
    test = BettingTest.against(draws.uniform(size=50), rate=0.1)
    windows = [draws.uniform(size=5) for _ in range(3)]
    for scores in windows:
        test = test.after(scores)
    span = test.ceiling - test.floor
    bound = (test.bound - test.floor) / span
    capital = 1 / 4  # what is kept for windows to come
    for begin in range(3):
        for share in _STAKES_ON_FALL:
            scores = np.clip((np.concatenate(windows[begin:]) - test.floor) / span, 0, 1)
            product = np.prod(1 + share / (1 - bound) * (bound - scores))
            capital += product / len(_STAKES_ON_FALL) / ((begin + 1) * (begin + 2))
    assert test.log_evidence == pytest.approx(math.log(capital), rel=1e-12)


def test_without_a_score_it_knows_nothing() -> None:
    test = BettingTest.against(np.array([0.0, 0.5, 1.0]), rate=0.05)
    assert test.log_evidence == pytest.approx(0.0)
    assert not test.alarm


def test_gains_of_parts_add_up() -> None:
    draws = np.random.default_rng(1)
    test = BettingTest.against(draws.normal(size=100), rate=0.05)
    scores = draws.normal(size=40)
    parts = test.gains(scores[:13]) + test.gains(scores[13:])
    assert parts == pytest.approx(test.gains(scores), abs=1e-12)


@pytest.mark.parametrize("kind", ["bounded", "normal", "two values", "heavy tails"])
def test_false_alarms_are_rare_over_many_windows(kind: str) -> None:
    """A small simulation; benchmarks/monitor_false_alarms.py has 1,000 windows and many runs."""
    draws = np.random.default_rng(2)

    def scores(count: int) -> np.ndarray:
        if kind == "bounded":
            return draws.beta(2, 5, size=count)
        if kind == "normal":
            return draws.normal(3.0, 2.0, size=count)
        if kind == "two values":
            return (draws.uniform(size=count) < 0.3).astype(float)
        return draws.standard_t(3, size=count)

    alarms = 0
    for _ in range(25):
        test = BettingTest.against(scores(300), rate=0.05)
        for _ in range(60):
            test = test.after(scores(20))
            if test.alarm:
                alarms += 1
                break
    assert alarms <= 3  # expected is 1 at most


def test_a_fall_is_found_also_after_long_quiet() -> None:
    draws = np.random.default_rng(3)
    test = BettingTest.against(draws.normal(0.5, 0.2, size=1000), rate=0.05)
    for _ in range(200):
        test = test.after(draws.normal(0.5, 0.2, size=50))
    assert not test.alarm
    delays = 0
    while not test.alarm:
        test = test.after(draws.normal(0.4, 0.2, size=50))
        delays += 1
    assert delays <= 6


def test_a_reference_of_equal_scores_is_refused() -> None:
    with pytest.raises(ValueError, match=r"all 3 scores are 0\.2"):
        BettingTest.from_sums(ScoreSums.of(torch.full((3,), 0.2)), 0.2, 0.2, 0.05)
