"""Theorem 1 of the paper, on linear models: no order beats that of Integrated Gradients under Prediction Change."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import calls
import verax


def linear_problem(seed: int, features: int, shifted: bool) -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    """A linear model, inputs, baselines, and Integrated Gradients, which are exact here: (x - b) w."""
    generator = torch.Generator().manual_seed(seed)
    model = nn.Linear(features, 1).double()
    model.weight.data = torch.randn(1, features, generator=generator, dtype=torch.float64)
    model.bias.data.fill_(0.3)
    x, b = torch.randn(2, 3, features, generator=generator, dtype=torch.float64)
    b = b if shifted else torch.zeros_like(b)
    return model, x, b, (x - b) * model.weight.detach()


def as_attributions(orders: Tensor, inputs: int) -> Tensor:
    """Attributions that remove features in given orders: the first of an order has the highest value."""
    count, features = orders.shape
    falling = torch.arange(features, 0, -1, dtype=torch.float64).expand(count, features)
    values = torch.empty_like(falling).scatter(1, orders, falling)
    return values[:, None].expand(count, inputs, features)


def scores(model: nn.Module, x: Tensor, b: Tensor, attributions: Tensor, **options: Any) -> Tensor:
    scorer = verax.Scorer(model, returns="logits")
    return calls.prediction_change(scorer, x, attributions, target=1, baselines=b, **options).value


@pytest.mark.parametrize("shifted", [False, True], ids=["zero baseline", "other baseline"])
@pytest.mark.parametrize("output", ["logit", "probability"])
@pytest.mark.parametrize("features", [5, 6])
def test_integrated_gradients_attain_the_maximum_over_all_orders(features: int, output: str, shifted: bool) -> None:
    model, x, b, ig = linear_problem(features, features, shifted)
    orders = torch.tensor(list(itertools.permutations(range(features))))
    every = scores(model, x, b, as_attributions(orders, len(x)), output=output)
    own = scores(model, x, b, ig, output=output)
    torch.testing.assert_close(own, every.amax(0), rtol=0, atol=1e-12)
    opposite = scores(model, x, b, -ig, output=output)
    torch.testing.assert_close(opposite, every.amin(0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("shifted", [False, True], ids=["zero baseline", "other baseline"])
@pytest.mark.parametrize("steps", [20, 6])
def test_random_orders_never_beat_integrated_gradients(steps: int, shifted: bool) -> None:
    model, x, b, ig = linear_problem(20, 20, shifted)
    generator = torch.Generator().manual_seed(1)
    orders = torch.rand(2000, 20, generator=generator).argsort(1)
    others = scores(model, x, b, as_attributions(orders, len(x)), steps=steps, output="logit")
    own = scores(model, x, b, ig, steps=steps, output="logit")
    assert (others <= own + 1e-12).all()
