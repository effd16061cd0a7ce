"""Sums over the elements of features, and their signs: a sum that is 0 but for rounding has none."""

from dataclasses import dataclass

import torch
from torch import Tensor

from verax.core.shapes import Bool, Float, Shaped
from verax.problem.features import FeatureMap

_ALIKE = 1 - 1e-12  # sums of numbers of one sign equal the sums of their sizes, but for the order of adding


@dataclass(frozen=True)
class FeatureSums:
    """A sum for each feature.

    Attributes:
        values: The sums.
        sizes: The same sums of numbers without their signs; None where each is of one number.
        rounded: Numbers, added up, whose last digit was rounded to give those that are summed.
        precision: Relative spacing of their format; one for all, or one for each attribution.
    """

    values: Float[Tensor, "*k b features"]
    sizes: Float[Tensor, "*k b features"] | None
    rounded: Float[Tensor, "*k b features"] | None
    precision: float | Float[Tensor, "k 1 1"]

    @property
    def size(self) -> Float[Tensor, "*k b features"]:
        """The sums of numbers without their signs."""
        return self.values.abs() if self.sizes is None else self.sizes

    @property
    def rounding(self) -> Float[Tensor, "*k b features"]:
        """How far the rounding of its numbers may have moved each sum."""
        return (self.size if self.rounded is None else self.rounded).double() * self.precision

    def signs(self) -> Shaped[Tensor, "*k b features"]:
        """Sign of each sum."""
        return self.values.sign() if self.sizes is None else signs(self.values, self.sizes, self.rounding)


def attribution_sums(
    features: FeatureMap, stacked: Float[Tensor, "k b *rest"], precision: Float[Tensor, "k 1 1"], rows: slice
) -> FeatureSums:
    """Attributions of each feature."""
    single = stacked[0, 0].numel() == features.most
    sizes = None if single else features.reduce(stacked.abs(), rows)
    return FeatureSums(features.reduce(stacked, rows), sizes, None, precision)


def direction_sums(
    features: FeatureMap,
    inputs: Shaped[Tensor, "b *shape"],
    baselines: Shaped[Tensor, "b *shape"],
    rows: slice,
    without: Bool[Tensor, "..."] | None = None,
) -> FeatureSums:
    """``x - baseline`` of each feature, which is as exact as both are; 0 for elements ``without`` a direction."""
    precision = torch.finfo(inputs.dtype).eps if inputs.is_floating_point() else 0.0
    inputs, baselines = inputs.double(), baselines.double()
    if without is not None:
        inputs, baselines = inputs.masked_fill(without, 0), baselines.masked_fill(without, 0)
    difference = inputs - baselines
    sizes = None if inputs[0].numel() == features.most else features.reduce(difference.abs(), rows)
    rounded = features.reduce(inputs.abs() + baselines.abs(), rows)
    return FeatureSums(features.reduce(difference, rows), sizes, rounded, precision)


def signs(
    sums: Float[Tensor, "*shape"], sizes: Float[Tensor, "*shape"], rounding: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Signs of sums, 0 for those that cancel out but for rounding: theirs would be chance.

    Numbers of one sign do not cancel out, however small: a sum of one number has its sign.

    Args:
        sums: Of numbers.
        sizes: Of the same numbers without their signs.
        rounding: How far the rounding of these numbers may have moved each sum.

    Example: 0.1 + 0.2 - 0.3 in float32 is not quite 0.
        >>> terms = torch.tensor([0.1, 0.2, -0.3]).double()
        >>> sums, sizes = terms.sum(0, keepdim=True), terms.abs().sum(0, keepdim=True)
        >>> bool(sums == 0), signs(sums, sizes, sizes * torch.finfo(torch.float32).eps).tolist()
        (False, [0.0])
    """
    size = sums.abs()
    return sums.sign().masked_fill((size <= rounding) & (size < sizes * _ALIKE), 0)
