"""Deletion, insertion, SRG, comprehensiveness and sufficiency: by hand on an additive model, from PC's own rows."""

import numpy as np
import pytest
import torch

import calls
import verax
from verax.metrics import Comprehensiveness, Sufficiency

NAMES = ("deletion", "insertion", "srg", "comprehensiveness", "sufficiency")
WORTH = np.array([5.0, 3.0, 2.0, 1.0])


def scored(attributions, **settings):
    model = verax.Scorer(lambda rows: rows.sum(1, keepdim=True), returns="values")
    return calls.evaluate(model, torch.as_tensor(WORTH[None]), {"a": attributions}, **settings)


def test_by_hand():
    """Worth 5, 3, 2, 1 and the true order: 11, 6, 3, 1, 0 as they go, 0, 5, 8, 10, 11 as they come."""
    found = scored(torch.tensor([[4.0, 3.0, 2.0, 1.0]]), metrics=list(NAMES))
    values = {name: float(found[name].value["a"]) for name in NAMES}
    assert values["deletion"] == pytest.approx((11 / 2 + 6 + 3 + 1 + 0 / 2) / 4)
    assert values["insertion"] == pytest.approx((0 / 2 + 5 + 8 + 10 + 11 / 2) / 4)
    assert values["srg"] == pytest.approx(values["insertion"] - values["deletion"])
    # shares 0.05, 0.1 and 0.2 of four features are one feature, 0.5 are two
    assert values["comprehensiveness"] == pytest.approx((5 + 5 + 5 + 8) / 4)
    assert values["sufficiency"] == pytest.approx((6 + 6 + 6 + 3) / 4)


def test_they_need_no_further_rows():
    a = torch.tensor([[1.0, 4.0, 2.0, 3.0]])
    assert scored(a, metrics=["pc", *NAMES]).rows == scored(a, metrics=["pc"]).rows


@pytest.mark.parametrize("steps", [20, 5])
def test_at_twenty_steps_shares_are_those_of_the_features(steps):
    """100 features, each worth its number: the shares are sums of the largest."""
    worth = torch.arange(1.0, 101.0, dtype=torch.float64)[None]
    model = verax.Scorer(lambda rows: rows.sum(1, keepdim=True), returns="values")
    metrics = [Comprehensiveness(steps, (0.2, 0.6)), Sufficiency(steps, (0.2, 0.6))]
    found = calls.evaluate(model, worth, worth, metrics)
    lost = [float(worth[0, 100 - count :].sum()) for count in (20, 60)]
    assert float(found["comprehensiveness"].value) == pytest.approx(sum(lost) / 2)
    assert float(found["sufficiency"].value) == pytest.approx(5050 - sum(lost) / 2)


def test_inputs_with_fewer_features_have_their_own_curves():
    rows = torch.tensor([[5.0, 3.0, 2.0, 1.0], [5.0, 3.0, 2.0, 1.0]])
    groups = torch.tensor([[0, 1, 2, 3], [0, 0, 1, 1]])
    model = verax.Scorer(lambda rows: rows.sum(1, keepdim=True), returns="values")
    found = calls.evaluate(model, rows, rows, list(NAMES), features=groups)
    alone = calls.evaluate(model, rows[1:], rows[1:], list(NAMES), features=groups[1:])
    for name in NAMES:
        torch.testing.assert_close(found[name].value[1:], alone[name].value)
    assert float(alone["deletion"].value) == pytest.approx((11 / 2 + 3) / 2)


def test_shares_may_be_all_or_every_step():
    """Worth 5, 3, 2, 1: 5, 8, 10, 11 are lost as they go in the true order, 1, 3, 6, 11 in reverse."""
    a = torch.tensor([[4.0, 3.0, 2.0, 1.0]])
    shares = {"one": Comprehensiveness(shares=1), "alone": Sufficiency(shares=(0.5, 1))}
    every = {"aopc": Comprehensiveness(shares="every"), "lerf": Sufficiency(shares="every")}
    found = {name: float(one.value["a"]) for name, one in scored(a, metrics=shares | every).items()}
    assert found == pytest.approx({"one": 11, "alone": (3 + 0) / 2, "aopc": 34 / 4, "lerf": 21 / 4})


@pytest.mark.parametrize("shares", [0, 1.5, (), (0.5, 0.0)])
def test_shares_are_checked(shares):
    with pytest.raises(ValueError, match='shares: expected numbers above 0 and at most 1, or "every"'):
        Comprehensiveness(shares=shares)
