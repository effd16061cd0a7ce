"""Pixels as weighted means of their neighbours: the linear equations of ROAD, for all images of a batch at once.

``u_i = sum_j w_ij u_j / sum_j w_ij`` for every removed pixel i and its eight neighbours j, known pixels as they are.
The matrix is that of a graph's Laplacian on the removed pixels: symmetric, and positive definite where one is known.
On a CPU the equations of several images are one banded system, factorised exactly; on a GPU, or where an image is too
large for that, conjugate gradients solve them for all images side by side.
"""

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from verax.core.blocks import pieces
from verax.core.shapes import Bool, Float

_NEAR, _FAR = 1 / 6, 1 / 12  # weights of neighbours beside and across
_TOGETHER = 1 << 24  # bytes of a banded system, up to which that of further images is joined to it
_BANDED = 1 << 27  # bytes of the banded system of one image, up to which it is factorised
_SMALL = 1e-7  # relative residual at which an image counts as solved
_MOST = 4000  # iterations; images of 224 x 224 need a few hundred


def imputed(images: Float[Tensor, "n c h w"], gone: Bool[Tensor, "n #c h w"]) -> Float[Tensor, "n c h w"]:
    """The images with their removed pixels solved for; a channel of which nothing is left stays as it is."""
    found = images.clone()
    if gone.shape[1] == 1 or bool((gone == gone[:, :1]).all()):
        channels, masks = found, gone[:, 0]
    else:  # each channel is an image of its own
        channels, masks = found.view(-1, 1, *found.shape[2:]), gone.flatten(0, 1)
    masks = masks & ~masks.flatten(1).all(1)[:, None, None]
    height, width = masks.shape[1:]
    one = 8 * height * width * (width + 2)
    if images.device.type != "cpu" or one > _BANDED:
        channels.copy_(_by_conjugate_gradients(channels, masks))
        return found
    for part in pieces(len(masks), max(1, _TOGETHER // one)):
        _factorise(channels[part], masks[part])
    return found


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
    """Looks for the libraries that are loaded, once."""
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
    scaled = residual / weight
    direction, product = scaled, dot(residual, scaled)
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
    found = _one_two_one(_one_two_one(images, 2), 3)
    return found.sub_(images, alpha=4).mul_(_FAR)


def _one_two_one(images: Float[Tensor, "n c h w"], axis: int) -> Float[Tensor, "n c h w"]:
    found, size = 2 * images, images.shape[axis]
    found.narrow(axis, 1, size - 1).add_(images.narrow(axis, 0, size - 1))
    found.narrow(axis, 0, size - 1).add_(images.narrow(axis, 1, size - 1))
    return found


def _surroundings(known: Float[Tensor, "n c h w"], there: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
    """A first guess: means of what is known in the smallest square of a pyramid that holds something."""
    if min(known.shape[2:]) < 2:
        total, count = known.sum((2, 3), keepdim=True), there.sum((2, 3), keepdim=True)
        return (total / count.clamp(min=1)).expand_as(known)
    pooled = [functional.avg_pool2d(one, 2, ceil_mode=True, count_include_pad=False) for one in (known, there)]
    coarse_sum, coarse_count = pooled
    coarse = coarse_sum / coarse_count.clamp(min=1e-12)
    have = (coarse_count > 0).to(known)
    coarse = torch.where(have > 0, coarse, _surroundings(coarse * have, have))
    return functional.interpolate(coarse, size=known.shape[2:], mode="bilinear", align_corners=False)
