"""Kernel SHAP: the sizes of its coalitions, and its fit against one that is written down plainly."""

import itertools
import math

import numpy as np
import pytest
import torch

import calls
import verax
from attribution.games import Recorded
from attribution.networks import mlp, rows
from verax.attribution import KernelShap, interactions, kernel_shap
from verax.attribution.interactions import _Regression
from verax.attribution.kernel_shap import pair_weights, pairs_by_size, size_sequence


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


@pytest.mark.parametrize("samples", [24, 60, 120])
def test_interactions_are_those_of_one_covariance_in_full(samples, monkeypatch):
    """Every odd set of features written out: ridge regression on its products, generalised least squares of slopes."""
    features, reach, noise = 7, np.linspace(0.1, 0.6, 7), 0.03
    monkeypatch.setattr(
        _Regression, "tuned", lambda self, _: (torch.tensor(reach)[None], self.noise.new_tensor([noise]))
    )
    found, kept, scores, ends = drawn_pairs(features, samples)
    sets = [one for size in (3, 5, 7) for one in itertools.combinations(range(features), size)]
    prior = np.array([reach[list(one)].prod() for one in sets])
    prior /= prior.sum()
    signs = np.vstack([2 * kept[::2] - 1, np.ones(features)])
    wanted = np.append((scores[::2] - scores[1::2]) / 2, (ends[1] - ends[0]) / 2)
    weights = kernel_weights(kept)[::2]
    products = np.stack([signs[:, list(one)].prod(1) for one in sets], axis=1)
    covariance = products * prior @ products.T + np.diag(np.append(noise * weights.mean() / weights, 0) + 1e-9)
    inverse = np.linalg.inv(covariance)
    slopes = np.linalg.solve(signs.T @ inverse @ signs, signs.T @ inverse @ wanted)
    coefficients = prior * (products.T @ inverse @ (wanted - signs @ slopes))
    values = 2 * slopes
    for one, coefficient in zip(sets, coefficients, strict=True):
        values[list(one)] += 2 * coefficient / len(one)
    np.testing.assert_allclose(found, values, atol=1e-6)


def test_interactions_of_three_features_are_found_from_few_coalitions(monkeypatch):
    """Far fewer than all 2^16, and closer than the regression of a sum over features comes."""
    features = 16
    triples = torch.tensor([[0, 1, 2], [3, 4, 5], [1, 6, 9], [2, 10, 12]])
    effects = torch.tensor([2.0, -1.5, 1.0, 3.0], dtype=torch.float64)
    slopes = torch.linspace(-1, 1, features, dtype=torch.float64)
    exact = slopes.index_add(0, triples.flatten(), (effects / 3).repeat_interleave(3))

    def score(x):
        return x @ slopes + x[:, triples].prod(2) @ effects

    problem = calls.problem(verax.Scorer(score, returns="values"), torch.ones(1, features, dtype=torch.float64))
    methods = [KernelShap(1500, seed) for seed in range(5)]
    closer = [float((method(problem)[0] - exact).norm()) for method in methods]
    monkeypatch.setattr(kernel_shap, "fitted", lambda *given: interactions.Fit(given[-1], given[-1]))
    alone = [float((method(problem)[0] - exact).norm()) for method in methods]
    assert np.mean(closer) < np.mean(alone) / 2


def test_many_pairs_are_fitted_in_parts(monkeypatch):
    problem = calls.problem(mlp(features=12, outputs=2).double().eval(), rows(2, 12, dtype=torch.float64))
    exact, whole = KernelShap(4096)(problem), KernelShap(1200)(problem)
    monkeypatch.setattr(interactions, "_AT_ONCE", 200)
    parts = KernelShap(1200)(problem)
    assert 0 < float((parts - whole).norm()) < float((parts - exact).norm()) < 0.05 * float(exact.norm())
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
    place = torch.rand(2, 6, generator=generator).double() - 1.5

    def likelihood(at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return game._likelihood_and_slope(at[:, :-1].sigmoid(), at[:, -1].exp())

    _, slope = likelihood(place)
    for parameter in range(6):
        move = 1e-5 * (torch.arange(6) == parameter)
        difference = (likelihood(place + move)[0] - likelihood(place - move)[0]) / 2e-5
        torch.testing.assert_close(slope[:, parameter], difference, rtol=1e-5, atol=1e-5)
