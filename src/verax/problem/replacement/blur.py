"""Blur: a removed pixel becomes what a Gaussian filter makes of its surroundings."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from verax.core.arguments import checked_positive, settle
from verax.core.shapes import Bool, Float, Shaped
from verax.problem.replacement.base import Replacement, Rows

_REACH = 4.0  # standard deviations after which the filter ends, as in scipy


@dataclass(frozen=True)
class Blur(Replacement):
    """A removed pixel becomes that of the blurred image, so that no edges are left where something is missing.

    Images are mirrored at their borders, as ``scipy.ndimage.gaussian_filter`` does by default.

    Args:
        sigma: Standard deviation of the Gaussian filter in pixels.

    Example: a blurred constant is that constant.
        >>> image = torch.full((1, 1, 5, 5), 2.0)
        >>> bool(torch.allclose(Blur(1.0).fill(Rows(image, torch.zeros_like(image))), image))
        True
    """

    sigma: float

    def __post_init__(self) -> None:
        settle(self, sigma=checked_positive("sigma", self.sigma))

    def fill(self, rows: Rows, removed: Bool[Tensor, "b *#shape"] | None = None) -> Shaped[Tensor, "b *shape"]:
        """The blurred images."""
        if rows.values.ndim != 4 or not rows.values.is_floating_point():
            shape = tuple(rows.values.shape)
            raise ValueError(f"replacement: Blur is for images (N, channels, height, width), got shape {shape}.")
        kernel = self._kernel(rows.values)
        along = _filtered(rows.values.flatten(0, 1)[:, None], kernel[None, None, :, None])
        return _filtered(along, kernel[None, None, None, :])[:, 0].reshape(rows.values.shape)

    def _kernel(self, like: Tensor) -> Float[Tensor, " taps"]:
        reach = int(_REACH * self.sigma + 0.5)
        place = torch.arange(-reach, reach + 1, dtype=torch.float64)
        weights = (-(place**2) / (2 * self.sigma**2)).exp()
        return (weights / weights.sum()).to(like)


def _filtered(images: Float[Tensor, "n 1 h w"], kernel: Float[Tensor, "1 1 a b"]) -> Float[Tensor, "n 1 h w"]:
    """Filter along one axis; images are mirrored at their borders as often as the filter reaches."""
    for axis, taps in ((2, kernel.shape[2]), (3, kernel.shape[3])):
        size, reach = images.shape[axis], taps // 2
        place = torch.arange(-reach, size + reach, device=images.device) % (2 * size)
        images = images.index_select(axis, torch.where(place < size, place, 2 * size - 1 - place))
    return functional.conv2d(images, kernel)
