"""Attributions of images as pictures: small PNGs with a diverging colour map, ready to stand in a page."""

import base64
from io import BytesIO
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from PIL import Image

LARGEST = 112  # pixels on a side: sharp enough beside its neighbours, small enough for a page with a hundred of them
COLOURS = "RdBu"  # red against, blue for; told apart by the colour-blind
_LEVELS = 63  # odd, so that zero has a colour of its own; few, so that the files stay small

Pixels = npt.NDArray[np.floating[Any]]


def per_pixel(attribution: Pixels) -> Pixels:
    """One value per pixel, as the metrics see it: channels summed."""
    return attribution.sum(0) if attribution.ndim == 3 else attribution


def grey(image: Pixels) -> Pixels:
    """An image of channels, each between 0 and 1, as brightness between 0 and 1."""
    weights = np.array([0.299, 0.587, 0.114]) if len(image) == 3 else np.full(len(image), 1 / len(image))
    return np.tensordot(weights, image.astype(np.float64), 1).clip(0, 1)


def scaled(values: Pixels) -> Pixels:
    """Values between -1 and 1: divided by the 99th percentile of their sizes, so that single pixels do not rule."""
    sizes = np.abs(values)
    largest = float(np.quantile(sizes, 0.99)) or float(sizes.max())
    return (values / largest).clip(-1, 1) if largest > 0 else np.zeros_like(values)


def heat_map(attribution: Pixels) -> str:
    """A data URI of the attribution: blue raises the score, red lowers it, white says nothing."""
    values = scaled(smaller(per_pixel(attribution)))
    levels = np.rint((values + 1) / 2 * (_LEVELS - 1)).astype(np.uint8)
    picture = Image.fromarray(levels).convert("P")
    colours = mpl.colormaps[COLOURS](np.linspace(0, 1, _LEVELS))[:, :3]
    picture.putpalette(np.rint(colours * 255).astype(np.uint8).tobytes())
    return _data_uri(picture)


def grey_image(image: Pixels) -> str:
    """A data URI of the image in grey."""
    return _data_uri(Image.fromarray(np.rint(smaller(grey(image)) * 255).astype(np.uint8)))


def smaller(values: Pixels) -> Pixels:
    """The mean over blocks, so that no side is longer than ``LARGEST``; a rest at the lower and right edge is cut."""
    block = -(-max(values.shape) // LARGEST)
    height, width = (side // block for side in values.shape)
    kept = values[: height * block, : width * block].astype(np.float64)
    means: Pixels = kept.reshape(height, block, width, block).mean((1, 3))
    return means


def _data_uri(picture: Image.Image) -> str:
    file = BytesIO()
    picture.save(file, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
