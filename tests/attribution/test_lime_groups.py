"""LIME over any features: equal to scikit-learn's ridge regression on the rows that the model saw."""

from itertools import product

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

import calls
from attribution.games import Recorded
from attribution.networks import mlp, rows
from calls import attribute
from verax.attribution import LimeGroups

BLOCKS = torch.tensor([0, 0, 1, 2, 2, 3])


@pytest.mark.parametrize(("features", "samples"), [("auto", 40), ("auto", 4), (BLOCKS, 40)])
def test_every_member_is_the_ridge_regression_on_its_first_rows(features, samples):
    model, x = mlp().double().eval(), rows(1, 6, dtype=torch.float64)
    members = [
        LimeGroups(alpha, width, count) for alpha, width, count in product((0.01, 1.0), (0.25, 0.5), (3, samples))
    ]
    spy = Recorded(model)
    found = attribute(members, spy, x, target=1, features=features)
    assert found.rows == 1 + samples
    map_ = torch.arange(6) if isinstance(features, str) else features
    first = [int((map_ == one).nonzero()[0]) for one in map_.unique()]
    seen = torch.cat((x, spy.rows[-samples:]))
    design = (seen != 0).double().numpy()[:, first]
    with torch.no_grad():
        scores = model(seen)[:, 1].numpy()
    for one in members:
        mask = design[: one.samples + 1]
        weights = np.exp(-((1 - np.sqrt(mask.mean(1))) ** 2) / (2 * one.kernel_width**2))
        fit = Ridge(alpha=one.alpha).fit(mask, scores[: one.samples + 1], sample_weight=weights)
        sizes = np.bincount(map_.numpy())[map_.numpy()]
        np.testing.assert_allclose(found[one.canonical][0].numpy(), fit.coef_[map_.numpy()] / sizes, atol=1e-9)


def test_inputs_with_different_numbers_of_groups_do_not_know_each_other():
    maps = torch.tensor([[0, 0, 1, 1, 2, 2], [0, 1, 2, 3, 4, 5]])
    model, x = mlp().double().eval(), rows(2, 6, dtype=torch.float64)
    together = LimeGroups(samples=16)(calls.problem(model, x, target=1, features=maps))
    for at in range(2):
        alone = LimeGroups(samples=16)(calls.problem(model, x[at : at + 1], target=1, features=maps[at : at + 1]))
        torch.testing.assert_close(together[at : at + 1], alone, rtol=0, atol=1e-12)
