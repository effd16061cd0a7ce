"""Attributions as pictures: right colours, right size, nothing breaks on flat ones."""

import base64
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from verax.report.example_charts import LARGEST, grey_image, heat_map


def pixels(uri: str) -> np.ndarray:
    head, data = uri.split(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(BytesIO(base64.b64decode(data))).convert("RGB")).astype(int)


def test_blue_speaks_for_and_red_against() -> None:
    attribution = np.zeros((3, 8, 8))
    attribution[:, :, :4], attribution[:, :, 4:] = 1.0, -1.0
    attribution[:, 0] = 0.0
    found = pixels(heat_map(attribution))
    assert found.shape == (8, 8, 3)
    assert found[5, 0, 2] > found[5, 0, 0] + 50
    assert found[5, 7, 0] > found[5, 7, 2] + 50
    assert found[0, 0].min() > 240


def test_channels_are_summed() -> None:
    attribution = np.zeros((2, 4, 4))
    attribution[0], attribution[1] = 1.0, -1.0
    assert pixels(heat_map(attribution)).min() > 240  # they cancel


def test_one_huge_pixel_does_not_hide_the_rest() -> None:
    attribution = np.full((1, 20, 20), 0.5)
    attribution[0, 0, 0] = 1e6
    found = pixels(heat_map(attribution))
    assert (found[10, 10] == found[0, 0]).all()


@pytest.mark.parametrize("value", [0.0, 1e-30])
def test_flat_attributions_are_drawn(value: float) -> None:
    assert pixels(heat_map(np.full((3, 5, 7), value))).shape == (5, 7, 3)


def test_large_images_shrink_to_means() -> None:
    image = np.zeros((3, 224, 448))
    image[:, :, :224] = 1.0
    found = pixels(grey_image(image))
    assert max(found.shape[:2]) == LARGEST
    assert found[:, 0].min() == 255
    assert found[:, -1].max() == 0


def test_grey_images_stay_grey() -> None:
    image = np.linspace(0, 1, 16).reshape(1, 4, 4)
    found = pixels(grey_image(image))
    assert found[0, 0, 0] == 0
    assert found[3, 3, 0] == 255
    assert (found[..., 0] == found[..., 2]).all()
