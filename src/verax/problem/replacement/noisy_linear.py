"""Noisy linear imputation (ROAD): removed pixels become weighted means of their neighbours, so that no mask shows."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from verax.core import noise
from verax.core.arguments import checked_not_negative, checked_seed, settle
from verax.core.shapes import Bool, Shaped
from verax.problem.replacement.base import Replacement, Rows
from verax.problem.replacement.linear_imputation import imputed


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
            raise ValueError(f"replacement: NoisyLinear is for images (N, channels, height, width), got shape {shape}.")
        gone = torch.ones_like(values, dtype=torch.bool) if removed is None else removed
        found = imputed(values.double(), gone)
        empty = gone.flatten(2).all(2)[..., None, None]
        if bool(empty.any()):
            found = torch.where(empty, values.double().mean((2, 3), keepdim=True), found)
        if self.noise and rows.keys is not None:
            drawn = noise.normals(rows.keys + self.seed, 0, 1, values[0].numel(), torch.float64)
            found = found + self.noise * gone * drawn.reshape(values.shape)
        return found.to(values)
