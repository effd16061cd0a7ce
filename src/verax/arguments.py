"""Checked arguments: what can be wrong with inputs, attributions or target is found here, before any work."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from verax.arrays import Layout, as_tensor, kind_of
from verax.features import FeatureMap, Grid, Shape, feature_map
from verax.perturbation.baselines import baseline_tensor
from verax.shapes import Float, Int

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
        layout: The form in which results go back.
    """

    inputs: Float[Tensor, "n *shape"]
    attributions: tuple[Tensor, ...]
    baselines: Tensor
    features: FeatureMap
    target: int | Tensor | None
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
    stack, form, names = _attribution_list(attributions, x, fmap)
    result_dtype = x.dtype if x.dtype == torch.float64 else torch.float32  # half precision cannot hold the results
    return Problem(
        inputs=x,
        attributions=stack,
        baselines=baseline_tensor(baselines, x),
        features=fmap,
        target=checked_target(target, len(x)),
        layout=Layout(form, names, kind_of(inputs), x.device, result_dtype),
    )


def checked_inputs(inputs: Any) -> Float[Tensor, "n *shape"]:
    """Read the inputs: finite floating-point rows, at least one."""
    x = as_tensor("inputs", inputs)
    if not x.is_floating_point():
        raise TypeError(f"inputs: expected floating-point numbers, found {x.dtype}; convert them first.")
    if x.ndim < 2:
        raise ValueError(f"inputs: expected rows of features, shape (N, ...), found shape {tuple(x.shape)}.")
    if x.numel() == 0:
        raise ValueError(f"inputs: expected at least one row and one feature, found shape {tuple(x.shape)}.")
    _check_finite("inputs", x)
    return x


def resolve_target(target: int | Tensor | None, class_scores: Float[Tensor, "n classes"]) -> Int[Tensor, " n"]:
    """Choose the class of each input: the predicted one unless given."""
    count, classes = class_scores.shape
    if target is None:
        return class_scores.argmax(1)
    wanted = torch.as_tensor(target, device=class_scores.device).expand(count)
    outside = ((wanted < 0) | (wanted >= classes)).nonzero()
    if len(outside):
        row = int(outside[0, 0])
        where = f" in row {row}" if isinstance(target, Tensor) else ""
        raise ValueError(
            f"target: class {int(wanted[row])}{where} does not exist; "
            f"the model has {classes} classes, 0 to {classes - 1}."
        )
    return wanted.contiguous()


def checked_count(name: str, value: Any, least: int = 1) -> int:
    """Read a whole number with a lower bound."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name}: expected a whole number of at least {least}, found {value!r}.")
    return int(value)


def checked_positive(name: str, value: Any) -> float:
    """Read a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise ValueError(f"{name}: expected a positive, finite number, found {value!r}.")
    return float(value)


def checked_not_negative(name: str, value: Any) -> float:
    """Read a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
        raise ValueError(f"{name}: expected a finite number of at least 0, found {value!r}.")
    return float(value) + 0.0  # -0.0 becomes 0.0


def checked_seed(value: Any) -> int:
    """Read a seed: any whole number."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"seed: expected a whole number, found {value!r}.")
    return int(value)


def settle(settings: object, **checked: Any) -> None:
    """Store checked settings in a frozen dataclass, so that NumPy's numbers do not show in its form."""
    for name, value in checked.items():
        object.__setattr__(settings, name, value)


def checked_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Refuse a word that is not among the allowed ones."""
    if value not in allowed:
        raise ValueError(f"{name}: expected one of {', '.join(map(repr, allowed))}, found {value!r}.")


def checked_target(target: Any, count: int) -> int | Tensor | None:
    """Read a target: None, a class number, or one per row."""
    if target is None:
        return None
    given = as_tensor("target", target)
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise TypeError(f"target: expected None, a class number or one class number per row, found {given.dtype}.")
    negative = (given.reshape(-1) < 0).nonzero()
    if len(negative):
        row = int(negative[0, 0])
        where = f" in row {row}" if given.ndim else ""
        raise ValueError(f"target: class {int(given.reshape(-1)[row])}{where} does not exist; numbers start at 0.")
    if given.ndim == 0:
        return int(given)
    if tuple(given.shape) != (count,):
        raise ValueError(f"target: expected one class per row, shape ({count},), found shape {tuple(given.shape)}.")
    return given.to(torch.int64)


def _attribution_list(
    attributions: Any, inputs: Tensor, features: FeatureMap
) -> tuple[tuple[Tensor, ...], Any, tuple[str, ...]]:
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
        if tuple(array.shape) in shapes:
            form, given = "one", (array,)
        elif tuple(array.shape[1:]) in shapes and len(array) > 0:
            form, given = "stack", tuple(array)
        else:
            raise ValueError(_shape_message("attributions", array, inputs, shapes))
    for index, one in enumerate(given):
        _check_finite(f"attributions[{names[index]!r}]" if names else _stack_name(form, index), one)
    dtype = reduce(torch.promote_types, (one.dtype for one in given))
    return tuple(_with_channel_axis(one.to(dtype), inputs) for one in given), form, names


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


def _check_finite(label: str, values: Tensor) -> None:
    ends = torch.stack(values.aminmax())  # NaN if any is; one pass over the values, where isfinite takes five
    if torch.isfinite(ends).all():
        return
    bad = (~torch.isfinite(values.reshape(len(values), -1))).nonzero()[0]
    found = values.reshape(len(values), -1)[bad[0], bad[1]].item()
    raise ValueError(f"{label}: expected finite numbers, found {found} in row {int(bad[0])} (element {int(bad[1])}).")


def _stack_name(form: str, index: int) -> str:
    return f"attributions[{index}]" if form == "stack" else "attributions"


def _shape_message(label: str, array: Tensor, inputs: Tensor, shapes: list[Shape], stack: bool = True) -> str:
    wanted = " or ".join(str(shape) for shape in shapes)
    stacked = f", or a stack (K, {str(shapes[0])[1:]}" if stack else ""
    return (
        f"{label}: shape {tuple(array.shape)} does not fit inputs of shape {tuple(inputs.shape)}; "
        f"wanted is {wanted}{stacked}."
    )


def checked_background(
    background: Any, labels: Any, inputs: Float[Tensor, "n *shape"]
) -> tuple[Float[Tensor, "m *shape"] | None, Int[Tensor, " m"] | None]:
    """Read background rows and their classes, or say what is wrong with them."""
    if background is None:
        if labels is not None:
            raise ValueError("background_labels: given without background; pass background=train_inputs as well.")
        return None, None
    rows = as_tensor("background", background)
    if not rows.is_floating_point():
        raise TypeError(f"background: expected floating-point numbers, found {rows.dtype}.")
    if rows.shape[1:] != inputs.shape[1:] or len(rows) == 0:
        raise ValueError(
            f"background: expected rows like the inputs', shape (M, {str(tuple(inputs.shape[1:]))[1:]}, "
            f"found shape {tuple(rows.shape)}."
        )
    if not torch.isfinite(rows).all():
        raise ValueError("background: expected finite numbers, found NaN or infinity.")
    if labels is None:
        return rows, None
    given = as_tensor("background_labels", labels)
    if given.is_floating_point() or tuple(given.shape) != (len(rows),):
        raise ValueError(
            f"background_labels: expected one whole number per background row, shape ({len(rows)},), "
            f"found {given.dtype} of shape {tuple(given.shape)}."
        )
    return rows, given.to(torch.int64)
