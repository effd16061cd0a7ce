"""Reasons against closed forms, against a brute-force oracle, and against what was planted."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import verax
from verax.attribution import Gradient, KernelShap, LimeTabular, Random


def linear(features=8, rows=40, seed=0):
    torch.manual_seed(seed)
    model, x = torch.nn.Linear(features, 2).double(), torch.randn(rows, features).double()
    return model, x, x * (model.weight[1] - model.weight[0]).detach()


def network(features=6, rows=12, classes=3, seed=0):
    torch.manual_seed(seed)
    layers = torch.nn.Linear(features, 16), torch.nn.Tanh(), torch.nn.Linear(16, classes)
    return torch.nn.Sequential(*layers).double(), torch.randn(rows, features).double()


def log_odds(model, rows, target):
    with torch.no_grad():
        return torch.logit(model(rows).softmax(1)[:, target])


@pytest.mark.parametrize("direction", ["either", "raises", "lowers"])
@pytest.mark.parametrize("output", ["probability", "logit"])
def test_an_exact_explanation_of_an_additive_model_has_no_false_and_no_omitted_reason(direction, output):
    model, x, exact = linear()
    result = verax.reasons(verax.Problem(model, x, target=1, output=output), exact, direction=direction)
    assert not result.false.any()
    assert not result.omitted.any()
    known = ~result.share.isnan()
    assert torch.allclose(result.share[known], torch.ones(1).double())
    expected = {"either": exact.abs(), "raises": exact, "lowers": -exact}[direction].argsort(1, descending=True)[:, :4]
    assert torch.equal(result.top[result.top >= 0], expected[result.top >= 0])


def test_the_opposite_names_the_same_features_and_all_are_false():
    model, x, exact = linear()
    result = verax.reasons(verax.Problem(model, x, target=1), {"exact": exact, "opposite": -exact})
    assert torch.equal(result.top["opposite"], result.top["exact"])
    assert result.false["opposite"].all()
    assert not result.omitted["opposite"].any()
    assert (result.share["opposite"] == 0).all()


def test_a_planted_wrong_reason_is_named():
    """On some inputs a feature without any effect takes the place of the fourth reason."""
    model, x, exact = linear(rows=60)
    with torch.no_grad():
        model.weight[:, 7] = 0
    exact = x * (model.weight[1] - model.weight[0]).detach()
    planted = exact.clone()
    fourth = exact.abs().argsort(1, descending=True)[:, 3]
    for row in range(0, 60, 10):
        planted[row, 7], planted[row, fourth[row]] = exact[row, fourth[row]], 0.0
    result = verax.reasons(verax.Problem(model, x, target=1), planted)
    rows = torch.arange(60) % 10 == 0
    assert torch.equal(result.false.any(1), rows)
    assert torch.equal(result.omitted.any(1), rows)
    assert torch.equal(result.top[rows][result.false[rows]], torch.full((6,), 7))
    assert torch.equal(result.omitted.nonzero()[:, 1], fourth[rows])
    totals = result.totals()
    assert totals["false"].mean == pytest.approx(0.1 / 4)
    assert totals["omitted"].mean == pytest.approx(0.1 / 4)


def oracle(model, x, baseline, attribution, k, direction, target=1):
    """False reasons, omitted features and shares by their definitions, one input and one subset at a time."""

    def effect(row, removed):
        changed = x[row].clone()
        changed[list(removed)] = baseline
        both = log_odds(model, torch.stack((x[row], changed)), target)
        return float(both[0] - both[1])

    false, omitted, share = [], [], []
    for row, values in enumerate(attribution):
        strength = {"either": values.abs(), "raises": values, "lowers": -values}[direction]
        named = [j for j in strength.argsort(descending=True).tolist()[:k] if strength[j] > 0]
        single = [effect(row, [j]) for j in range(len(values))]
        false.append({j for j in named if single[j] * float(values[j].sign()) <= 1e-9})
        size = [{"either": abs(fall), "raises": fall, "lowers": -fall}[direction] for fall in single]
        left = sorted((j for j in range(len(values)) if j not in named and size[j] > 1e-9), key=lambda j: -size[j])
        weak = sorted([max(0.0, size[j]) for j in named] + [0.0] * (k - len(named)))
        omitted.append({j for j, other in zip(left, weak, strict=False) if size[j] > other})
        up = [j for j in named if values[j] > 0]
        down = [j for j in named if values[j] < 0]
        subsets = [list(combinations(range(len(values)), taken)) for taken in range(k + 1)]
        most = [max((effect(row, s) for group in subsets[: p + 1] for s in group), default=0.0) for p in range(k + 1)]
        least = [max((-effect(row, s) for group in subsets[: p + 1] for s in group), default=0.0) for p in range(k + 1)]
        best = {
            "either": max(most[p] + least[k - p] for p in range(k + 1)),
            "raises": most[k],
            "lowers": least[k],
        }[direction]
        share.append(min(1.0, max(0.0, (effect(row, up) - effect(row, down)) / best)) if best > 1e-9 else np.nan)
    return false, omitted, share


@pytest.mark.parametrize("direction", ["either", "raises", "lowers"])
def test_it_agrees_with_the_definitions(direction):
    model, x = network()
    torch.manual_seed(1)
    values = torch.randn(x.shape).double()
    result = verax.reasons(verax.Problem(model, x, target=1, baselines=0.5), values, k=3, direction=direction)
    false, omitted, share = oracle(model, x, 0.5, values, 3, direction)
    for row in range(len(x)):
        assert set(result.top[row][result.false[row]].tolist()) == false[row]
        assert set(result.omitted[row].nonzero()[:, 0].tolist()) == omitted[row]
    assert np.allclose(result.share.numpy(), share, atol=1e-9, equal_nan=True)
    assert result.exact


def test_a_search_finds_at_most_the_best_subset():
    model, x = network(features=16, rows=12)
    values = torch.randn(x.shape).double()
    every = verax.reasons(verax.Problem(model, x), values)
    some = verax.reasons(verax.Problem(model, x), values, rows=10_000)
    assert every.exact
    assert not some.exact
    known = ~some.share.isnan()
    assert 0 < int(known.sum()) < 12
    assert (some.share[known] >= every.share[known] - 1e-9).all()
    assert torch.allclose(some.share[known], every.share[known], atol=0.05)


def test_where_rows_are_few_the_best_subsets_of_some_inputs_are_found():
    model, x = network(features=8, rows=30)
    values = torch.randn(x.shape).double()
    every, some = (verax.reasons(verax.Problem(model, x), values, rows=rows) for rows in (2**20, 3000))
    known = ~some.share.isnan()
    assert some.exact
    assert int(known.sum()) == 3000 // 162  # subsets of 1 to 4 out of 8
    assert torch.equal(some.share[known], every.share[known])
    assert f"{int(known.sum())} inputs" in str(some)


def test_more_than_64_features_are_removed_one_by_one_as_well():
    model, x, exact = linear(features=80, rows=5)
    result = verax.reasons(verax.Problem(model, x, target=1), exact)
    assert not result.false.any()
    assert not result.omitted.any()
    assert not result.exact
    assert torch.allclose(result.share, torch.ones(5).double())


def test_groups_are_features():
    model, x, exact = linear()
    groups = np.array([0, 0, 1, 1, 2, 2, 3, -1])
    result = verax.reasons(verax.Problem(model, x, target=1, features=groups), exact, k=2)
    sums = torch.stack([exact[:, groups == group].sum(1) for group in range(4)], dim=1)
    assert torch.equal(result.top, sums.abs().argsort(1, descending=True)[:, :2])
    assert not result.false.any()
    assert torch.allclose(result.effects, sums)


def test_features_have_the_numbers_of_the_columns_that_were_given():
    draws = np.random.default_rng(0)
    frame = pd.DataFrame(draws.normal(size=(200, 3)), columns=["a", "b", "c"])
    model = LogisticRegression().fit(frame, frame["a"] - 2 * frame["c"] > 0)
    other = frame[["c", "a", "b"]].head(20)
    exact = other * [dict(zip("abc", model.coef_[0], strict=True))[name] for name in other.columns]
    result = verax.reasons(verax.Problem(model, other, target=1), exact.to_numpy(), k=1)
    assert (result.top[:, 0] == np.abs(exact.to_numpy()).argmax(1)).all()
    assert result.names == ("c", "a", "b")
    assert not result.false.any()
    assert not result.omitted.any()
    assert np.allclose(result.effects, exact, atol=1e-6)
    assert set(result.to_frame()["feature"]) <= {"a", "b", "c"}


def test_a_feature_with_nothing_attributed_is_no_reason():
    model, x, exact = linear()
    few = exact.clone()
    few[:, 2:] = 0
    result = verax.reasons(verax.Problem(model, x, target=1), few)
    assert (result.top[:, 2:] == -1).all()
    assert not result.false.any()
    assert result.omitted.any(1).all()


def test_a_change_within_the_tolerance_counts_as_none():
    model, x, exact = linear()
    most = float(exact.abs().max())
    result = verax.reasons(verax.Problem(model, x, target=1), exact, tolerance=2 * most)
    assert torch.equal(result.false, result.top >= 0)
    assert not result.omitted.any()


def test_seeds_change_what_is_drawn_and_nothing_else():
    model, x = network(features=8, rows=20)
    problem = verax.Problem(model, x, background=torch.randn(50, 8).double())
    methods = {"few": LimeTabular(samples=16), "exact": KernelShap(samples=256), "slopes": Gradient()}
    result = verax.reasons(problem, methods | {"array": x})
    over = result.stability_over["seeds"]
    assert float(over["few"].mean()) < 0.95
    assert (over["exact"] == 1).all()  # of all coalitions there is one draw
    assert (over["slopes"] == 1).all()  # there is no seed
    assert over["array"].isnan().all()
    assert (result.stability_over["background"]["exact"] == 1).all()  # baselines are 0, whatever the background


def test_the_background_changes_reasons_where_baselines_are_its_mean():
    model, x = network(features=8, rows=20)
    problem = verax.Problem(model, x, background=torch.randn(5, 8).double(), baselines="mean")
    result = verax.reasons(problem, {"exact": KernelShap(samples=256)})
    assert float(result.stability_over["background"]["exact"].mean()) < 1


def test_neighbours_have_the_same_score():
    model, x, _ = linear(rows=3)
    x = torch.stack((x[0], x[0] + 1e-3, x[0] + 5))  # the first two are alike
    problem = verax.Problem(model, x, target=1)
    values = torch.tensor([[4.0, 3, 2, 1, 0, 0, 0, 0], [4.0, 3, 0, 0, 2, 1, 0, 0], [1.0] * 8]).double()
    result = verax.reasons(problem, values)
    over = result.stability_over["neighbours"]
    assert over[:2].tolist() == [0.5, 0.5]
    assert abs(float(problem.scores()[2] - problem.scores()[0])) > 0.02
    assert over[2].isnan()
    assert result.stability[:2].tolist() == [0.5, 0.5]


def test_random_explanations_are_unstable_and_false_half_of_the_time():
    model, x, _ = linear(rows=200)
    result = verax.reasons(verax.Problem(model, x, target=1), {"random": Random()})
    totals = result.totals()
    assert totals["false"]["random"].low < 0.5 < totals["false"]["random"].high
    assert totals["stability"]["random"].high < 0.8


def test_totals_per_segment_and_as_a_table():
    model, x, exact = linear()
    half = np.array(["old", "young"] * 20)
    result = verax.reasons(verax.Problem(model, x, target=1), {"a": exact, "b": -exact})
    lines = result.table(half).text().splitlines()
    assert lines[0].split() == ["attribution", "false", "omitted", "share", "stability"]
    assert [line.split("  ")[0] for line in lines[1:7]] == ["a", "a, old", "a, young", "b", "b, old", "b, young"]
    assert "<table" in result._repr_html_()
    whole, narrow = result.totals()["false"]["a"], result.totals(level=0.5)["false"]["a"]
    assert whole.mean == narrow.mean
    assert whole.high > narrow.high


def test_numpy_in_numpy_out():
    model, x, exact = linear(rows=5)
    result = verax.reasons(verax.Problem(model.float(), x.float().numpy(), target=1), exact.float().numpy())
    for values in (result.top, result.false, result.omitted, result.share, result.stability, result.effects):
        assert isinstance(values, np.ndarray)


def test_the_answer_does_not_depend_on_the_other_rows():
    """Beside the search, for which inputs are drawn, and neighbours."""
    model, x = network(features=8, rows=20)
    values = torch.randn(x.shape).double()
    whole, part = (verax.reasons(verax.Problem(model, x[rows], target=0), values[rows]) for rows in (slice(20), [3, 7]))
    for name in ("top", "false", "omitted", "share"):
        assert torch.allclose(getattr(whole, name)[[3, 7]].double(), getattr(part, name).double())


def test_what_cannot_be_asked_is_said_before_any_work():
    model, x, exact = linear(rows=4)
    problem = verax.Problem(model, x)
    with pytest.raises((ValueError, TypeError), match="'either', 'raises', "):
        verax.reasons(problem, exact, direction="adverse")
    with pytest.raises(ValueError, match="k: expected a whole number of at least 1"):
        verax.reasons(problem, exact, k=0)
    with pytest.raises(ValueError, match=r"by: expected one label for each of 4 inputs, got shape \(3,\)"):
        verax.reasons(problem, exact, repeats=0, rows=0).table(["a"] * 3)
