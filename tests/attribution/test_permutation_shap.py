"""Permutation SHAP: its walks, there and back, and the mean of what features contribute on them."""

import numpy as np
import pytest
import torch

import calls
import verax
from attribution.games import Recorded
from attribution.networks import mlp, rows
from verax.attribution import PermutationShap, permutation_shap
from verax.attribution.permutation_shap import halfway_first

FEATURES = 7


def walked(samples, features=FEATURES):
    """Attributions, the sets of kept features in the order of the walks, their scores and those of both ends."""
    model = mlp(features=features, outputs=2).double().eval()
    x = rows(1, features, dtype=torch.float64)
    spy = Recorded(model)
    found = PermutationShap(samples)(calls.problem(spy, x, target=1))[0].numpy()
    kept = (spy.rows != 0).numpy()
    inner = (kept.sum(1) > 0) & (kept.sum(1) < features)
    with torch.no_grad():
        scores, ends = model(spy.rows)[:, 1].numpy(), model(torch.stack((0 * x[0], x[0])))[:, 1].numpy()
    return found, kept[inner], scores[inner], ends


@pytest.mark.parametrize("features", [1, 2, 3, 10, 17])
def test_points_are_all_there_and_span_the_walk_early(features):
    points = halfway_first(features)
    assert sorted(points) == list(range(1, features))
    for count in range(1, len(points)):
        edges = [0, *sorted(points[:count]), features]
        assert max(np.diff(edges)) <= 2 * -(-features // (count + 1))


@pytest.mark.parametrize("walks", [1, 2, 3])
def test_the_mean_contribution_over_walks(walks):
    found, kept, scores, ends = walked(2 + walks * (FEATURES - 1) + 3)  # what is too short for a walk is not used
    assert len(kept) == walks * (FEATURES - 1)
    values = np.zeros(FEATURES)
    for walk in np.split(np.arange(len(kept)), walks):
        order = walk[np.argsort(kept[walk].sum(1))]
        sets = [np.zeros(FEATURES, bool), *kept[order], np.ones(FEATURES, bool)]
        path = [ends[0], *scores[order], ends[1]]
        for place in range(FEATURES):
            (joined,) = np.nonzero(sets[place + 1] & ~sets[place])
            assert len(joined) == 1
            values[joined[0]] += (path[place + 1] - path[place]) / walks
    np.testing.assert_allclose(found, values, atol=1e-12)


def test_more_walks_are_fitted_as_many_back_as_there(monkeypatch):
    """Interactions of three features: from the same sets, far closer than the mean contribution."""
    features = 12
    triples = torch.tensor([[0, 1, 2], [3, 4, 5], [1, 6, 9]])
    effects = torch.tensor([2.0, -1.5, 1.0], dtype=torch.float64)
    slopes = torch.linspace(-1, 1, features, dtype=torch.float64)
    exact = slopes.index_add(0, triples.flatten(), (effects / 3).repeat_interleave(3))

    def score(x):
        return x @ slopes + x[:, triples].prod(2) @ effects

    problem = calls.problem(verax.Scorer(score, returns="values"), torch.ones(1, features, dtype=torch.float64))
    methods = [PermutationShap(2 + 101 * (features - 1), seed) for seed in range(5)]
    fits = verax.explain(problem, methods)
    assert fits.rows == 1 + len(methods) * (1 + 100 * (features - 1))  # the walk without its way back is left out
    errors = [float((one[0] - exact).norm()) for one in fits.values()]
    monkeypatch.setattr(permutation_shap, "_FITTED", 10**9)
    means = [float((one[0] - exact).norm()) for one in verax.explain(problem, methods).values()]
    assert np.mean(errors) < np.mean(means) / 2


def test_every_second_walk_meets_the_complements():
    _, kept, _, _ = walked(2 + 4 * (FEATURES - 1))
    there, back, third, fourth = ({tuple(row) for row in walk} for walk in np.split(kept, 4))
    assert there == {tuple(not one for one in row) for row in back}
    assert third == {tuple(not one for one in row) for row in fourth}
    assert there != third


@pytest.mark.parametrize("points", [0, 1, 3])
def test_a_part_of_a_walk_takes_longer_steps(points):
    found, kept, scores, ends = walked(2 + points)
    order = np.argsort(kept.sum(1)) if points else []
    sets = (
        [np.zeros(FEATURES, bool), *kept[order], np.ones(FEATURES, bool)]
        if points
        else [
            np.zeros(FEATURES, bool),
            np.ones(FEATURES, bool),
        ]
    )
    path = [ends[0], *(scores[order] if points else []), ends[1]]
    assert len(sets) == points + 2
    for place in range(points + 1):
        joined = sets[place + 1] & ~sets[place]
        np.testing.assert_allclose(found[joined], (path[place + 1] - path[place]) / joined.sum(), atol=1e-12)
