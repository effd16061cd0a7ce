"""Checked arguments: what can be wrong with inputs, attributions or target is found here, before any work."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import torch
from torch import Tensor

from verax.core.arrays import Layout, as_tensor, kind_of
from verax.core.shapes import Float, Int
from verax.problem.baselines import baseline_tensor
from verax.problem.features import FeatureMap, Grid, Shape, feature_map
from verax.problem.inputs import check_finite, checked_inputs
from verax.problem.targets import checked_target
from verax.scoring.targets import Target

_SMALL = 1 << 23  # elements of attributions that may be copied


@dataclass(frozen=True)
class Problem:
    """What a metric is asked about: inputs, their attributions, and what a feature is.

    Attributes:
        inputs: One row per input.
        attributions: One tensor per attribution, each of the inputs' shape or with one channel.
        baselines: What removed features become, seen in the inputs' shape.
        features: What one feature is.
        target: The class to explain, as the user gave it.
        precision: Relative spacing of the numbers of each attribution, as the user gave it.
        layout: The form in which results go back.
    """

    inputs: Float[Tensor, "n *shape"]
    attributions: tuple[Tensor, ...]
    baselines: Tensor
    features: FeatureMap
    target: Target
    precision: Float[Tensor, "k 1 1"]
    layout: Layout

    def __len__(self) -> int:
        return len(self.inputs)

    def stacked(self, which: slice, rows: slice) -> Float[Tensor, "k b *rest"]:
        """Some attributions of some inputs as one tensor."""
        if self._together is not None:
            return self._together[which, rows]
        return torch.stack([one[rows] for one in self.attributions[which]])

    @cached_property
    def _together(self) -> Tensor | None:
        """All attributions, unless they are large: to gather hundreds of small ones for every block takes long."""
        count = len(self.attributions) * self.attributions[0].numel()
        return torch.stack(self.attributions) if count <= _SMALL else None


@dataclass(frozen=True)
class Task:
    """A problem whose unperturbed inputs have been scored: the class of each is known. What experiments work on."""

    problem: Problem
    target: Int[Tensor, " n"]
    clean: Float[Tensor, " n"]


def problem(inputs: Any, attributions: Any, *, target: Any, baselines: Any, features: Any) -> Problem:
    """Check and normalise the arguments that all metrics share."""
    x = checked_inputs(inputs)
    fmap = feature_map(features, x)
    stack, precision, form, names = _attribution_list(attributions, x, fmap)
    result_dtype = x.dtype if x.dtype == torch.float64 else torch.float32  # half precision cannot hold the results
    return Problem(
        inputs=x,
        attributions=stack,
        baselines=baseline_tensor(baselines, x),
        features=fmap,
        target=checked_target(target, len(x)),
        precision=precision,
        layout=Layout(form, names, kind_of(inputs), x.device, result_dtype),
    )


def _attribution_list(
    attributions: Any, inputs: Tensor, features: FeatureMap
) -> tuple[tuple[Tensor, ...], Tensor, Any, tuple[str, ...]]:
    """Split one array, a stack or a dict into single attributions in the inputs' layout."""
    shapes = _single_shapes(inputs, features)
    names: tuple[str, ...] = ()
    if isinstance(attributions, Mapping):
        if not attributions:
            raise ValueError("attributions: expected at least one, found an empty dict.")
        form, names = "dict", tuple(attributions)
        given = tuple(_checked_attribution(name, attributions[name], inputs, shapes) for name in names)
    else:
        array = _numbers("attributions", attributions)
        if array.shape[:1] != (1,) and tuple(array.shape) in shapes and tuple(array.shape[1:]) in shapes:
            raise ValueError(_two_readings(array, shapes))
        if tuple(array.shape) in shapes:
            form, given = "one", (array,)
        elif tuple(array.shape[1:]) in shapes and len(array) > 0:
            form, given = "stack", tuple(array)
        else:
            raise ValueError(_shape_message("attributions", array, inputs, shapes))
    for index, one in enumerate(given):
        check_finite(f"attributions[{names[index]!r}]" if names else _stack_name(form, index), one)
    dtype = reduce(torch.promote_types, (one.dtype for one in given))
    precision = torch.tensor([torch.finfo(one.dtype).eps for one in given], dtype=torch.float64)[:, None, None]
    return tuple(_with_channel_axis(one.to(dtype), inputs) for one in given), precision, form, names


def _checked_attribution(name: str, value: Any, inputs: Tensor, shapes: list[Shape]) -> Tensor:
    label = f"attributions[{name!r}]"
    array = _numbers(label, value)
    if tuple(array.shape) not in shapes:
        raise ValueError(_shape_message(label, array, inputs, shapes, stack=False))
    return array


def _single_shapes(inputs: Tensor, features: FeatureMap) -> list[Shape]:
    """Shapes that one attribution may have; where a feature spans the channels, the channel axis may be missing."""
    full = tuple(inputs.shape)
    spans_channels = isinstance(features, Grid) and len(features.cell) > 1 and features.cell[0] == 1
    if spans_channels or (not isinstance(features, Grid) and inputs.ndim == 4):
        return [full, (full[0], 1, *full[2:]), (full[0], *full[2:])]
    return [full]


def _with_channel_axis(one: Tensor, inputs: Tensor) -> Tensor:
    return one[:, None] if one.ndim == inputs.ndim - 1 else one


def _numbers(label: str, value: Any) -> Tensor:
    array = as_tensor(label, value)
    if array.is_complex() or array.dtype == torch.bool:
        raise TypeError(f"{label}: expected real numbers, found {array.dtype}.")
    if not array.is_floating_point():
        return array.double()
    return array.float() if array.dtype in (torch.float16, torch.bfloat16) else array


def _stack_name(form: str, index: int) -> str:
    return f"attributions[{index}]" if form == "stack" else "attributions"


def _two_readings(array: Tensor, shapes: list[Shape]) -> str:
    """Images of as many channels as there are images, and as many attributions: one, or a stack without channels?"""
    return (
        f"attributions: shape {tuple(array.shape)} can be read as one attribution or as a stack of {len(array)} "
        f"without channels; pass one attribution as {{name: array}}, several as a dict of them or with a channel axis, "
        f"shape (K, {str(shapes[1])[1:]}."
    )


def _shape_message(label: str, array: Tensor, inputs: Tensor, shapes: list[Shape], stack: bool = True) -> str:
    wanted = " or ".join(str(shape) for shape in shapes)
    stacked = f", or a stack (K, {str(shapes[0])[1:]}" if stack else ""
    return (
        f"{label}: shape {tuple(array.shape)} does not fit inputs of shape {tuple(inputs.shape)}; "
        f"wanted is {wanted}{stacked}."
    )
