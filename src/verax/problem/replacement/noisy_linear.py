"""Noisy linear imputation (ROAD): removed pixels become weighted means of their neighbours, so that no mask shows."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from verax.core import noise
from verax.core.arguments import checked_not_negative, checked_seed, settle
from verax.core.shapes import Bool, Float, Shaped
from verax.problem.replacement.base import Replacement, Rows

_SMALL = 1e-7  # relative residual at which an image counts as solved
_MOST = 4000  # iterations; images of 224 x 224 need a few hundred


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
        """The solutions, one for each row."""
        values = rows.values
        if values.ndim != 4 or not values.is_floating_point():
            shape = tuple(values.shape)
            raise ValueError(
                f"replacement: NoisyLinear is for images (N, channels, height, width), found shape {shape}."
            )
        gone = torch.ones_like(values, dtype=torch.bool) if removed is None else removed.expand(values.shape)
        found = _smooth(values.double().flatten(0, 1)[:, None], gone.flatten(0, 1)[:, None]).reshape(values.shape)
        empty = gone.flatten(2).all(2)[..., None, None]
        found = torch.where(empty, values.double().mean((2, 3), keepdim=True), found)
        if self.noise and rows.keys is not None:
            drawn = noise.normals(rows.keys + self.seed, 0, 1, values[0].numel(), torch.float64)
            found = found + self.noise * drawn.reshape(values.shape)
        return torch.where(gone, found.to(values), values)


def _smooth(images: Float[Tensor, "n 1 h w"], gone: Bool[Tensor, "n 1 h w"]) -> Float[Tensor, "n 1 h w"]:
    """Solve for the removed pixels by conjugate gradients, all images at once.

    The matrix is that of a graph's Laplacian on the removed pixels: symmetric, and positive definite where some pixel
    is known.
    """
    mask = gone.double()
    known = images * (1 - mask)
    weight = _stencil(torch.ones_like(images[:1]))  # of the neighbours that an image has

    def applied(u: Tensor) -> Tensor:
        return mask * (weight * u - _stencil(u))

    right = mask * _stencil(known)
    solution = mask * _surroundings(known, 1 - mask)
    residual = right - applied(solution)
    size = right.flatten(1).norm(dim=1).clamp(min=torch.finfo(torch.float64).tiny)
    scaled = residual / weight
    direction, product = scaled, (residual * scaled).flatten(1).sum(1)
    for _ in range(_MOST):
        if bool((residual.flatten(1).norm(dim=1) <= _SMALL * size).all()):
            break
        moved = applied(direction)
        step = product / (direction * moved).flatten(1).sum(1).clamp(min=torch.finfo(torch.float64).tiny)
        solution = solution + step[:, None, None, None] * direction
        residual = residual - step[:, None, None, None] * moved
        scaled = residual / weight
        before, product = product, (residual * scaled).flatten(1).sum(1)
        ratio = product / before.clamp(min=torch.finfo(torch.float64).tiny)
        direction = scaled + ratio[:, None, None, None] * direction
    return known + solution


def _stencil(images: Float[Tensor, "n 1 h w"]) -> Float[Tensor, "n 1 h w"]:
    """Weighted sums of the eight neighbours; there are none beyond the borders."""
    near, far = 1 / 6, 1 / 12
    kernel = images.new_tensor([[far, near, far], [near, 0, near], [far, near, far]])
    return functional.conv2d(images, kernel[None, None], padding=1)


def _surroundings(known: Float[Tensor, "n 1 h w"], there: Float[Tensor, "n 1 h w"]) -> Float[Tensor, "n 1 h w"]:
    """A first guess: means of what is known in the smallest square of a pyramid that holds something."""
    if min(known.shape[2:]) < 2:
        total, count = known.sum((2, 3), keepdim=True), there.sum((2, 3), keepdim=True)
        return (total / count.clamp(min=1)).expand_as(known)
    pooled = [functional.avg_pool2d(one, 2, ceil_mode=True, count_include_pad=False) for one in (known, there)]
    coarse_sum, coarse_count = pooled
    coarse = coarse_sum / coarse_count.clamp(min=1e-12)
    have = (coarse_count > 0).double()
    coarse = torch.where(have > 0, coarse, _surroundings(coarse * have, have))
    return functional.interpolate(coarse, size=known.shape[2:], mode="bilinear", align_corners=False)
