"""What the tests of searches share: a model that is cheap, inputs, and a small set of configurations."""

from itertools import product

import pytest
import torch

from verax.attribution import Gradient, LimeTabular, SmoothGrad, VarGrad

pytest.importorskip("optuna", reason="needs the extra tune")

SIX = (
    Gradient(),
    SmoothGrad(sigma=1.0, samples=4),
    VarGrad(sigma=1.0, samples=4),
    LimeTabular(alpha=100.0, samples=8),
    LimeTabular(alpha=0.01, samples=8),
    LimeTabular(alpha=0.01, samples=64),
)
LIME = tuple(
    LimeTabular(alpha, width, sigma, samples)
    for alpha, width, sigma, samples in product((0.001, 0.1, 1.0), (0.5, 1.0, 2.0), (0.5, 1.0), (8, 16, 32))
)


def small_model(features=6, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(features, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
    with torch.no_grad():
        model[0].weight.mul_(4)  # fresh weights are so small that hardly anything would change
    return model


def some_inputs(count=80, features=6, seed=1):
    return torch.randn(count, features, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def model():
    return small_model()


@pytest.fixture
def inputs():
    return some_inputs()
