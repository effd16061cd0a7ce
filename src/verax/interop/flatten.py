"""Several tensors as one: a call in Captum's convention becomes flat rows and a module that gives them shape again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from verax.core.shapes import Float, Shaped
from verax.problem.baselines import baseline_tensor

Shape = tuple[int, ...]


class FlatModel(nn.Module):
    """Calls a function with flat rows cut into tensors, then further arguments, of which some come with the rows."""

    def __init__(self, forward_func: Callable[..., Any], shapes: list[Shape], further: dict[str, Any]) -> None:
        super().__init__()
        self.forward_func, self.shapes, self.further = forward_func, shapes, further

    def forward(self, rows: Float[Tensor, "b elements"], **beside: Tensor) -> Any:
        sizes = [torch.Size(shape).numel() for shape in self.shapes]
        cut = zip(torch.split(rows, sizes, dim=1), self.shapes, strict=True)
        tensors = [part.reshape(len(rows), *shape) for part, shape in cut]
        further = [beside.get(name, value) for name, value in self.further.items()]
        return self.forward_func(
            *tensors, *(value.to(rows.device) if isinstance(value, Tensor) else value for value in further)
        )


@dataclass(frozen=True)
class FlatCall:
    """A call in Captum's convention, with all tensors of an example in one row."""

    model: FlatModel
    inputs: Float[Tensor, "n elements"]
    attributions: Float[Tensor, "n elements"]
    baselines: Float[Tensor, "n elements"]
    features: Any  # "element", or group numbers for all rows or for each
    target: Any  # None, a class, or one class per row
    model_kwargs: dict[str, Tensor]  # further arguments that have a row for each example

    @property
    def fewest_features(self) -> int:
        if isinstance(self.features, str):
            return self.inputs.shape[1]
        return min(len(row.unique()) for row in self.features.reshape(-1, self.inputs.shape[1]))


def flat_call(
    forward_func: Any, inputs: Any, attributions: Any, baselines: Any, further: Any, target: Any, feature_mask: Any
) -> FlatCall:
    """Check and flatten the arguments of a call in Captum's convention; see ``verax.interop.captum``."""
    if not callable(forward_func):
        raise TypeError(f"forward_func: expected a module or a function, got {type(forward_func).__name__}.")
    tensors = _tensors("inputs", inputs)
    count = len(tensors[0])
    if not isinstance(further, tuple):
        further = () if further is None else (further,)
    named = {f"further{place}": value for place, value in enumerate(further)}
    beside = {
        name: value
        for name, value in named.items()
        if isinstance(value, Tensor) and value.ndim > 0 and len(value) == count
    }
    return FlatCall(
        model=FlatModel(forward_func, [tuple(tensor.shape[1:]) for tensor in tensors], named),
        inputs=_flat(tensors),
        attributions=_flat(_attributions(attributions, tensors)),
        baselines=_flat(_baselines(baselines, tensors)),
        features="element" if feature_mask is None else _groups(feature_mask, tensors),
        target=_target(target),
        model_kwargs=beside,
    )


def _flat(tensors: tuple[Tensor, ...]) -> Shaped[Tensor, "n elements"]:
    return torch.cat([tensor.detach().reshape(len(tensor), -1) for tensor in tensors], dim=1)


def _tensors(name: str, value: Any) -> tuple[Tensor, ...]:
    """Read one tensor or a tuple of tensors with floating-point rows."""
    tensors: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
    for place, tensor in enumerate(tensors):
        label = f"{name}[{place}]" if isinstance(value, tuple) else name
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{label}: expected a tensor, got {type(tensor).__name__}.")
        if not tensor.is_floating_point():
            raise TypeError(f"{label}: expected floating-point numbers, got {tensor.dtype}.")
        if tensor.ndim == 0 or len(tensor) != len(tensors[0]):
            shapes = f"{len(tensors[0])} as of {name}[0], got shape {tuple(tensor.shape)}"
            raise ValueError(f"{label}: expected one row per example, {shapes}.")
    if not tensors:
        raise ValueError(f"{name}: expected a tensor or a tuple of tensors, got an empty tuple.")
    return tensors


def _attributions(attributions: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    tensors = _tensors("attributions", attributions)
    shapes, expected = ([tuple(tensor.shape) for tensor in group] for group in (tensors, inputs))
    if shapes != expected:
        raise ValueError(f"attributions: expected the shapes of the inputs, {expected}, got {shapes}.")
    return tensors


def _baselines(baselines: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    values = baselines if isinstance(baselines, tuple) else (baselines,) * (len(inputs) if baselines is None else 1)
    if len(values) != len(inputs):
        raise ValueError(f"baselines: expected one for each of the {len(inputs)} inputs, got {len(values)}.")
    pairs = zip(values, inputs, strict=True)
    return tuple(baseline_tensor(0.0 if value is None else value, tensor) for value, tensor in pairs)


def _groups(feature_mask: Any, inputs: tuple[Tensor, ...]) -> Tensor:
    masks = feature_mask if isinstance(feature_mask, tuple) else (feature_mask,)
    if len(masks) != len(inputs):
        raise ValueError(f"feature_mask: expected one for each of the {len(inputs)} inputs, got {len(masks)}.")
    shared = all(len(mask) == 1 for mask in masks)
    expanded = []
    for mask, tensor in zip(masks, inputs, strict=True):
        shape = (1 if shared else len(tensor), *tensor.shape[1:])
        try:
            expanded.append(mask.expand(shape))
        except RuntimeError:
            shapes = f"shape {tuple(mask.shape)} does not broadcast to the input's shape {shape}"
            raise ValueError(f"feature_mask: {shapes}.") from None
    groups = _flat(tuple(expanded))
    return groups[0] if shared else groups


def _target(target: Any) -> Any:
    """Read what Captum takes as a target, but for outputs of more than two axes."""
    if isinstance(target, tuple) or (isinstance(target, list) and any(isinstance(entry, tuple) for entry in target)):
        raise TypeError(f"target: expected a class or one class per row, got {target}; scores are (N, classes) here.")
    if target is None or isinstance(target, int):
        return target
    classes = torch.as_tensor(target)
    return classes.reshape(()) if classes.numel() == 1 else classes
