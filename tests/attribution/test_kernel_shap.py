"""Kernel SHAP: the sizes of its coalitions, and its fit against one that is written down plainly."""

import math

import numpy as np
import pytest
import torch

import calls
import verax
from attribution.games import Recorded
from attribution.networks import mlp, rows
from verax.attribution import KernelShap, interactions
from verax.attribution.interactions import _Regression
from verax.attribution.kernel_shap import pair_weights, pairs_by_size, size_sequence
from verax.attribution.shapley import exact_shapley


@pytest.mark.parametrize("features", [4, 7, 12, 64])
def test_sizes_are_prefixes(features):
    longest = size_sequence(features, 300 if features == 64 else 2 ** (features - 1) - 1)
    for pairs in (0, 1, 2, 5, len(longest) // 2, len(longest)):
        assert np.array_equal(size_sequence(features, pairs), longest[:pairs])


@pytest.mark.parametrize("features", [2, 3, 6, 9])
def test_in_the_end_all_pairs_were_there(features):
    sizes = size_sequence(features, 2 ** (features - 1) - 1)
    assert np.bincount(sizes)[1:].tolist() == pairs_by_size(features)
    weights = pair_weights(features, sizes)
    kernel = [1 / (math.comb(features, size) * size * (features - size)) for size in sizes.tolist()]
    np.testing.assert_allclose(weights / weights.sum(), np.array(kernel) / sum(kernel))


def test_each_feature_alone_comes_first_and_then_every_size_equally_often():
    sizes = size_sequence(50, 50 + 235)
    assert (sizes[:50] == 1).all()
    drawn = np.bincount(sizes[50:], minlength=26)[2:]
    assert drawn[:-1].tolist() == [10] * 23
    assert drawn[-1] == 5  # half as many pairs: the complement of half is half


def drawn_pairs(features, samples):
    """Values, and kept features with scores of all coalitions that a budget drew, of an input and its baseline."""
    model = mlp(features=features, outputs=2).double().eval()
    x = rows(1, features, dtype=torch.float64)
    spy = Recorded(model)
    found = KernelShap(samples)(calls.problem(spy, x, target=1, baselines=torch.zeros(features)))[0].numpy()
    seen = spy.rows
    kept = (seen != 0).double().numpy()
    with torch.no_grad():
        scores, ends = model(seen)[:, 1].numpy(), model(torch.stack((torch.zeros_like(x[0]), x[0])))[:, 1].numpy()
    inner = (kept.sum(1) > 0) & (kept.sum(1) < features)
    kept, scores = kept[inner], scores[inner]
    assert len(np.unique(kept, axis=0)) == len(kept) == 2 * ((samples - 2) // 2)
    return found, kept, scores, ends


def kernel_weights(kept):
    features, size = kept.shape[1], kept.sum(1)
    small = np.minimum(size, features - size).astype(int)
    return 1 / (size * (features - size)) / np.bincount(small)[small] * np.where(2 * small == features, 0.5, 1)


@pytest.mark.parametrize(("features", "samples"), [(8, 18), (8, 10), (30, 62)])
def test_up_to_as_many_pairs_as_features_the_fit_is_the_constrained_regression(features, samples):
    """Least squares of what an even share leaves, the shortest solution; all rows, not pairs."""
    found, kept, scores, ends = drawn_pairs(features, samples)
    size, weights = kept.sum(1), kernel_weights(kept)
    even = (ends[1] - ends[0]) / features
    design = (kept - size[:, None] / features) * np.sqrt(weights)[:, None]
    wanted = np.linalg.lstsq(design, np.sqrt(weights) * (scores - ends[0] - size * even), rcond=1e-10)[0]
    np.testing.assert_allclose(found, even + wanted, atol=1e-9)


@pytest.mark.parametrize("tilt", [0.0, 0.4])
@pytest.mark.parametrize("samples", [24, 60, 120])
def test_interactions_are_those_of_one_covariance_in_full(samples, tilt, monkeypatch):
    """The covariance of all coalitions' scores written out, and Shapley values as sums over them."""
    features, reach, noise = 7, np.linspace(0.1, 0.6, 7), 0.03
    some = interactions._Covariance(
        torch.tensor(reach)[None], torch.tensor([tilt]).double(), torch.tensor([noise]).double()
    )
    monkeypatch.setattr(_Regression, "tuned", lambda self, _: some)
    found, kept, scores, ends = drawn_pairs(features, samples)
    every = (np.arange(2**features)[:, None] >> np.arange(features)) % 2
    sign, rows = 2 * every - 1, np.append(kept[::2] @ 2 ** np.arange(features), 2**features - 1).astype(int)
    covariance = np.exp(tilt * np.add.outer(sign.sum(1), sign.sum(1)))
    covariance *= (1 + reach * sign[:, None] * sign).prod(2)
    odd = np.eye(2**features)[rows] / 2 - np.eye(2**features)[::-1][rows] / 2
    shapley = exact_shapley(torch.eye(2**features)).T.numpy()
    of_pairs, of_values = odd @ covariance @ odd.T, shapley @ covariance @ odd.T
    scale = np.diagonal(of_pairs).mean() - reach.sum()  # without sets of one feature
    wanted = np.append((scores[::2] - scores[1::2]) / 2, (ends[1] - ends[0]) / 2)
    weights = kernel_weights(kept)[::2]
    total = of_pairs / scale + np.diag(np.append(noise * weights.mean() / weights, 0) + 1e-9)
    inverse, signs = np.linalg.inv(total), sign[rows]
    slopes = np.linalg.solve(signs.T @ inverse @ signs, signs.T @ inverse @ wanted)
    values = 2 * slopes + of_values / scale @ inverse @ (wanted - signs @ slopes)
    np.testing.assert_allclose(found, values, atol=1e-6)


@pytest.mark.parametrize("samples", [400, 1500])
def test_few_interactions_of_three_features_are_found_exactly(samples):
    """Far fewer coalitions than all 2^16, and standard errors that know it."""
    problem, exact = game_of_triples(16)
    found = verax.explain(problem, {"few": KernelShap(samples)})
    torch.testing.assert_close(found["few"][0], exact, rtol=0, atol=1e-8)
    assert float(found.standard_errors["few"].max()) < 1e-7


def game_of_triples(features):
    """A sum over features and four interactions of three, and its Shapley values."""
    triples = torch.tensor([[0, 1, 2], [3, 4, 5], [1, 6, 9], [2, 10, 12]])
    effects = torch.tensor([2.0, -1.5, 1.0, 3.0], dtype=torch.float64)
    slopes = torch.linspace(-1, 1, features, dtype=torch.float64)
    exact = slopes.index_add(0, triples.flatten(), (effects / 3).repeat_interleave(3))

    def score(x):
        return x @ slopes + x[:, triples].prod(2) @ effects

    return calls.problem(verax.Scorer(score, returns="values"), torch.ones(1, features, dtype=torch.float64)), exact


def test_what_gets_smaller_with_each_feature_kept_is_found_from_few_coalitions(monkeypatch):
    """Nothing but the tilt knows that coalitions of few features matter most: without it errors are larger."""
    features = 12
    rates = torch.linspace(0.4, 1.2, features, dtype=torch.float64)
    scorer = verax.Scorer(lambda x: (-x @ rates).exp(), returns="values")
    problem = calls.problem(scorer, torch.ones(1, features, dtype=torch.float64))
    exact = KernelShap(2**features)(problem)
    methods = [KernelShap(250, seed) for seed in range(3)]
    tilted = [float((method(problem) - exact).norm()) for method in methods]
    monkeypatch.setattr(interactions, "_TILTS", (0.0,))
    level = [float((method(problem) - exact).norm()) for method in methods]
    assert max(tilted) < 0.02 * float(exact.norm())
    assert np.mean(tilted) < np.mean(level) / 2


def test_many_pairs_are_fitted_in_parts(monkeypatch):
    problem = calls.problem(mlp(features=12, outputs=2).double().eval(), rows(2, 12, dtype=torch.float64))
    exact, whole = KernelShap(4096)(problem), KernelShap(1200)(problem)
    monkeypatch.setattr(interactions, "_AT_ONCE", 200)
    parts = KernelShap(1200)(problem)
    assert float((whole - exact).norm()) < float((parts - exact).norm()) < 0.05 * float(exact.norm())
    torch.testing.assert_close(parts.sum(1), exact.sum(1), rtol=0, atol=1e-10)


def test_coalitions_come_with_their_complements_and_none_twice():
    spy = Recorded(mlp(features=10, outputs=2).double().eval())
    KernelShap(402)(calls.problem(spy, rows(1, 10, dtype=torch.float64), target=1))
    kept = (spy.rows != 0).numpy()
    inner = kept[(kept.sum(1) > 0) & (kept.sum(1) < 10)]
    assert len(inner) == len(np.unique(inner, axis=0)) == 400
    assert {tuple(row) for row in inner} == {tuple(~row) for row in inner}


def test_the_likelihood_grows_as_its_slope_says():
    generator = torch.Generator().manual_seed(0)
    signs = torch.where(torch.rand(2, 30, 5, generator=generator) < 0.5, 1.0, -1.0).double()
    wanted, noises = (torch.rand(*shape, generator=generator).double() for shape in ((2, 30), (30,)))
    game = _Regression(signs, wanted, noises)
    place = torch.rand(2, 7, generator=generator).double() + torch.tensor([-1.5] * 6 + [1.0])

    def likelihood(at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return game._likelihood_and_slope(
            interactions._Covariance(at[:, :-2].sigmoid(), at[:, -1] / 4, at[:, -2].exp())
        )

    _, slope, information = likelihood(place)
    assert float(torch.linalg.eigvalsh(information).min()) > 0
    for parameter in range(7):
        move = 1e-5 * (torch.arange(7) == parameter)
        difference = (likelihood(place + move)[0] - likelihood(place - move)[0]) / 2e-5
        torch.testing.assert_close(slope[:, parameter], difference, rtol=1e-5, atol=1e-5)
