from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from captum.attr import NoiseTunnel, Saliency
from torch import Tensor, nn

import calls
from attribution.networks import convnet, mlp, rows
from calls import attribute
from verax.attribution import Gradient
from verax.attribution.gradient import SmoothGrad, VarGrad
from verax.core import noise
from verax.scoring.scorer import Scorer

NETWORKS = {"perceptron": (mlp, (6,)), "convolutional": (convnet, (3, 12, 12))}


def noisy_gradients(model: nn.Module, x: Tensor, target: int, sigma: float, samples: int, seed: int = 0) -> Tensor:
    """Gradients at the same draws, all of them at once: (samples, n, ...)."""
    drawn = noise.normals(noise.input_keys(x, seed, "smoothgrad"), 0, samples, x[0].numel(), x.dtype)
    moved = torch.stack([x + sigma * one.reshape(x.shape) for one in drawn.unbind(1)])
    return Gradient()(calls.problem(model, moved.flatten(0, 1), target=target)).reshape(moved.shape)


@pytest.mark.parametrize("samples", [5, 12])
@pytest.mark.parametrize("name", NETWORKS)
def test_equals_two_passes(name: str, samples: int) -> None:
    """Whatever the number of samples: more of them extend the same draws."""
    build, shape = NETWORKS[name]
    model, x = build().double(), rows(4, *shape, dtype=torch.float64)
    pair = [SmoothGrad(0.5, samples, seed=3), VarGrad(0.5, samples, seed=3)]
    mean, variance = attribute(pair, model, x, target=1).values()
    gradients = noisy_gradients(model, x, 1, 0.5, samples, seed=3).numpy()
    np.testing.assert_allclose(mean, gradients.mean(0), rtol=0, atol=1e-10)
    np.testing.assert_allclose(variance, gradients.var(0), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", NETWORKS)
def test_equals_captum_within_monte_carlo_error(name: str) -> None:
    build, shape = NETWORKS[name]
    model, x = build().double().eval(), rows(2, *shape, dtype=torch.float64)
    sigma, samples = 0.25, 2000
    mean, variance = attribute([SmoothGrad(sigma, samples), VarGrad(sigma, samples)], model, x, target=1).values()
    # kurtosis decides how well a variance is known, so it is estimated too
    gradients = noisy_gradients(model, x, 1, sigma, samples)
    fourth = (gradients - mean).pow(4).mean(0)
    errors = {"smoothgrad": variance, "vargrad": fourth - variance.square()}
    torch.manual_seed(0)
    for (kind, error), found in zip(errors.items(), (mean, variance), strict=True):
        peer = NoiseTunnel(Saliency(model)).attribute(
            x.clone().requires_grad_(), nt_type=kind, nt_samples=samples, stdevs=sigma, target=1, abs=False
        )
        standard = (found - peer) / (2 * error / samples).sqrt().clamp(min=1e-9)
        assert standard.abs().max() < 5
        assert standard.square().mean() < 2


def test_of_a_quadratic_form() -> None:
    """The gradient is Ax, so its variance is sigma**2 times the squared rows of A."""
    matrix = rows(4, 4, dtype=torch.float64)
    matrix = matrix + matrix.T

    class Quadratic(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return ((x @ matrix) * x).sum(1) / 2

    x, samples = rows(3, 4, dtype=torch.float64), 20_000
    pair = [SmoothGrad(0.5, samples), VarGrad(0.5, samples)]
    mean, variance = attribute(pair, Scorer(Quadratic(), returns="logits"), x, target=1).values()
    wanted = 0.25 * matrix.square().sum(0).expand(3, 4)
    torch.testing.assert_close(variance, wanted, rtol=0.05, atol=0)
    assert ((mean - x @ matrix).abs() < 5 * (wanted / samples).sqrt()).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("samples", [2, 50, 64])
def test_of_a_linear_model_with_large_weights(dtype: torch.dtype, samples: int) -> None:
    """E[g^2] - E[g]^2 in single precision is off by up to 0.008 here, and negative for four in ten."""
    model = nn.Linear(20, 3)
    model.weight.data = 1000 * rows(3, 20)
    x = rows(30, 20, dtype=dtype)
    mean, variance = attribute([SmoothGrad(1.0, samples), VarGrad(1.0, samples)], model.to(dtype), x).values()
    assert torch.equal(variance, torch.zeros(30, 20, dtype=dtype))
    assert torch.equal(mean, Gradient()(calls.problem(model, x)))


@pytest.mark.parametrize("scale", [1e-3, 1, 1e3])
def test_variance_is_never_negative(scale: float) -> None:
    model = mlp()
    model[-1].weight.data *= scale  # type: ignore[index]
    assert (VarGrad(0.01)(calls.problem(model, rows(200, 6))) >= 0).all()


def test_both_cost_as_much_as_one() -> None:
    x = rows(9, 6)
    found = attribute([VarGrad(), SmoothGrad()], mlp(), x)
    assert (found.rows, found.rows_backward) == (9 + 9 * 64, 9 * 64)


def test_working_memory_is_bounded() -> None:
    """Few noisy copies at a time, however many inputs and samples there are, and the same result."""
    model, x = convnet(size=8).double(), rows(3, 3, 8, 8, dtype=torch.float64)
    wanted = VarGrad(samples=50)(calls.problem(model, x))
    copies: list[int] = []

    def recorded(keys: Tensor, start: int, draws: int, size: int, dtype: torch.dtype) -> Tensor:
        copies.append(len(keys) * draws)
        return normals(keys, start, draws, size, dtype)

    normals = noise.normals
    with (
        mock.patch.object(noise, "normals", recorded),
        mock.patch("verax.attribution.gradient.block_bytes", return_value=1),
    ):
        found = VarGrad(samples=50)(calls.problem(model, x, batch_size=7))
    assert max(copies) == 7
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


def test_a_number_of_numpy_is_the_same_sigma() -> None:
    assert SmoothGrad(sigma=np.float64(0.1)).canonical == SmoothGrad(sigma=0.1).canonical


@pytest.mark.parametrize(
    "wrong", [{"sigma": 0.0}, {"sigma": -0.1}, {"sigma": float("nan")}, {"samples": 0}, {"seed": True}]
)
@pytest.mark.parametrize("method", [SmoothGrad, VarGrad])
def test_wrong_settings(method: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))}: "):
        method(**wrong)


def test_one_sample_has_no_variance() -> None:
    with pytest.raises(ValueError, match="samples: expected a whole number of at least 2"):
        VarGrad(samples=1)


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_small_variances_of_inputs_in_half_precision_are_not_zero(half: torch.dtype) -> None:
    """They are below the smallest number of float16; attributions come back in single precision."""
    model, x = nn.Sequential(mlp()[0], nn.Tanh()), rows(4, 6).to(half)
    wanted = VarGrad(1e-3)(calls.problem(model, x.float(), target=1))
    found = VarGrad(1e-3)(calls.problem(model, x, target=1))
    assert (wanted > 0).all()
    assert (wanted.half() == 0).any()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=0)
    of_a_model_in_half = VarGrad(0.1)(calls.problem(model.to(half), x, target=1))
    assert of_a_model_in_half.dtype == torch.float32
    assert (of_a_model_in_half > 0).all()
