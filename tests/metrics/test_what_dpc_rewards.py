"""What DPC by magnitude rewards: its flaw, stated as a test, and the readings and metrics that do not have it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import calls
import verax
from verax.metrics import DirectedPredictionChange, LocalPredictionChange

FEATURES, ROWS = 8, 40
BETWEEN = DirectedPredictionChange("magnitude", steps=FEATURES)
MORF = DirectedPredictionChange("magnitude", steps=FEATURES, area="morf")


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def network(seed: int, features: int = FEATURES) -> Callable[[Tensor], Tensor]:
    inner, outer, bias = drawn(32, features, seed=seed), drawn(32, seed=seed + 1), drawn(32, seed=seed + 2)
    return lambda x: (x @ inner.T + bias).relu() @ outer / 8


WEIGHTS = drawn(FEATURES, seed=5)
MODELS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: x @ WEIGHTS,
    "additive": lambda x: (WEIGHTS * x).sin().sum(1) + (x**2 @ WEIGHTS) / 4,
    "product": lambda x: x[:, 0] * x[:, 1] + x[:, 2] * x[:, 3] * x[:, 4] + x[:, 5:] @ WEIGHTS[5:],
    "relu": network(3),
}


def scores(model: Callable[[Tensor], Tensor], x: Tensor, attributions: dict[str, Tensor], metrics: Any) -> Any:
    scorer = verax.Scorer(lambda rows: model(rows)[:, None], returns="values")
    return calls.evaluate(scorer, x, attributions, metrics)


def gradient_of(model: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    leaf = x.clone().requires_grad_()
    (found,) = torch.autograd.grad(model(leaf).sum(), leaf)
    return found


def half_reversed(a: Tensor) -> Tensor:
    """The same sizes, with the signs of the lower half turned round."""
    place = a.abs().argsort(dim=1, descending=True).argsort(dim=1)
    return torch.where(place < a.shape[1] // 2, a, -a)


def falsehoods(a: Tensor, x: Tensor) -> dict[str, Tensor]:
    order = torch.stack([torch.randperm(a.shape[1], generator=torch.Generator().manual_seed(i)) for i in range(len(a))])
    flips = torch.where(drawn(*a.shape, seed=8) > 0, 1.0, -1.0)
    return {
        "half-reversed": half_reversed(a),
        "permuted": a.gather(1, order),
        "sign-flipped": a * flips,
        "noisy": a + 0.5 * a.std() * drawn(*a.shape, seed=9),
        "baseline-sized": a.sign() * (a * x).abs(),
    }


@pytest.mark.parametrize("seed", range(3))
def test_dpc_cannot_tell_an_attribution_from_its_negated_inverse(seed: int) -> None:
    """Reversing the ranking and all signs swaps and mirrors the two curves: the paper's area is the same."""
    x, a = drawn(ROWS, FEATURES, seed=seed), drawn(ROWS, FEATURES, seed=seed + 9)
    pair = {"a": a, "-1/a": -1 / a}
    found = scores(network(seed), x, pair, {"dpc": BETWEEN, "morf": MORF, "lpc": LocalPredictionChange(epsilon=1e-4)})
    torch.testing.assert_close(found["dpc"].value["a"], found["dpc"].value["-1/a"], rtol=0, atol=1e-13)
    assert found["dpc"].value["a"].abs().mean() > 0.01
    for name in ("morf", "lpc"):
        values = found[name].value
        assert (values["a"] - values["-1/a"]).abs().min() > 1e-6 * values["a"].abs().max()


def test_a_false_explanation_wins_under_dpc_and_loses_under_morf() -> None:
    """Of a linear model, input by input: the gradient with its lower half reversed beats the gradient."""
    x = drawn(ROWS, FEATURES)
    gradient = WEIGHTS.expand(ROWS, -1)
    found = scores(
        MODELS["linear"], x, {"true": gradient, "false": half_reversed(gradient)}, {"dpc": BETWEEN, "morf": MORF}
    )
    dpc, morf = found["dpc"].value, found["morf"].value
    assert (dpc["false"] > dpc["true"]).float().mean() > 0.9
    assert (morf["true"] > morf["false"]).all()


@pytest.mark.parametrize("steps", [2, 3, 5, 8, 20])
def test_morf_and_coherent_put_the_gradient_of_a_linear_model_first(steps: int) -> None:
    """At any number of steps: above the half-reversed gradient on every input, above 1,000 random ones in the mean."""
    features = 20
    weights, x = drawn(features, seed=6), drawn(30, features, seed=7)
    gradient = weights.expand(30, -1)
    metric = DirectedPredictionChange("magnitude", steps, rule="coherent", area="morf")
    given = {"true": gradient, "false": half_reversed(gradient)}
    given |= {str(one): drawn(30, features, seed=100 + one) for one in range(1000)}
    value = scores(lambda rows: rows @ weights, x, given, [metric])["dpc"].value
    assert (value["true"] > value["false"]).all()
    best_random = max(float(value[str(one)].mean()) for one in range(1000))
    assert value["true"].mean() > best_random


@pytest.mark.parametrize("name", MODELS)
def test_lpc_puts_the_gradient_above_what_is_false(name: str) -> None:
    """In the mean over inputs, in double precision, with a nudge of 1e-4."""
    model, x = MODELS[name], drawn(ROWS, FEATURES, seed=1)
    gradient = gradient_of(model, x)
    given = {"true": gradient, **falsehoods(gradient, x)}
    value = scores(model, x, given, [LocalPredictionChange(epsilon=1e-4)])["lpc"].value
    for other in given.keys() - {"true"}:
        assert value["true"].mean() > value[other].mean(), other


@pytest.mark.parametrize("name", MODELS)
def test_lpc_of_the_gradient_is_the_sum_that_calculus_gives(name: str) -> None:
    """As epsilon falls, each nudge changes the score by ``epsilon |g_i|``; features with ``x = b`` do not move."""
    model, x = MODELS[name], drawn(ROWS, FEATURES, seed=1)
    x[:, 2] = 0.0
    gradient = gradient_of(model, x)
    value = scores(model, x, {"true": gradient}, [LocalPredictionChange(epsilon=1e-6)])["lpc"].value["true"]
    sizes = torch.where(x == 0, 0.0, gradient.abs())
    ordered = sizes.gather(1, gradient.abs().argsort(dim=1, descending=True, stable=True)).cumsum(1)
    weights = torch.tensor([((FEATURES + 1 - i) / (FEATURES + 1)) ** 3 for i in range(FEATURES + 1)]).double()
    calculus = (ordered @ weights[1:]) / weights[1:].sum()
    torch.testing.assert_close(value.mean() / 1e-6, calculus.mean(), rtol=2e-3, atol=0)


def test_a_metric_says_what_it_cannot_see() -> None:
    assert "-1/a" in DirectedPredictionChange("magnitude").known_limitations
    assert "constant" in DirectedPredictionChange().known_limitations
    assert "constant" in verax.metrics.PredictionChange().known_limitations
    assert "resized" in DirectedPredictionChange("magnitude", area="morf").known_limitations
    assert LocalPredictionChange().known_limitations == ""


def test_a_tree_is_flat_for_a_nudge() -> None:
    x = drawn(10, 4)
    found = scores(lambda rows: (rows > 0.5).double().sum(1), x, {"a": x}, [LocalPredictionChange(epsilon=1e-6)])
    assert not found["lpc"].value["a"].any()


def test_modules_work_in_single_precision() -> None:
    """The default epsilon is far above rounding: the gradient reaches nearly what calculus says."""
    _ = torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 16), nn.Tanh(), nn.Linear(16, 2))
    x = drawn(ROWS, FEATURES).float()
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(leaf).softmax(1)[:, 1].sum(), leaf)
    single = calls.evaluate(model, x, {"g": gradient}, ["lpc"], target=1)["lpc"].value["g"]
    double = calls.evaluate(model.double(), x.double(), {"g": gradient}, ["lpc"], target=1)["lpc"].value["g"]
    torch.testing.assert_close(single.double(), double, rtol=0, atol=1e-4 * float(double.abs().max()))


@pytest.mark.parametrize("name", MODELS)
def test_lpc_of_the_gradient_reaches_its_exact_limit(name: str) -> None:
    """Within one percent of the best that any attribution could get, in the mean over inputs."""
    model, x = MODELS[name], drawn(ROWS, FEATURES, seed=1)
    metric = LocalPredictionChange(epsilon=1e-4)
    scorer = verax.Scorer(lambda rows: model(rows)[:, None], returns="values")
    best = calls.limits(scorer, x, metrics=[metric])["lpc"]
    value = scores(model, x, {"true": gradient_of(model, x)}, [metric])["lpc"].value["true"]
    assert best.exact
    assert (value <= best.best + 1e-12).all()
    assert value.mean() > 0.99 * best.best.mean()
