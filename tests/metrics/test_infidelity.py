"""Infidelity: its draws, its standard error, what it perturbs and what it costs."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import reference
import verax
from verax.core import noise
from verax.metrics import Infidelity
from verax.perturbation import sampled


class Spy:
    """A model that remembers the rows it was given."""

    def __init__(self) -> None:
        self.batches: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.batches.append(x.clone())
        return torch.tanh(x.flatten(1)).cumsum(1).sum(1)

    def perturbed(self, inputs: Tensor) -> Tensor:
        """The rows after the unperturbed ones, ``(inputs, draws, ...)``."""
        return torch.cat(self.batches)[len(inputs) :].reshape(len(inputs), -1, *inputs.shape[1:])


def spied(inputs: Tensor, **options: Any) -> Tensor:
    """The perturbed rows that a call shows to the model."""
    spy = Spy()
    scorer = verax.Scorer(spy, returns="logits")
    verax.infidelity(scorer, inputs, torch.ones_like(inputs), target=1, output="logit", **options)
    return spy.perturbed(inputs)


def network(features: int = 6) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(features, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("options", [{}, {"subset": 2}, {"perturbation": "baseline", "baselines": 0.5}], ids=str)
def test_value_equals_the_reference_on_the_same_draws(normalize: bool, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    weights = reference.TwoLayers.random(rng, 5)
    x, attributions = rng.normal(size=(3, 5)), rng.normal(size=(2, 3, 5))

    def model(rows: Any) -> Any:
        return np.stack([weights.probabilities(row) for row in rows])

    seen: list[Any] = []
    scorer = verax.Scorer(lambda rows: (seen.append(rows.copy()), model(rows))[1], returns="probabilities")
    result = verax.infidelity(scorer, x, attributions, target=2, samples=20, normalize=normalize, **options)
    draws = np.concatenate(seen)[3:].reshape(3, 20, 5)
    for k in range(2):
        for i in range(3):
            wanted = reference.infidelity(weights.score(2), x[i], draws[i], attributions[k, i], normalize)
            assert result.value[k, i] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("normalize", [True, False])
def test_standard_error_is_calibrated(normalize: bool) -> None:
    """Over 200 seeds, errors in units of the standard error spread like a standard normal."""
    model, x, a = network(), normal(6, 6), normal(6, 6, seed=2)
    options = {"target": 0, "normalize": normalize}
    truth = verax.infidelity(model, x, a, samples=60_000, seed=-1, **options).value
    runs = [verax.infidelity(model, x, a, samples=256, seed=seed, **options) for seed in range(200)]
    scores = torch.stack([(run.value - truth) / run.standard_error for run in runs])
    assert 0.8 < scores.std() < 1.25
    assert scores.mean().abs() < 0.25
    of_mean = torch.tensor([(run.value.mean() - truth.mean()) / run.mean_standard_error for run in runs])
    assert 0.8 < of_mean.std() < 1.25


def test_standard_error_by_hand() -> None:
    """Of the squared errors of the draws themselves; of the mean over inputs, by independence."""
    model, x, a = network(), normal(4, 6), normal(4, 6, seed=2)
    result = verax.infidelity(model, x, a, target=1, samples=50, normalize=False, output="logit")
    moved = x[:, None] + 0.2 * noise.normals(noise.input_keys(x, 0, "gaussian"), 0, 50, 6, torch.float64)
    with torch.no_grad():
        actual = model(x)[:, None, 1] - model(moved)[..., 1]
    errors = (((x[:, None] - moved) * a[:, None]).sum(-1) - actual).square()
    torch.testing.assert_close(result.value, errors.mean(1))
    torch.testing.assert_close(result.standard_error, errors.std(1) / 50**0.5)
    wanted = float(result.standard_error.square().sum().sqrt() / 4)
    assert result.mean_standard_error == pytest.approx(wanted)


def test_one_draw_has_no_standard_error() -> None:
    result = verax.infidelity(network(), normal(2, 6), normal(2, 6), samples=1)
    assert torch.isfinite(result.value).all()
    assert torch.isnan(result.standard_error).all()


def test_moments_give_both_values() -> None:
    model, x, a = network(), normal(5, 6), normal(2, 5, 6, seed=2)
    plain = verax.infidelity(model, x, a, samples=40, normalize=False)
    scaled = verax.infidelity(model, x, a, samples=40)
    pp, ps, ss = plain.moments.pp, plain.moments.ps, plain.moments.ss
    torch.testing.assert_close(plain.value, (pp - 2 * ps + ss) / 40)
    torch.testing.assert_close(scaled.value, (ss - ps.square() / pp) / 40)
    torch.testing.assert_close(scaled.beta, ps / pp)
    for moment in ("pp", "ps", "ss"):
        assert torch.equal(getattr(plain.moments, moment), getattr(scaled.moments, moment))


def test_normalising_makes_the_scale_of_an_attribution_irrelevant() -> None:
    model, x, a = network(), normal(5, 6), normal(5, 6, seed=2)
    result = verax.infidelity(model, x, torch.stack([a, -3 * a, 1e-6 * a]), samples=40)
    torch.testing.assert_close(result.value[1], result.value[0])
    torch.testing.assert_close(result.value[2], result.value[0])


def test_zero_attributions_score_the_mean_square_of_the_changes() -> None:
    model, x = network(), normal(5, 6)
    for normalize in (True, False):
        result = verax.infidelity(model, x, torch.zeros_like(x), samples=40, normalize=normalize)
        torch.testing.assert_close(result.value, result.moments.ss[0] / 40)


@pytest.mark.parametrize("size", [1, 3, 6])
def test_a_subset_moves_exactly_its_features(size: int) -> None:
    x = normal(4, 6)
    moved = spied(x, subset=size, samples=200) != x[:, None]
    assert (moved.sum(-1) == size).all()
    assert moved.any(1).all()  # each feature has its turn


def test_a_subset_of_pixels_moves_all_their_channels() -> None:
    x = normal(3, 2, 3, 3)
    moved = spied(x, subset=4, samples=100) != x[:, None]
    assert torch.equal(moved[:, :, 0], moved[:, :, 1])
    assert (moved[:, :, 0].flatten(2).sum(-1) == 4).all()


def test_a_subset_of_groups_moves_whole_groups() -> None:
    x = normal(3, 6)
    groups = torch.tensor([4, 4, 4, 1, 1, 9])
    moved = spied(x, subset=2, samples=100, features=groups) != x[:, None]
    assert torch.equal(moved[..., [0, 0, 3]], moved[..., [1, 2, 4]])
    assert (moved[..., [0, 3, 5]].sum(-1) == 2).all()


def test_every_feature_moves_by_default() -> None:
    x = normal(4, 6)
    assert (spied(x, samples=50) != x[:, None]).all()


def test_noise_has_the_width_that_was_asked_for() -> None:
    x = normal(1, 6)
    drawn = (spied(x, samples=20_000, sigma=0.5) - x[:, None]).flatten()
    assert drawn.std().item() == pytest.approx(0.5, rel=0.01)
    assert abs(drawn.mean().item()) < 4 * 0.5 / len(drawn) ** 0.5


@pytest.mark.parametrize("subset", [None, 2])
def test_replacement_takes_the_values_of_the_baseline(subset: int | None) -> None:
    x, b = normal(4, 6), normal(4, 6, seed=2)
    rows = spied(x, perturbation="baseline", baselines=b, subset=subset, samples=300)
    replaced = rows == b[:, None]
    assert (replaced | (rows == x[:, None])).all()
    sizes = replaced.sum(-1)
    if subset is None:  # every size occurs
        assert all((sizes == size).any() for size in range(7))
    else:
        assert (sizes == subset).all()


def test_baselines_do_not_matter_to_noise() -> None:
    model, x, a = network(), normal(4, 6), normal(4, 6, seed=2)
    plain = verax.infidelity(model, x, a, samples=20)
    assert torch.equal(verax.infidelity(model, x, a, samples=20, baselines=3.0).value, plain.value)


def test_attributions_share_the_draws() -> None:
    model, x = network(), normal(5, 6)
    one = verax.infidelity(model, x, normal(5, 6), samples=30)
    many = verax.infidelity(model, x, normal(7, 5, 6), samples=30)
    assert one.rows == many.rows == 5 + 5 * 30


def test_plain_and_normalised_share_the_draws() -> None:
    metrics = [Infidelity(samples=30), Infidelity(samples=30, normalize=False)]
    found = verax.evaluate(network(), normal(5, 6), normal(5, 6), metrics)
    assert found.rows == 5 + 5 * 30


@pytest.mark.parametrize(
    "options", [{}, {"subset": 2}, {"perturbation": "baseline"}, {"perturbation": "baseline", "subset": 2}], ids=str
)
def test_more_samples_go_on_where_fewer_stopped(options: dict[str, Any]) -> None:
    x = normal(3, 6)
    assert torch.equal(spied(x, samples=64, **options), spied(x, samples=128, **options)[:, :64])


def test_draws_belong_to_the_content_of_an_input() -> None:
    x = normal(3, 6)
    rows = spied(torch.cat([x, x[:1]]), samples=10)
    assert torch.equal(rows[0], rows[3])
    assert not torch.equal(rows[0] - x[0], rows[1] - x[1])


@pytest.mark.parametrize("budget", [1, 3_000, 100_000])
@pytest.mark.parametrize(
    "options", [{}, {"subset": 2}, {"perturbation": "baseline"}, {"features": "each", "subset": 2}], ids=str
)
def test_blocks_of_any_size_agree(monkeypatch: pytest.MonkeyPatch, budget: int, options: dict[str, Any]) -> None:
    model, x, a = network(), normal(5, 6), normal(4, 5, 6, seed=2)
    if options.get("features") == "each":
        options = options | {"features": torch.arange(6) // torch.tensor([1, 2, 3, 1, 2])[:, None]}
    options = options | {"baselines": normal(5, 6, seed=3)}
    whole = verax.infidelity(model, x, a, samples=30, **options)
    monkeypatch.setattr(sampled, "block_bytes", lambda device: budget)
    parts = verax.infidelity(model, x, a, samples=30, **options)
    torch.testing.assert_close(parts.value, whole.value, rtol=0, atol=1e-12)
    torch.testing.assert_close(parts.standard_error, whole.standard_error, rtol=0, atol=1e-12)
    assert parts.rows == whole.rows
