"""Kernel SHAP: the sizes of its coalitions, and its fit against one that is written down plainly."""

import math

import numpy as np
import pytest
import torch

import calls
from attribution.games import Recorded
from attribution.networks import mlp, rows
from verax.attribution import KernelShap
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


def test_sizes_come_at_the_rate_of_their_weight():
    sizes = size_sequence(50, 200)
    share = np.bincount(sizes, minlength=26)[2:] / (sizes > 1).sum()
    mass = np.array([1 / (size * (50 - size)) * (0.5 if size == 25 else 1) for size in range(2, 26)])
    np.testing.assert_allclose(share, mass / mass.sum(), atol=1 / 100)


@pytest.mark.parametrize(("features", "samples"), [(8, 40), (8, 20), (8, 10), (30, 200)])
def test_the_fit_is_the_constrained_regression(features, samples):
    """Least squares of what an even share leaves, the shortest solution; all rows, not pairs."""
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
    size = kept.sum(1)
    drawn = np.bincount(np.minimum(size, features - size).astype(int))
    small = np.minimum(size, features - size).astype(int)
    weights = 1 / (size * (features - size)) / drawn[small] * np.where(2 * small == features, 0.5, 1)
    even = (ends[1] - ends[0]) / features
    design = (kept - size[:, None] / features) * np.sqrt(weights)[:, None]
    wanted = np.linalg.lstsq(design, np.sqrt(weights) * (scores - ends[0] - size * even), rcond=1e-10)[0]
    np.testing.assert_allclose(found, even + wanted, atol=1e-9)


def test_coalitions_come_with_their_complements_and_none_twice():
    spy = Recorded(mlp(features=10, outputs=2).double().eval())
    KernelShap(402)(calls.problem(spy, rows(1, 10, dtype=torch.float64), target=1))
    kept = (spy.rows != 0).numpy()
    inner = kept[(kept.sum(1) > 0) & (kept.sum(1) < 10)]
    assert len(inner) == len(np.unique(inner, axis=0)) == 400
    assert {tuple(row) for row in inner} == {tuple(~row) for row in inner}
