"""What one feature is: an element, a pixel with all its channels, or a group of a user's map."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from verax.core.arguments import checked_count
from verax.core.arrays import as_tensor
from verax.core.shapes import Bool, Float, Int, Shaped

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Grid:
    """Features laid out as the input itself: one per element, or one per pixel across its channels.

    Attributes:
        shape: Shape of one input.
        cell: The same with 1 where a feature spans an axis: ``(1, 224, 224)`` for the pixels of an RGB image.
    """

    shape: Shape
    cell: Shape

    @property
    def most(self) -> int:
        """The number of features."""
        return int(torch.Size(self.cell).numel())

    def counts(self, rows: slice) -> Int[Tensor, "1"]:
        return torch.tensor([self.most])  # one number serves all

    def at(self, order: Int[Tensor, " m"]) -> "Grid":
        return self

    def reduce(self, values: Float[Tensor, "..."], rows: slice) -> Float[Tensor, "*k b features"]:
        """Sum the elements of each feature. Values that already have one entry per feature pass through."""
        lead = values.ndim - len(self.shape)
        spanned = [lead + axis for axis, size in enumerate(self.cell) if size == 1 and values.shape[lead + axis] > 1]
        if spanned:  # in float64: what else is in the call must not show in the sums
            values = values.sum(spanned, keepdim=True, dtype=torch.float64)
        return values.reshape(*values.shape[:lead], self.most)

    def expand(self, chosen: Shaped[Tensor, "b features"], rows: Int[Tensor, " b"]) -> Shaped[Tensor, "b *shape"]:
        """Turn chosen features into chosen elements (a mask that broadcasts to the input's shape)."""
        return chosen.reshape(len(chosen), *self.cell)


@dataclass(frozen=True)
class Groups:
    """Features given by a map of group numbers, one map for all inputs or one each.

    Attributes:
        map: Group number of every element, numbered 0, 1, ... without gaps in each map.
        shape: Shape of one input.
        fixed: Which elements are never removed; None where all can be. Their baseline is their value and their
            attribution 0, so the group that they are put into does not matter: it is the first.
    """

    map: Int[Tensor, "maps elements"]
    shape: Shape
    fixed: Bool[Tensor, "maps elements"] | None = None

    @property
    def most(self) -> int:
        """The largest number of any input."""
        return int(self.map.max()) + 1

    def counts(self, rows: slice) -> Int[Tensor, " maps"]:
        return self._maps(rows).amax(1) + 1

    def numbers(self) -> Int[Tensor, "maps *shape"]:
        """The map in the shape of the inputs, negative where an element is never removed."""
        numbers = self.map if self.fixed is None else self.map.masked_fill(self.fixed, -1)
        return numbers.reshape(-1, *self.shape)

    def at(self, order: Int[Tensor, " m"]) -> "Groups":
        if len(self.map) == 1:
            return self
        places = order.to(self.map.device)
        return Groups(self.map[places], self.shape, None if self.fixed is None else self.fixed[places])

    def spread_out(self, values: Float[Tensor, "n features"]) -> Float[Tensor, "n *rest"]:
        """Give one value per group the shape of the inputs, each shared out evenly over its elements."""
        numbers = self.numbers().to(values.device)
        if len(self.shape) == 3 and bool((numbers == numbers[:, :1]).all()):  # one channel is enough
            numbers = numbers[:, :1]
        flat, removable = numbers.flatten(1).clamp(min=0), (numbers.flatten(1) >= 0).double()
        sizes = torch.zeros(len(flat), self.most, dtype=torch.float64, device=flat.device)
        sizes.scatter_add_(1, flat, removable)
        weights = removable / sizes.gather(1, flat).clamp(min=1)
        shared = values.double().gather(1, flat.expand(len(values), -1)) * weights
        return shared.reshape(-1, *numbers.shape[1:])

    def reduce(self, values: Float[Tensor, "..."], rows: slice) -> Float[Tensor, "*k b features"]:
        lead = values.shape[: values.ndim - len(self.shape)]
        flat = spread(values, self.shape).reshape(*lead, -1)
        index = self._maps(rows).to(values.device).expand(flat.shape)
        # in float64, so that neither what else is in the call nor the order in which a GPU adds shows in the sums
        sums = torch.zeros(*lead, self.most, dtype=torch.float64, device=values.device)
        return sums.scatter_add(-1, index, flat.double())

    def expand(self, chosen: Shaped[Tensor, "b features"], rows: Int[Tensor, " b"]) -> Shaped[Tensor, "b *shape"]:
        maps = self.map.to(chosen.device)
        index = maps[rows] if len(maps) > 1 else maps.expand(len(chosen), -1)
        return chosen.gather(1, index).reshape(-1, *self.shape)

    def _maps(self, rows: slice) -> Int[Tensor, "maps elements"]:
        return self.map[rows] if len(self.map) > 1 else self.map


FeatureMap = Grid | Groups


def spread(values: Float[Tensor, "..."], shape: Shape) -> Float[Tensor, "..."]:
    """Give every element its part: a value that stands for all channels of a pixel is shared out evenly."""
    lead = values.shape[: values.ndim - len(shape)]
    share = values.shape[len(lead) :].numel() / torch.Size(shape).numel()
    return values if share == 1 else (values * share).expand(*lead, *shape)


def feature_map(features: object, inputs: Tensor) -> FeatureMap:
    """Read the ``features`` argument: ``"auto"``, ``"element"``, ``"pixel"`` or an array of group numbers."""
    shape = tuple(inputs.shape[1:])
    expected = 'features: expected "auto", "element", "pixel" or an array of group numbers'
    if features is None:
        raise TypeError(f"{expected}, got None.")
    if isinstance(features, str):
        if features not in ("auto", "element", "pixel"):
            raise ValueError(f"{expected}, got {features!r}.")
        if features == "pixel" and len(shape) < 2:
            raise ValueError(
                f'features: "pixel" needs inputs (N, channels, ...), got inputs with rows of shape {shape}.'
            )
        pixels = features == "pixel" or (features == "auto" and len(shape) == 3)
        return Grid(shape, (1, *shape[1:]) if pixels else shape)
    groups = as_tensor("features", features)
    if groups.is_floating_point() or groups.dtype == torch.bool or groups.is_complex():
        raise TypeError(f"features: group numbers must be whole numbers, got {groups.dtype}.")
    maps = _full_map(groups.to(torch.int64), inputs)
    fixed = maps < 0
    if not bool(fixed.any()):
        return Groups(_consecutive(maps), shape)
    if len(empty := fixed.all(1).nonzero()):
        where = f" in row {int(empty[0, 0])}" if len(maps) > 1 else ""
        raise ValueError(f"features: negative numbers are never removed, and there is no other{where}.")
    numbered = _consecutive(maps.clamp(min=-1))
    return Groups((numbered - fixed.any(1, keepdim=True).long()).clamp(min=0), shape, fixed)


def _full_map(groups: Tensor, inputs: Tensor) -> Int[Tensor, "maps elements"]:
    """One number per element, for all inputs at once or for each, of a user's map.

    A map with as many axes as the inputs says what it means: length 1 stands for all inputs, or for all channels.
    """
    shape, count, full = tuple(inputs.shape[1:]), len(inputs), tuple(groups.shape)
    image = len(shape) == 3
    _check_one_reading(groups, inputs)
    if full == shape or (image and full == shape[1:]):
        return groups.expand(shape).reshape(1, -1)
    if 1 < len(full) < inputs.ndim and full == (count, *shape)[: len(full)]:  # one number for all that follows
        return groups.reshape(*full, *(1,) * (inputs.ndim - len(full))).expand(count, *shape).reshape(count, -1)
    each = groups[:, None] if image and full == (count, *shape[1:]) else groups
    lengths = [{1, count}, *({size} for size in shape)]
    if image:
        lengths[1].add(1)
    if each.ndim == inputs.ndim and all(length in two for length, two in zip(each.shape, lengths, strict=True)):
        return each.expand(-1, *shape).reshape(len(each), -1)
    allowed = [shape, (count, *shape), *([shape[1:], (count, *shape[1:])] if image else [])]
    raise ValueError(
        f"features: group numbers of shape {full} do not fit inputs of shape {tuple(inputs.shape)}; "
        f"expected one of {', '.join(map(str, allowed))}."
    )


def _check_one_reading(groups: Tensor, inputs: Tensor) -> None:
    """Raise for a map that may be for all inputs, as ``(C, H, W)``, or one each, as ``(N, H, W)`` or ``(N, L)``."""
    if groups.shape != inputs.shape[1:] or inputs.ndim < 3:
        return
    each = inputs.ndim == 4 and len(inputs) == inputs.shape[1]
    along = groups.shape == inputs.shape[:-1]
    if not (each or along) or torch.equal(groups, groups[:1].expand_as(groups)):
        return
    full = tuple(groups.shape)
    other, index, how = f"{(*full, 1)}", "features[..., None]", f", expanded to {tuple(inputs.shape)},"
    if inputs.ndim == 4:
        other, index, how = f"{(full[0], 1, *full[1:])}", "features[:, None]", ","
    what = "map for each input" if inputs.ndim == 4 else "number for each input and position"
    raise ValueError(
        f"features: group numbers of shape {full} can be read as one map for all inputs or as one {what}; pass "
        f"{(1, *full)}, features[None], for one map, or {other}, {index}{how} for one each."
    )


def _consecutive(maps: Int[Tensor, "maps elements"]) -> Int[Tensor, "maps elements"]:
    """Renumber the groups of each map 0, 1, ... in their old order, so that no empty group takes part in a ranking."""
    ordered, position = maps.sort(dim=1, stable=True)
    new = torch.zeros_like(ordered)
    new[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]).long().cumsum(1)
    return torch.empty_like(new).scatter_(1, position, new)


def windows(length: int, channels: int, width: int, *, per_channel: bool = False) -> Int[Tensor, "length channels"]:
    """Windows of time series ``(N, length, channels)``: steps that are removed together.

    Args:
        length: Steps of a series.
        channels: Channels of a series.
        width: Steps of a window; the last one is shorter where they do not divide the length.
        per_channel: One feature per window and channel; otherwise a window spans all channels.

    For series ``(N, channels, length)`` pass the transposed map, ``windows(...).T``.

    Example:
        >>> windows(5, 2, width=2).tolist()
        [[0, 0], [0, 0], [1, 1], [1, 1], [2, 2]]
        >>> windows(5, 2, width=2, per_channel=True).tolist()
        [[0, 1], [0, 1], [2, 3], [2, 3], [4, 5]]
    """
    steps, across = checked_count("length", length), checked_count("channels", channels)
    window = (torch.arange(steps) // checked_count("width", width))[:, None].expand(steps, across)
    return window * across + torch.arange(across) if per_channel else window.clone()


def tokens(present: Any, dimensions: int) -> Any:
    """Tokens of texts given as embeddings ``(N, length, dimensions)``: one feature per token, none for padding.

    Args:
        present: True where a text has a token and False where it is padded, ``(N, length)``.
        dimensions: Size of the embeddings.

    Returns:
        One map per text, NumPy or torch as ``present`` is. Padding is -1: it is never removed.

    Example:
        >>> tokens(torch.tensor([[True, True, False], [True, True, True]]), dimensions=2).tolist()
        [[[0, 0], [1, 1], [-1, -1]], [[0, 0], [1, 1], [2, 2]]]
    """
    present_mask = as_tensor("present", present)
    if present_mask.dtype != torch.bool or present_mask.ndim != 2:
        raise TypeError(
            f"present: expected True or False, shape (N, length), got {present_mask.dtype}, {present_mask.ndim} axes."
        )
    empty = (~present_mask.any(1)).nonzero()
    if len(empty):
        raise ValueError(f"present: expected at least one token in every text, got none in row {int(empty[0, 0])}.")
    place = (present_mask.cumsum(1) - 1).where(present_mask, -1)
    size = checked_count("dimensions", dimensions)
    map_of_tokens = place[..., None].expand(*place.shape, size).clone()
    return map_of_tokens.numpy() if isinstance(present, np.ndarray) else map_of_tokens
