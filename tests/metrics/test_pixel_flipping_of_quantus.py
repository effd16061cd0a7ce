"""Prediction Change against Quantus' Pixel-Flipping, which is its MoRF curve without the unperturbed point."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import calls

quantus = pytest.importorskip("quantus")


class Classifier(nn.Module):
    """Computes in float64 whatever it gets: Quantus hands on float32 rows, which hold our inputs exactly."""

    def __init__(self, elements: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.inner = nn.Parameter(torch.randn(elements, 8, generator=generator, dtype=torch.float64) / elements**0.5)
        self.outer = nn.Parameter(torch.randn(8, 3, generator=generator, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x.double().flatten(1) @ self.inner) @ self.outer


def problem(*shape: int) -> tuple[nn.Module, Any, Any, Any]:
    """Model, inputs, attributions without ties, classes."""
    rng = np.random.default_rng(len(shape))
    inputs = rng.normal(size=(5, *shape)).astype(np.float32).astype(np.float64)
    return Classifier(int(np.prod(shape))).eval(), inputs, rng.normal(size=inputs.shape), rng.integers(0, 3, 5)


def pixel_flipping(model: nn.Module, inputs: Any, attributions: Any, target: Any, softmax: bool = True) -> Any:
    metric = quantus.PixelFlipping(
        features_in_step=1, perturb_baseline=0.0, abs=False, normalise=False, disable_warnings=True
    )
    found = metric(
        model, inputs, target, attributions, channel_first=True, softmax=softmax, device="cpu", batch_size=len(inputs)
    )
    return np.array(found)


def assert_same_points(found: Any, wanted: Any) -> None:
    """All of ours but the unperturbed one."""
    np.testing.assert_allclose(found[:, 1:], wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("output", ["probability", "logit"])
@pytest.mark.parametrize("features", [5, 20, 70])
def test_tabular(features: int, output: str) -> None:
    model, x, a, target = problem(1, features)
    result = calls.prediction_change(model, x, a, target=target, steps=features, output=output)
    assert_same_points(result.morf, pixel_flipping(model, x, a, target, softmax=output == "probability"))
    assert_same_points(result.lerf, pixel_flipping(model, x, -a, target, softmax=output == "probability"))


def test_gray_images() -> None:
    model, x, a, target = problem(1, 4, 4)
    result = calls.prediction_change(model, x, a, target=target, steps=16)
    assert_same_points(result.morf, pixel_flipping(model, x, a, target))
    assert_same_points(result.lerf, pixel_flipping(model, x, -a, target))


def test_single_channels_of_colour_images() -> None:
    model, x, a, target = problem(3, 4, 4)
    result = calls.prediction_change(model, x, a, target=target, steps=48, features="element")
    assert_same_points(result.morf, pixel_flipping(model, x, a, target))
    assert_same_points(result.lerf, pixel_flipping(model, x, -a, target))


def test_pixels_of_colour_images() -> None:
    """Quantus flips the channels of a pixel one after another; a whole pixel is gone at every third of its points."""
    model, x, a, target = problem(3, 4, 4)
    pixels = a.sum(1, keepdims=True)
    result = calls.prediction_change(model, x, pixels, target=target, steps=16)
    assert_same_points(result.morf, pixel_flipping(model, x, pixels, target)[:, 2::3])
    assert_same_points(result.lerf, pixel_flipping(model, x, -pixels, target)[:, 2::3])


def test_magnitude_order() -> None:
    model, x, a, target = problem(1, 20)
    result = calls.prediction_change(model, x, a, target=target, order="magnitude")
    assert_same_points(result.morf, pixel_flipping(model, x, np.abs(a), target))
    assert_same_points(result.lerf, pixel_flipping(model, x, 9 - np.abs(a), target))
