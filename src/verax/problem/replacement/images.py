"""Replacements of pixels by their surroundings: blurred, or weighted means of their neighbours (ROAD)."""

import functools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from verax.core import noise
from verax.core.arguments import checked_not_negative, checked_positive, checked_seed, settle
from verax.core.blocks import pieces
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
        _check_images(self, rows.values)
        reach = int(_REACH * self.sigma + 0.5)
        place = torch.arange(-reach, reach + 1, dtype=torch.float64)
        weights = (-(place**2) / (2 * self.sigma**2)).exp()
        kernel = (weights / weights.sum()).to(rows.values)
        along = _filtered(rows.values.flatten(0, 1)[:, None], kernel[None, None, :, None])
        return _filtered(along, kernel[None, None, None, :])[:, 0].reshape(rows.values.shape)


def _check_images(replacement: Replacement, values: Tensor) -> None:
    if values.ndim != 4 or not values.is_floating_point():
        name, shape = type(replacement).__name__, tuple(values.shape)
        raise ValueError(f"replacement: {name} is for images (N, channels, height, width), got shape {shape}.")


def _filtered(images: Float[Tensor, "n 1 h w"], kernel: Float[Tensor, "1 1 a b"]) -> Float[Tensor, "n 1 h w"]:
    """Filter along one axis; images are mirrored at their borders as often as the filter reaches."""
    for axis, taps in ((2, kernel.shape[2]), (3, kernel.shape[3])):
        size, reach = images.shape[axis], taps // 2
        place = torch.arange(-reach, size + reach, device=images.device) % (2 * size)
        images = images.index_select(axis, torch.where(place < size, place, 2 * size - 1 - place))
    return functional.conv2d(images, kernel)


_NEAR, _FAR = 1 / 6, 1 / 12  # weights of neighbours beside and across
_TOGETHER = 1 << 24  # bytes of a banded system, up to which that of further images is joined to it
_BANDED = 1 << 27  # bytes of the banded system of one image, up to which it is factorised
_SMALL = 1e-7  # relative residual at which an image counts as solved
_MOST = 4000  # iterations; images of 224 x 224 need a few hundred


def imputed(images: Float[Tensor, "n c h w"], gone: Bool[Tensor, "n #c h w"]) -> Float[Tensor, "n c h w"]:
    """The images with their removed pixels solved for; a channel of which nothing is left stays as it is."""
    filled = images.clone()
    if gone.shape[1] == 1 or bool((gone == gone[:, :1]).all()):
        channels, masks = filled, gone[:, 0]
    else:  # each channel is an image of its own
        channels, masks = filled.view(-1, 1, *filled.shape[2:]), gone.flatten(0, 1)
    masks = masks & ~masks.flatten(1).all(1)[:, None, None]
    height, width = masks.shape[1:]
    bytes_of_image = 8 * height * width * (width + 2)
    if images.device.type != "cpu" or bytes_of_image > _BANDED:
        channels.copy_(_by_conjugate_gradients(channels, masks))
        return filled
    for part in pieces(len(masks), max(1, _TOGETHER // bytes_of_image)):
        _factorise(channels[part], masks[part])
    return filled


def _factorise(images: Float[Tensor, "n c h w"], gone: Bool[Tensor, "n h w"]) -> None:
    """Solve one banded system for several images, in place; pixels in the order of reading are at most a row apart."""
    from scipy.linalg.lapack import dpbsv  # noqa: PLC0415  # to keep ``import verax`` light

    image, y, x = gone.nonzero(as_tuple=True)
    if not len(image):
        return
    row = gone.shape[2] + 2  # with a border of known pixels, neighbours are at the same distances everywhere
    pixels = ((image * (gone.shape[1] + 2) + y + 1) * row + x + 1).numpy()
    place = np.full(len(gone) * (gone.shape[1] + 2) * row, -1)
    place[pixels] = np.arange(len(pixels))
    pairs = []
    for distance, weight in ((1, _NEAR), (row - 1, _FAR), (row, _NEAR), (row + 1, _FAR)):
        other = place[pixels + distance]
        first = np.flatnonzero(other >= 0)
        pairs.append((first, other[first] - first, weight))
    band = np.zeros((len(pixels), 1 + max(int(apart.max(initial=0)) for _, apart, _ in pairs)))
    for first, apart, weight in pairs:
        band[first, apart] = -weight
    band[:, 0] = _stencil(torch.ones_like(images[:1, :1]))[0, 0, y, x].numpy()
    images[image, :, y, x] = 0.0
    right = _stencil(images)[image, :, y, x].numpy()
    with _blas().limit(limits=1, user_api="blas"):  # threads wait for each other longer than such products take
        _, solved, _ = dpbsv(band.T, right, lower=1, overwrite_ab=1)
    images[image, :, y, x] = torch.from_numpy(solved)


@functools.cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415  # to keep ``import verax`` light

    return ThreadpoolController()


def _by_conjugate_gradients(images: Float[Tensor, "n c h w"], gone: Bool[Tensor, "n h w"]) -> Float[Tensor, "n c h w"]:
    """Solve for all images and channels side by side, until the last of them is solved."""
    mask = gone[:, None].to(images)
    known = images * (1 - mask)
    weight = _stencil(torch.ones_like(images[:1, :1]))  # of the neighbours that an image has
    least = torch.finfo(images.dtype).tiny

    def applied(u: Tensor) -> Tensor:
        return mask * (weight * u - _stencil(u))

    def dot(u: Tensor, v: Tensor) -> Tensor:
        return (u * v).sum((2, 3), keepdim=True)

    right = mask * _stencil(known)
    solution = mask * _surroundings(known, (1 - mask).expand_as(images))
    residual = right - applied(solution)
    size = dot(right, right).clamp(min=least)
    direction = residual / weight
    product = dot(residual, direction)
    for _ in range(_MOST):
        if bool((dot(residual, residual) <= _SMALL**2 * size).all()):
            break
        moved = applied(direction)
        step = product / dot(direction, moved).clamp(min=least)
        solution = solution + step * direction
        residual = residual - step * moved
        scaled = residual / weight
        before, product = product, dot(residual, scaled)
        direction = scaled + product / before.clamp(min=least) * direction
    return known + solution


def _stencil(images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
    """Weighted sums of the eight neighbours; there are none beyond the borders.

    The weights are those of ``(1, 2, 1)`` along rows and columns but for the middle, over 12: two passes of few sums.
    """
    smoothed = _one_two_one(_one_two_one(images, 2), 3)
    return smoothed.sub_(images, alpha=4).mul_(_FAR)


def _one_two_one(images: Float[Tensor, "n c h w"], axis: int) -> Float[Tensor, "n c h w"]:
    total, size = 2 * images, images.shape[axis]
    total.narrow(axis, 1, size - 1).add_(images.narrow(axis, 0, size - 1))
    total.narrow(axis, 0, size - 1).add_(images.narrow(axis, 1, size - 1))
    return total


def _surroundings(known: Float[Tensor, "n c h w"], present: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
    """A first guess: means of what is known in the smallest square of a pyramid that holds something."""
    if min(known.shape[2:]) < 2:
        total, count = known.sum((2, 3), keepdim=True), present.sum((2, 3), keepdim=True)
        return (total / count.clamp(min=1)).expand_as(known)
    pooled = [functional.avg_pool2d(plane, 2, ceil_mode=True, count_include_pad=False) for plane in (known, present)]
    coarse_sum, coarse_count = pooled
    coarse = coarse_sum / coarse_count.clamp(min=1e-12)
    have = (coarse_count > 0).to(known)
    coarse = torch.where(have > 0, coarse, _surroundings(coarse * have, have))
    return functional.interpolate(coarse, size=known.shape[2:], mode="bilinear", align_corners=False)


@dataclass(frozen=True)
class NoisyLinear(Replacement):
    """A removed pixel becomes the weighted mean of its eight neighbours, which may be removed themselves, and noise.

    ``u_i = sum_j w_ij u_j / sum_j w_ij`` for every removed pixel, with weights 1/6 beside and 1/12 across, known pixels
    as they are; a sparse system of equations for each image and set, solved for all rows of a batch at once. The noise
    keeps a model from seeing where it is too smooth. Where no pixel is left, all become their mean.

    Source: Rong, Leemann, Borisov, Kasneci, Kasneci: A consistent and efficient evaluation strategy for attribution
    methods, ICML 2022.

    Args:
        noise: Standard deviation of the noise, drawn once for each input.
        seed: Same seed, same noise.

    Example: in a slope, the middle is half-way.
        >>> image = torch.arange(3.0).expand(1, 1, 3, 3)
        >>> gone = torch.zeros(1, 1, 3, 3, dtype=torch.bool)
        >>> gone[..., 1, 1] = True
        >>> NoisyLinear(noise=0.0).fill(Rows(image + 0 * image, image), gone)[0, 0, 1, 1]
        tensor(1.)
    """

    noise: float = 0.01
    seed: int = 0
    setwise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settle(self, noise=checked_not_negative("noise", self.noise), seed=checked_seed(self.seed))

    def fill(self, rows: Rows, removed: Bool[Tensor, "b *#shape"] | None = None) -> Shaped[Tensor, "b *shape"]:
        values = rows.values
        _check_images(self, values)
        gone = torch.ones_like(values, dtype=torch.bool) if removed is None else removed
        filled = imputed(values.double(), gone)
        empty = gone.flatten(2).all(2)[..., None, None]
        if bool(empty.any()):
            filled = torch.where(empty, values.double().mean((2, 3), keepdim=True), filled)
        if self.noise and rows.keys is not None:
            drawn = noise.normals(rows.keys + self.seed, 0, 1, values[0].numel(), torch.float64)
            filled = filled + self.noise * gone * drawn.reshape(values.shape)
        return filled.to(values)
