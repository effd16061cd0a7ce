"""Sums over the elements of features, and their signs: a sum that is 0 but for rounding has none."""

from dataclasses import dataclass

import torch
from torch import Tensor

from verax.core.blocks import pieces
from verax.core.shapes import Bool, Float, Shaped
from verax.problem.features import FeatureMap, spread

_PRODUCTS = 1 << 25  # numbers
_ALIKE = 1 - 1e-12  # sums of numbers of one sign equal the sums of their sizes, but for the order of adding


@dataclass(frozen=True)
class FeatureSums:
    """A sum for each feature."""

    values: Float[Tensor, "*k b features"]  # the sums
    # the same sums of numbers without their signs; None where each is of one number
    sizes: Float[Tensor, "*k b features"] | None
    # numbers, added up, whose last digit was rounded to give those that are summed
    rounded: Float[Tensor, "*k b features"] | None
    # relative spacing of their format; one for all, or one for each attribution
    precision: float | Float[Tensor, "k 1 1"]

    @property
    def size(self) -> Float[Tensor, "*k b features"]:
        """The sums of numbers without their signs."""
        return self.values.abs() if self.sizes is None else self.sizes

    @property
    def spacing(self) -> float | Float[Tensor, "k 1 1 1"]:
        """The precision, for sums over the features of some steps of some curves."""
        return self.precision if isinstance(self.precision, float) else self.precision[..., None]

    @property
    def rounding(self) -> Float[Tensor, "*k b features"]:
        """How far the rounding of its numbers may have moved each sum."""
        return (self.size if self.rounded is None else self.rounded).double() * self.precision

    def signs(self) -> Shaped[Tensor, "*k b features"]:
        return self.values.sign() if self.sizes is None else signs(self.values, self.sizes, self.rounding)

    def free_signs(self) -> Shaped[Tensor, "*k b features"]:
        """Sign of each sum, or 1 where numbers cancel out: weighted one by one, they need not."""
        signs = self.signs()
        return signs.masked_fill((signs == 0) & (self.size > 0), 1)


def attribution_sums(
    features: FeatureMap, stacked: Float[Tensor, "k b *rest"], precision: Float[Tensor, "k 1 1"], rows: slice
) -> FeatureSums:
    sizes = None if _one_each(features, stacked[0, 0].numel(), rows) else features.reduce(stacked.abs(), rows)
    return FeatureSums(features.reduce(stacked, rows), sizes, None, precision)


def direction_sums(
    features: FeatureMap,
    inputs: Shaped[Tensor, "b *shape"],
    baselines: Shaped[Tensor, "b *shape"],
    rows: slice,
    without: Bool[Tensor, "..."] | None = None,
) -> FeatureSums:
    """``x - baseline`` of each feature, which is as exact as both are; 0 for elements ``without`` a direction."""
    precision = _spacing(inputs)
    inputs, baselines = inputs.double(), _unexpanded(baselines).double()
    if without is not None:
        inputs, baselines = inputs.masked_fill(without, 0), baselines.masked_fill(without, 0)
    difference = inputs - baselines
    sizes = None if _one_each(features, inputs[0].numel(), rows) else features.reduce(difference.abs(), rows)
    rounded = features.reduce(inputs.abs() + baselines.abs(), rows)
    return FeatureSums(features.reduce(difference, rows), sizes, rounded, precision)


def predicted_sums(
    features: FeatureMap,
    stacked: Float[Tensor, "k b *rest"],
    moves: tuple[Tensor, Tensor, Tensor | None],
    rows: slice,
    attribution: FeatureSums,
    direction: FeatureSums,
) -> FeatureSums:
    """The drop that attributions predict where a feature goes: ``a (x - baseline)``, summed over its elements."""
    inputs, baselines, without = moves
    if _one_each(features, stacked[0, 0].numel(), rows):  # all elements of a feature share its number
        return size_times_sign(attribution, direction, attribution.signs())
    ends = inputs.double(), _unexpanded(baselines).double()
    difference, reach = ends[0] - ends[1], ends[0].abs() + ends[1].abs()
    if without is not None:
        difference, reach = difference.masked_fill(without, 0), reach.masked_fill(without, 0)
    shape = tuple(inputs.shape[1:])
    sums = []
    for some in pieces(len(stacked), _together(inputs)):  # products of all would be the largest thing in memory
        spread_out = spread(stacked[some], shape).double()
        parts = (spread_out * difference, (spread_out * difference).abs(), spread_out.abs() * reach)
        sums.append([features.reduce(part, rows) for part in parts])
    values, sizes, rounded = (torch.cat(part) for part in zip(*sums, strict=True))
    precision = torch.as_tensor(attribution.precision, device=values.device).clamp(min=_spacing(inputs))
    return FeatureSums(values, sizes, rounded, precision)


def _unexpanded(values: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "..."]:
    """Values that are seen again and again, such as one baseline for all, once, to be broadcast."""
    for axis, step in enumerate(values.stride()):
        values = values.narrow(axis, 0, 1) if step == 0 and values.shape[axis] else values
    return values


def _together(inputs: Shaped[Tensor, "b *shape"]) -> int:
    """Attributions whose products are made at once: one on a CPU, many on a GPU, where each operation is a launch."""
    return 1 if inputs.device.type == "cpu" else max(1, _PRODUCTS // inputs.numel())


def _one_each(features: FeatureMap, numbers: int, rows: slice) -> bool:
    """Whether every feature of these inputs has one number."""
    return int(features.counts(rows).min()) == numbers


def _spacing(values: Tensor) -> float:
    """Relative spacing of the numbers of a format; whole numbers are exact."""
    return torch.finfo(values.dtype).eps if values.is_floating_point() else 0.0


def size_times_sign(attribution: FeatureSums, direction: FeatureSums, sign: Tensor) -> FeatureSums:
    """``sign |a| (x - baseline)`` of each feature; a product too small for a number keeps its sign."""
    size = attribution.values.double().abs() * direction.values.double().abs()
    values = sign * direction.signs() * size.clamp(min=torch.finfo(torch.float64).tiny)
    precision = torch.as_tensor(attribution.precision, device=values.device)
    # x - baseline was rounded where x and the baseline are, however close they are to each other
    rounded = None if direction.rounded is None else attribution.values.double().abs() * direction.rounded
    return FeatureSums(values, None, rounded, precision.clamp(min=direction.precision))


def signs(
    sums: Float[Tensor, "*shape"], sizes: Float[Tensor, "*shape"], rounding: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Signs of sums, 0 for those that cancel out but for rounding: theirs would be chance.

    Numbers of one sign do not cancel out, however small: a sum of one number has its sign.
    """
    size = sums.abs()
    return sums.sign().masked_fill((size <= rounding) & (size < sizes * _ALIKE), 0)
