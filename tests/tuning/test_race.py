"""The rule of races on made-up scores, where what must happen is known."""

import math
from itertools import pairwise

import pytest
import torch

from tuning.conftest import some_inputs
from verax.attribution import Gradient
from verax.tuning.race import Candidate, Rule, estimated, rounds

NOISE = some_inputs(100, 1)[:, 0].double()


def candidate(number, *scores, cost=1.0):
    return Candidate(
        number, 0, Gradient(), torch.stack([torch.as_tensor(one, dtype=torch.float64) for one in scores]), cost
    )


def rule(signs=(1,), cost=False, tolerance=0.0, level=0.95):
    return Rule(signs, cost, tolerance, level)


def numbers(candidates):
    return [one.number for one in candidates]


@pytest.mark.parametrize("inputs", [1, 2, 15, 31, 32, 33, 100, 1658, 100_000])
def test_rounds_grow_up_to_all_inputs(inputs):
    found = rounds(inputs)
    assert found[-1] == inputs
    assert list(found) == sorted(set(found))
    assert found[0] >= min(16, inputs)
    assert len(found) <= 11
    assert all(later <= math.ceil(1.5 * earlier) for earlier, later in pairwise(found))


def test_who_is_surely_worse_is_dropped_and_who_is_not_stays():
    best, near, worse = (
        candidate(0, NOISE),
        candidate(1, NOISE.flip(0) - 0.01),
        candidate(2, NOISE - 0.5 + NOISE.flip(0) / 10),
    )
    assert numbers(rule().survivors([worse, near, best], 100)) == [0, 1]


def test_the_interval_is_that_of_the_paired_t_test():
    scipy = pytest.importorskip("scipy.stats")
    one, other = candidate(0, NOISE), candidate(1, NOISE.flip(0) / 2 + NOISE)
    found = rule(level=0.9).difference(one, other, 0, 60)
    wanted = scipy.ttest_rel(NOISE[:60], (NOISE.flip(0) / 2 + NOISE)[:60]).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))


def test_where_lower_is_better():
    assert numbers(rule(signs=(-1,)).survivors([candidate(0, NOISE), candidate(1, NOISE - 1)], 100)) == [1]


def test_equal_ones_stay_the_first_or_the_cheaper_before_the_others():
    """They were alike on these inputs; on others they need not be."""
    assert numbers(rule().survivors([candidate(0, NOISE), candidate(1, NOISE)], 100)) == [0, 1]
    assert numbers(rule().survivors([candidate(0, NOISE, cost=9.0), candidate(1, NOISE)], 100)) == [1, 0]


def test_one_input_drops_nobody():
    assert math.isnan(rule().difference(candidate(0, NOISE[:1]), candidate(1, NOISE[1:2]), 0, 1).high)
    assert len(rule().survivors([candidate(0, NOISE[:1]), candidate(1, NOISE[:1] - 5)], 1)) == 2


def test_evidence_from_more_inputs_is_not_overruled_by_fewer():
    long, lucky = candidate(0, NOISE), candidate(1, NOISE[:20] + 1)
    assert numbers(rule().survivors([long, lucky], 20)) == [1, 0]
    assert numbers(rule(tolerance=0.5).undecided(lucky, [long, lucky], 20)) == [0, 1]


def test_who_is_not_much_better_for_sure_need_not_go_on():
    even = NOISE - NOISE.mean()
    best, near = candidate(0, even / 10 + 10.02), candidate(1, even.flip(0) / 10 + 10.01)
    open_one = candidate(2, even.flip(0) * 9 + 10)
    left = rule().survivors([best, near, open_one], 100)
    assert numbers(left) == [0, 1, 2]
    assert numbers(rule(tolerance=0.01).undecided(best, left, 100)) == [0, 2]
    assert numbers(rule(tolerance=0.9).undecided(best, left, 100)) == [0]
    assert numbers(rule(cost=True, tolerance=0.9).undecided(best, left, 100)) == numbers(left)


def test_who_was_settled_comes_back_when_another_leads():
    settled = candidate(0, NOISE[:30] / 10 + 10)
    high, low = candidate(1, NOISE / 10 + 10.5), candidate(2, NOISE / 10 + 9.5)
    assert numbers(rule(tolerance=0.02).undecided(high, [settled, high], 100)) == [1]
    assert numbers(rule(tolerance=0.02).undecided(low, [settled, low], 100)) == [0, 2]


def test_a_cheaper_one_is_never_dropped_where_cost_counts():
    dear, cheap = candidate(0, NOISE + 5, cost=100.0), candidate(1, NOISE, cost=2.0)
    assert numbers(rule(cost=True).survivors([dear, cheap], 100)) == [0, 1]
    assert numbers(rule(cost=True).survivors([dear, cheap, candidate(2, NOISE - 1, cost=3.0)], 100)) == [0, 1]


def test_with_two_metrics_one_must_be_worse_in_both():
    both = rule(signs=(1, -1))
    a, b, c = candidate(0, NOISE + 1, NOISE), candidate(1, NOISE, NOISE - 1), candidate(2, NOISE - 1, NOISE + 1)
    assert numbers(both.survivors([c, b, a], 100)) == [0, 1]
    assert numbers(both.front([c, b, a])) == [0, 1]


def test_the_front_holds_equal_ones_and_only_those_with_most_inputs():
    points = [(3.0, 1.0), (2.0, 2.0), (2.0, 2.0), (1.0, 1.0), (2.0, 1.0)]
    made = [candidate(at, [x, x], [y, y]) for at, (x, y) in enumerate(points)]
    assert numbers(rule(signs=(1, 1)).front([*made, candidate(9, [9.0], [9.0])])) == [0, 1, 2]


def test_candidates_on_other_inputs_are_compared_by_their_difference_to_one_reference():
    hard = torch.cat((torch.zeros(10), torch.full((90,), 5.0))).double()
    reference, short = candidate(0, hard), candidate(1, hard[:10] + 1)
    assert estimated(short, reference) == pytest.approx([float(hard.mean()) + 1])
    reference.values = [7.0, 99.0]
    assert estimated(short, reference) == pytest.approx([8.0])


def test_states():
    one = candidate(0, NOISE)
    assert one.state(100) == "complete"
    assert one.state(200) == "leading"
    one.alive = False
    assert one.state(200) == "pruned"
    one.reason = "broken"
    assert one.state(100) == "failed"
