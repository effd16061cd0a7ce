"""A linear model, whose logit is w.x + c: curves, PC, DPC and Infidelity are known in closed form."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import calls
import verax
from verax.core import noise
from verax.metrics import DirectedPredictionChange

FEATURES = 20
READINGS = ("magnitude", "signed", "literal")


def linear_model(weights: Tensor) -> verax.Scorer:
    model = nn.Linear(weights.numel(), 1).double()
    model.weight.data = weights[None]
    model.bias.data.fill_(0.7)
    return verax.Scorer(model, returns="logits")


def random_problem(seed: int, attributions: int = 4) -> tuple[verax.Scorer, Tensor, Tensor, Tensor, Tensor]:
    """Model, weights, inputs, baselines, and random attributions, some of whose entries are 0."""
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(FEATURES, generator=generator, dtype=torch.float64)
    x, b = torch.randn(2, 6, FEATURES, generator=generator, dtype=torch.float64)
    a = torch.randn(attributions, 6, FEATURES, generator=generator, dtype=torch.float64)
    a[a.abs() < 0.2] = 0
    return linear_model(w), w, x, b, a


def sorted_by(key: Tensor, values: Tensor) -> Tensor:
    """Values of the features from the highest key to the lowest."""
    return values.expand_as(key).gather(-1, key.argsort(dim=-1, descending=True, stable=True))


def step_sums(ordered: Tensor, steps: int, backwards: bool) -> Tensor:
    """Sums over the features that go in each step; as many go in step t of either curve."""
    ordered = ordered.flip(-1) if backwards else ordered
    cuts = [t * FEATURES // steps for t in range(steps + 1)]
    total = torch.nn.functional.pad(ordered.cumsum(-1), (1, 0))[..., cuts]
    return total.diff(dim=-1)


def from_changes(start: Tensor, changes: Tensor) -> Tensor:
    first = start.expand(changes.shape[:-1])[..., None]
    return torch.cat((first, first + changes.cumsum(-1)), dim=-1)


def weighted_area(lerf: Tensor, morf: Tensor) -> Tensor:
    points = lerf.shape[-1]
    weights = torch.tensor([((points - i) / points) ** 3 for i in range(points)], dtype=torch.float64)
    return (lerf - morf) @ weights / weights[1:].sum()


def closed_form(order: str, reading: str, w: Tensor, x: Tensor, b: Tensor, a: Tensor, steps: int) -> tuple[Tensor, ...]:
    """Removing a feature changes the logit by -w (x - b). LeRF and MoRF, as the model's scores and signed."""
    key = a.abs() if order == "magnitude" else a
    plain, signed = [], []
    for backwards in (True, False):
        change = -step_sums(sorted_by(key, w * (x - b)), steps, backwards)
        amount = step_sums(sorted_by(key, a), steps, backwards).sign()
        direction = step_sums(sorted_by(key, x - b), steps, backwards).sign()
        factor = {"pc": torch.ones_like(change), "signed": amount.abs() * direction}.get(reading, amount * direction)
        start = x @ w + 0.7
        plain.append(from_changes(start, change))
        signed.append(from_changes(start, factor * change))
    return (*plain, *signed)


def assert_near(found: Any, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("steps", [1, 6, 20])
@pytest.mark.parametrize("order", ["signed", "magnitude"])
def test_prediction_change(order: str, steps: int) -> None:
    model, w, x, b, a = random_problem(0)
    result = calls.prediction_change(model, x, a, target=1, baselines=b, order=order, steps=steps, output="logit")
    lerf, morf, _, _ = closed_form(order, "pc", w, x, b, a, steps)
    assert_near(result.lerf, lerf)
    assert_near(result.morf, morf)
    assert_near(result.value, weighted_area(lerf, morf))


@pytest.mark.parametrize("steps", [1, 10, 20])
@pytest.mark.parametrize("reading", READINGS)
def test_directed_prediction_change(reading: str, steps: int) -> None:
    """With one and with two features a step, sums of zero attributions are exactly 0."""
    model, w, x, b, a = random_problem(1)
    options = {"target": 1, "baselines": b, "steps": steps, "output": "logit"}
    result = calls.directed_prediction_change(model, x, a, order=reading, **options)
    order = "magnitude" if reading == "magnitude" else "signed"
    lerf, morf, directed_lerf, directed_morf = closed_form(order, reading, w, x, b, a, steps)
    assert_near(result.lerf, lerf)
    assert_near(result.morf, morf)
    assert_near(result.directed_lerf, directed_lerf)
    assert_near(result.directed_morf, directed_morf)
    assert_near(result.value, weighted_area(directed_lerf, directed_morf))


def test_every_step_of_the_gradient_lowers_the_directed_curve() -> None:
    """One feature a step: DPC_t of the gradient is -|w (x - b)|, of minus the gradient +|w (x - b)|."""
    model, w, x, b, _ = random_problem(2)
    gradients = torch.stack([w.expand_as(x), -w.expand_as(x)])
    options = {"target": 1, "baselines": b, "order": "magnitude", "output": "logit"}
    result = calls.directed_prediction_change(model, x, gradients, **options)
    effect = sorted_by(w.abs().expand_as(x), (w * (x - b)).abs())
    assert_near(result.directed_morf[0].diff(dim=-1), -effect)
    assert_near(result.directed_morf[1].diff(dim=-1), effect)
    assert_near(result.directed_lerf[0].diff(dim=-1), -effect.flip(-1))
    assert_near(result.value[0], -result.value[1])


@pytest.mark.parametrize(("reading", "sign"), [("magnitude", -1), ("signed", -1), ("literal", 1)])
def test_only_the_literal_reading_cannot_tell_an_attribution_from_its_opposite(reading: str, sign: int) -> None:
    """Input by input, for attributions without ties; the others turn the score's sign."""
    model, _, x, b, a = random_problem(3)
    one = a[0] + x / 100
    options = {"target": 1, "baselines": b, "order": reading, "output": "logit"}
    result = calls.directed_prediction_change(model, x, torch.stack([one, -one]), **options)
    assert_near(result.value[0], sign * result.value[1])
    assert result.value.abs().min() > 1e-3


def test_the_gradient_is_rated_best_and_its_opposite_worst() -> None:
    """On average over 50 models, among gradient, minus gradient, input times gradient and 100 random attributions."""
    generator = torch.Generator().manual_seed(4)
    totals = {reading: torch.zeros(103, dtype=torch.float64) for reading in ("magnitude", "signed")}
    metrics = {reading: DirectedPredictionChange(reading) for reading in totals}
    for _ in range(50):
        w = torch.randn(FEATURES, generator=generator, dtype=torch.float64)
        x = torch.randn(4, FEATURES, generator=generator, dtype=torch.float64)
        noise_maps = torch.randn(100, 4, FEATURES, generator=generator, dtype=torch.float64)
        attributions = torch.cat([torch.stack([w.expand_as(x), -w.expand_as(x), x * w]), noise_maps])
        found = calls.evaluate(linear_model(w), x, attributions, metrics, target=1, output="logit")
        for reading, result in found.items():
            totals[reading] += result.value.mean(1) / 50
    for mean in totals.values():
        assert mean.argmax() == 0
        assert mean.argmin() == 1


def perturbations(x: Tensor, samples: int, seed: int = 0, sigma: float = 0.2) -> Tensor:
    """What Infidelity subtracts from each input: x minus its perturbed copies."""
    keys = noise.input_keys(x, seed, "gaussian")
    moved = x[:, None] + noise.normals(keys, 0, samples, x.shape[1], x.dtype) * sigma
    return x[:, None] - moved


def test_infidelity_is_the_mean_square_of_the_error_in_the_weights() -> None:
    model, w, x, _, a = random_problem(6)
    result = calls.infidelity(model, x, a, target=1, samples=100, normalize=False, output="logit")
    wanted = torch.einsum("nsd,knd->kns", perturbations(x, 100), a - w).square().mean(-1)
    assert_near(result.value, wanted)


def test_normalised_infidelity_follows_from_the_moments() -> None:
    model, w, x, _, a = random_problem(7)
    result = calls.infidelity(model, x, a, target=1, samples=100, output="logit")
    moved = perturbations(x, 100)
    predicted, actual = torch.einsum("nsd,knd->kns", moved, a), moved @ w
    pp, ps, ss = predicted.square().mean(-1), (predicted * actual).mean(-1), actual.square().mean(-1)
    beta = (ps / pp).clamp(min=0)
    assert_near(result.value, (ss - beta * ps) * 100 / 99)
    assert_near(result.beta, beta)
    assert (beta == 0).any()


@pytest.mark.parametrize("options", [{}, {"subset": 3}, {"perturbation": "baseline", "baselines": 0.3}], ids=str)
@pytest.mark.parametrize("normalize", [True, False])
def test_the_gradient_has_no_infidelity(normalize: bool, options: dict[str, Any]) -> None:
    model, w, x, _, _ = random_problem(8)
    options = {"target": 1, "samples": 50, "normalize": normalize, "output": "logit"} | options
    assert calls.infidelity(model, x, w.expand_as(x), effect="dot", **options).value.max() < 1e-20


@pytest.mark.parametrize("subset", [None, 3])
@pytest.mark.parametrize("normalize", [True, False])
def test_contributions_have_no_infidelity_where_features_are_replaced(normalize: bool, subset: int | None) -> None:
    """Shapley values, and IG times x - b, of a linear model are w (x - b): what they say they sum to happens."""
    model, w, x, b, _ = random_problem(8)
    options = {"target": 1, "samples": 50, "normalize": normalize, "output": "logit", "subset": subset}
    options |= {"perturbation": "baseline", "baselines": b}
    contributions = torch.stack([w * (x - b), w.expand_as(x)])
    found = calls.infidelity(model, x, contributions, **options)
    assert found.value[0].max() < 1e-20
    assert found.value[1].min() > 1e-3
    slopes = calls.infidelity(model, x, contributions, effect="dot", **options)
    assert slopes.value[1].max() < 1e-20
    assert slopes.value[0].min() > 1e-3


def test_the_gradient_of_the_other_class_is_its_opposite() -> None:
    model, w, x, _, _ = random_problem(9)
    options = {"target": 0, "samples": 50, "normalize": False, "output": "logit"}
    assert calls.infidelity(model, x, -w.expand_as(x), **options).value.max() < 1e-20


def test_infidelity_approaches_its_expectation() -> None:
    """Plain: sigma^2 |a - w|^2; normalised: sigma^2 of what is left of w after projection on a."""
    model, w, x, _, a = random_problem(10)
    options = {"target": 1, "samples": 4000, "sigma": 0.3, "output": "logit"}
    plain = calls.infidelity(model, x, a, normalize=False, **options)
    scaled = calls.infidelity(model, x, a, normalize=True, **options)
    expected = 0.09 * (a - w).square().sum(-1)
    rest = 0.09 * (w.square().sum() - (a @ w).clamp(min=0).square() / a.square().sum(-1))
    assert ((plain.value - expected).abs() < 4 * plain.standard_error).all()
    assert ((scaled.value - rest).abs() < 4 * scaled.standard_error).all()
