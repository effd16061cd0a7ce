"""Both estimators of Shapley values: exact where all coalitions fit, additive at any budget, budgets as prefixes."""

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import calls
import verax
from attribution.games import by_permutations, by_subsets, worths
from attribution.networks import convnet, mlp, rows
from calls import attribute
from verax.attribution import KernelShap, PermutationShap, Place
from verax.attribution.shapley import exact_shapley
from verax.problem.inputs import Inputs

METHODS = [KernelShap, PermutationShap]
both = pytest.mark.parametrize("method", METHODS)


def network(features=6, outputs=3):
    return mlp(features=features, outputs=outputs).double().eval()


def inputs(count, *shape, seed=1):
    return rows(count, *shape, seed=seed, dtype=torch.float64)


@both
@pytest.mark.parametrize("features", [1, 2, 5])
def test_exact_values_are_the_mean_over_all_orders(method, features):
    model, x, baselines = network(features), inputs(2, features), inputs(2, features, seed=3)
    found = method(samples=2**features)(calls.problem(model, x, target=2, baselines=baselines)).numpy()
    for row, baseline, values in zip(x, baselines, found, strict=True):
        worth = worths(model, row, baseline, torch.arange(features), 2)
        np.testing.assert_allclose(values, by_permutations(worth, features), atol=1e-12)


@both
def test_exact_values_of_eight_features(method):
    model, x = network(8), inputs(1, 8)
    worth = worths(model, x[0], torch.full((8,), 0.5, dtype=torch.float64), torch.arange(8), 1)
    found = method(samples=256)(calls.problem(model, x, target=1, baselines=0.5))
    np.testing.assert_allclose(found[0].numpy(), by_subsets(worth, 8), atol=1e-12)


def test_exact_values_of_many_features_have_a_closed_form():
    """Where a pair gains only together, each of the two has half of it."""
    features = 12
    gains = torch.triu(inputs(features, features), diagonal=1)
    kept = (torch.arange(2**features)[:, None] >> torch.arange(features)) % 2
    scores = torch.einsum("ci,ij,cj->c", kept.double(), gains, kept.double())
    torch.testing.assert_close(exact_shapley(scores[None])[0], (gains.sum(0) + gains.sum(1)) / 2)


@both
def test_all_coalitions_of_a_feature_less_are_not_exact(method):
    model, x = network(6), inputs(3, 6)
    exact, nearly = (method(samples=samples)(calls.problem(model, x, target=0)) for samples in (64, 63))
    assert torch.equal(exact, method(samples=1000)(calls.problem(model, x, target=0)))
    assert not torch.allclose(exact, nearly, rtol=0, atol=1e-9)


@both
@settings(max_examples=20, derandomize=True, deadline=None)
@given(features=st.integers(1, 9), samples=st.integers(2, 70), seed=st.integers(0, 3))
def test_values_sum_to_the_difference_of_the_scores(method, features, samples, seed):
    model, x, baselines = network(features), inputs(2, features), inputs(2, features, seed=4)
    found = method(samples, seed)(calls.problem(model, x, target=1, baselines=baselines))
    with torch.no_grad():
        wanted = (model(x) - model(baselines))[:, 1]
    torch.testing.assert_close(found.sum(1), wanted, rtol=0, atol=1e-11)


@both
@pytest.mark.parametrize("samples", [64, 300])
def test_a_linear_model_is_explained_by_its_weights(method, samples):
    model, x, baselines = torch.nn.Linear(20, 2).double(), inputs(3, 20), inputs(3, 20, seed=3)
    found = method(samples)(calls.problem(model, x, target=1, baselines=baselines))
    torch.testing.assert_close(found, (model.weight[1] * (x - baselines)).detach(), rtol=0, atol=1e-10)


@both
def test_estimates_come_closer_with_the_budget(method):
    model, x = network(12), inputs(4, 12)
    exact = method(2**12)(calls.problem(model, x, target=1))
    budgets = [method(samples) for samples in (30, 120, 480, 1920)]
    found = attribute(budgets, model, x, target=1)
    errors = [float((found[one.canonical] - exact).norm() / exact.norm()) for one in budgets]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.03


@both
def test_ten_budgets_cost_the_rows_of_the_largest(method):
    model, x = network(12), inputs(5, 12)
    counted = []
    model.register_forward_pre_hook(lambda _, batch: counted.append(len(batch[0])))
    scorer = verax.Scorer(model)
    budgets = [method(2 + 22 * count) for count in range(1, 11)]
    together = attribute(budgets, scorer, x)
    assert together.rows == scorer.rows == 5 * 222
    assert sum(counted) == 5 * 222
    for one in budgets:
        assert attribute([one], scorer, x).rows == 5 * one.samples
        torch.testing.assert_close(one(calls.problem(model, x)), together[one.canonical], rtol=0, atol=1e-12)


@both
def test_smaller_budgets_find_their_rows_among_all_coalitions(method):
    model, x = network(6), inputs(3, 6)
    few, exact = method(24), method(64)
    together = attribute([few, exact], model, x)
    assert together.rows == 3 * 64
    torch.testing.assert_close(together[few.canonical], few(calls.problem(model, x)), rtol=0, atol=1e-12)
    assert torch.equal(together[exact.canonical], exact(calls.problem(model, x)))


@both
def test_rows_are_known_before(method):
    maps = torch.tensor([[0, 0, 1, 1, 2, 2], [0, 1, 2, 3, 4, 5]])
    model, x = network(6), inputs(2, 6)
    for samples, features in ((3, "auto"), (17, "auto"), (99, "auto"), (17, maps), (99, maps)):
        one = method(samples)
        found = attribute([one], model, x, features=features)
        problem = verax.Problem(model, x, features=features)
        asked = one.family.rows([one], problem, Place(torch.device("cpu"), 8))
        assert found.rows == asked.forward + 2


@both
@pytest.mark.parametrize("samples", [9, 64])
def test_groups_are_the_players_and_share_their_value_evenly(method, samples):
    maps = torch.tensor([[7, 7, 7, 4, 4, 2], [0, 1, 1, 1, 1, 1], [3, 3, 3, 3, 3, 3]])
    model, x, baselines = network(6), inputs(3, 6), inputs(3, 6, seed=3)
    found = method(samples)(calls.problem(model, x, target=1, features=maps, baselines=baselines))
    for row, baseline, groups, values in zip(x, baselines, maps, found, strict=True):
        names = groups.unique()
        wanted = by_subsets(worths(model, row, baseline, groups, 1), len(names))
        for name, value in zip(names, wanted, strict=True):
            size = int((groups == name).sum())
            np.testing.assert_allclose(values[groups == name].numpy(), np.full(size, value / size), atol=1e-12)


@both
def test_what_is_never_removed_is_no_player_and_has_nothing(method):
    groups = torch.tensor([-1, 0, 0, 1, -2, 2])
    model, x, baselines = network(6), inputs(2, 6), inputs(2, 6, seed=3)
    found = method(8)(calls.problem(model, x, target=1, features=groups, baselines=baselines))
    for row, baseline, values in zip(x, baselines, found, strict=True):
        first, second, third = by_subsets(worths(model, row, baseline, groups, 1), 3)
        np.testing.assert_allclose(values.numpy(), [0, first / 2, first / 2, second, 0, third], atol=1e-12)


@both
def test_missing_values_and_codes(method):
    """A value that is missing is kept or replaced like any other, and so is a code."""
    x = inputs(2, 5)
    x[0, 1] = x[1, 3] = torch.nan
    weights = torch.arange(1.0, 6).double()
    gaps = verax.Scorer(lambda rows: torch.where(rows.isnan(), 3.0, rows) @ weights, returns="values")
    found = method(32)(calls.problem(gaps, Inputs(x, baselines=torch.zeros(5))))
    wanted = torch.where(x.isnan(), 3.0, x) * weights
    torch.testing.assert_close(found, wanted)
    codes = torch.tensor([[1, 2, 3], [3, 2, 2]])
    table = torch.tensor([0.0, 1.0, 4.0, 9.0])
    looked_up = verax.Scorer(lambda ids: table[ids].sum(1), returns="values")
    assert torch.equal(method(8)(calls.problem(looked_up, Inputs(codes, baselines=0))), table[codes])


@both
def test_superpixels_of_images(method):
    model = convnet(channels=2, size=4).double().eval()
    x = inputs(2, 2, 4, 4)
    segments = (torch.arange(4)[:, None] // 2 * 2 + torch.arange(4) // 2).expand(4, 4)
    found = method(16)(calls.problem(model, x, target=1, features=segments))
    for row, values in zip(x, found, strict=True):
        groups = segments.expand(2, 4, 4)
        wanted = by_subsets(worths(model, row, torch.zeros_like(row), groups, 1), 4)
        sums = [float(values[groups == one].sum()) for one in range(4)]
        np.testing.assert_allclose(sums, wanted, atol=1e-12)
        assert len(values[groups == 0].unique()) == 1


@both
def test_inputs_with_different_numbers_of_groups_do_not_know_each_other(method):
    maps = torch.tensor([[0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 2, 3, 4, 5, 6, 7], [0, 0, 1, 1, 2, 2, 3, 4]])
    model, x = network(8), inputs(3, 8)
    together = method(24)(calls.problem(model, x, target=1, features=maps, batch_size=5))
    for at in range(3):
        alone = method(24)(calls.problem(model, x[at : at + 1], target=1, features=maps[at : at + 1]))
        torch.testing.assert_close(together[at : at + 1], alone, rtol=0, atol=1e-12)


@both
@pytest.mark.parametrize("samples", [0, 1, True])
def test_budgets_that_do_not_hold_both_ends_are_refused(method, samples):
    with pytest.raises(ValueError, match=r"^samples: expected a whole number of at least 2"):
        method(samples)


@both
def test_wrong_features_and_baselines_are_refused_before_the_model_runs(method):
    scorer = verax.Scorer(network(6))
    with pytest.raises(ValueError, match=r"^features: "):
        method()(calls.problem(scorer, inputs(2, 6), features=torch.zeros(5, dtype=torch.int64)))
    with pytest.raises(ValueError, match=r"^baselines: "):
        method()(calls.problem(scorer, inputs(2, 6), baselines=torch.zeros(5)))
    assert scorer.rows == 0


@pytest.fixture
def shap(monkeypatch):
    found = pytest.importorskip("shap", reason="needs the extra shap")
    for module in (found.explainers._exact, found.utils._masked_model):
        for name, function in vars(module).items():
            if hasattr(function, "py_func"):  # to compile it takes longer than to run it
                monkeypatch.setattr(module, name, function.py_func)
    return found


def test_shap_finds_the_same_exactly(shap):
    model, x, baseline = network(7), inputs(2, 7), inputs(1, 7, seed=3)

    def score(batch):
        with torch.no_grad():
            return model(torch.from_numpy(batch))[:, 1].numpy()

    def masked(mask, row):
        return np.where(mask, row, baseline.numpy())

    wanted = shap.ExactExplainer(score, masked)(x.numpy()).values
    for method in METHODS:
        found = method(128)(calls.problem(model, x.numpy(), target=1, baselines=baseline.numpy()))
        np.testing.assert_allclose(found, wanted, atol=1e-8)


@both
@pytest.mark.parametrize("peer", ["KernelShap", "ShapleyValueSampling"])
def test_captum_converges_to_the_same(method, peer):
    captum = pytest.importorskip("captum.attr", reason="needs the extra captum")
    model, x, baseline = network(5).float(), rows(1, 5), rows(1, 5, seed=3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        settings = {"perturbations_per_eval": 64, "n_samples": 200 if peer == "ShapleyValueSampling" else 2000}
        wanted = getattr(captum, peer)(model).attribute(x, baselines=baseline, target=1, **settings).detach()
    found = method(32)(calls.problem(model, x, target=1, baselines=baseline))
    torch.testing.assert_close(found, wanted, rtol=0, atol=0.05 * float(found.abs().max()))


@both
def test_standard_errors_say_how_far_off_values_are(method):
    """In the shape of the values; 0 where these are exact, NaN where too few rows say, about right between."""
    model, x = network(10), inputs(8, 10)
    problem = calls.problem(model, x, target=1)
    found = verax.explain(problem, {str(samples): method(samples) for samples in (16, 128, 256, 1024)})
    errors, exact = found.standard_errors, found["1024"]
    assert bool(errors["16"].isnan().all())
    assert torch.equal(errors["1024"], torch.zeros_like(exact))
    for samples in ("128", "256"):
        away = (found[samples] - exact).square().mean().sqrt()
        assert 0.5 < float(away / errors[samples].square().mean().sqrt()) < 2


def test_methods_without_errors_have_none():
    found = verax.explain(calls.problem(network(), inputs(2, 6), target=1), {"o": verax.attribution.Occlusion()})
    assert found.standard_errors == {}


def over_rows(model, row, others, target):
    """The mean worth of each coalition over rows that stand in for what is removed."""
    each = [worths(model, row, other, torch.arange(len(row)), target) for other in others]
    return {chosen: np.mean([one[chosen] for one in each]) for chosen in each[0]}


@both
def test_over_a_background_values_are_those_of_mean_scores(method):
    """Shapley's formula on means over background rows, which shap's exact explainer has as well."""
    shap = pytest.importorskip("shap", reason="needs shap")
    model, x, others = network(5), inputs(3, 5), inputs(4, 5, seed=3)
    problem = calls.problem(model, x, target=2, background=others)
    found = verax.explain(problem, {"over": method(samples=32, over="background")})
    assert found.rows == len(x) * (1 + 31 * len(others))

    def score(batch):
        with torch.no_grad():
            return model(torch.from_numpy(batch))[:, 2].numpy()

    theirs = shap.explainers.ExactExplainer(score, shap.maskers.Independent(others.numpy()))(x.numpy())
    np.testing.assert_allclose(found["over"].numpy(), theirs.values, atol=1e-10)
    for row, values in zip(x, found["over"].numpy(), strict=True):
        np.testing.assert_allclose(values, by_subsets(over_rows(model, row, others, 2), 5), atol=1e-12)


@both
def test_over_one_row_a_background_is_a_baseline(method):
    model, x, other = network(9), inputs(2, 9), inputs(1, 9, seed=3)
    by_background, by_baseline = (
        method(samples=100, over=over)(calls.problem(model, x, target=1, background=other, baselines=other[0]))
        for over in ("background", "baselines")
    )
    torch.testing.assert_close(by_background, by_baseline, rtol=0, atol=1e-10)


@both
def test_a_mean_over_the_background_needs_one(method, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it would answer before the library does
    with pytest.raises(ValueError, match=r"over=.background.*background=train_inputs"):
        method(over="background")(calls.problem(network(), inputs(1, 6)))
    with pytest.raises(ValueError, match="over"):
        method(over="everything")
