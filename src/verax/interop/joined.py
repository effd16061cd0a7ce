"""Several tensors as one: a call in Captum's convention becomes flat rows and a module that gives them shape again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from verax.shapes import Float, Shaped

Shape = tuple[int, ...]


class Joined(nn.Module):
    """Calls a function with flat rows cut into tensors of given shapes, then with further arguments.

    Args:
        forward_func: The function; a module's mode and device are managed as usual.
        shapes: Shape of one row of each tensor.
        further: Arguments after the tensors.
        repeated: Which of them have one row, to be repeated for each row of a batch.
    """

    def __init__(
        self, forward_func: Callable[..., Any], shapes: list[Shape], further: tuple[Any, ...], repeated: list[bool]
    ) -> None:
        super().__init__()
        self.forward_func = forward_func
        self.shapes = shapes
        self.further = further
        self.repeated = repeated

    def forward(self, rows: Float[Tensor, "b elements"]) -> Any:
        """Cut, shape and call."""
        sizes = [torch.Size(shape).numel() for shape in self.shapes]
        cut = zip(torch.split(rows, sizes, dim=1), self.shapes, strict=True)
        tensors = [part.reshape(len(rows), *shape) for part, shape in cut]
        further = [one.to(rows.device) if isinstance(one, Tensor) else one for one in self.further]
        for place, repeated in enumerate(self.repeated):
            if repeated:
                further[place] = further[place].expand(len(rows), *further[place].shape[1:])
        return self.forward_func(*tensors, *further)


@dataclass(frozen=True)
class Call:
    """A call in Captum's convention, with all tensors of an example in one row.

    Attributes:
        model: The user's function on flat rows.
        inputs: The rows; ``attributions`` and ``baselines`` likewise.
        features: ``"element"``, or group numbers for all rows or for each.
        target: None, a class, or one class per row.
    """

    model: Joined
    inputs: Float[Tensor, "n elements"]
    attributions: Float[Tensor, "n elements"]
    baselines: Float[Tensor, "n elements"]
    features: Any
    target: Any

    @property
    def fewest_features(self) -> int:
        """The number of features of the row that has fewest."""
        if isinstance(self.features, str):
            return self.inputs.shape[1]
        return min(len(row.unique()) for row in self.features.reshape(-1, self.inputs.shape[1]))

    def parts(self) -> "Iterator[Call]":
        """The call itself; or one for each row, where some further argument has a row for each."""
        model = self.model
        if not any(model.repeated) or len(self.inputs) == 1:
            yield self
            return
        for row in range(len(self.inputs)):
            one = slice(row, row + 1)
            further = tuple(
                value[one] if repeated else value for value, repeated in zip(model.further, model.repeated, strict=True)
            )
            yield replace(
                self,
                model=Joined(model.forward_func, model.shapes, further, model.repeated),
                inputs=self.inputs[one],
                attributions=self.attributions[one],
                baselines=self.baselines[one],
                features=self.features[one] if getattr(self.features, "ndim", 1) == 2 else self.features,
                target=self.target[one] if isinstance(self.target, Tensor) else self.target,
            )


def joined_call(
    forward_func: Any,
    inputs: Any,
    attributions: Any,
    baselines: Any,
    additional_forward_args: Any,
    target: Any,
    feature_mask: Any,
) -> Call:
    """Check and flatten the arguments of a call in Captum's convention; see ``verax.interop.captum``."""
    if not callable(forward_func):
        raise TypeError(f"forward_func: expected a module or a function, found {type(forward_func).__name__}.")
    given = _tensors("inputs", inputs)
    count = len(given[0])
    further = additional_forward_args if isinstance(additional_forward_args, tuple) else (additional_forward_args,)
    further = () if additional_forward_args is None else further
    repeated = [isinstance(one, Tensor) and one.ndim > 0 and len(one) == count for one in further]
    return Call(
        model=Joined(forward_func, [tuple(one.shape[1:]) for one in given], further, repeated),
        inputs=_flat(given),
        attributions=_flat(_like("attributions", attributions, given)),
        baselines=_flat(_baselines(baselines, given)),
        features="element" if feature_mask is None else _groups(feature_mask, given),
        target=_target(target),
    )


def _flat(tensors: tuple[Tensor, ...]) -> Shaped[Tensor, "n elements"]:
    return torch.cat([one.detach().reshape(len(one), -1) for one in tensors], dim=1)


def _tensors(name: str, value: Any) -> tuple[Tensor, ...]:
    """Read one tensor or a tuple of tensors with floating-point rows."""
    found: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
    for place, one in enumerate(found):
        label = f"{name}[{place}]" if isinstance(value, tuple) else name
        if not isinstance(one, Tensor):
            raise TypeError(f"{label}: expected a tensor, found {type(one).__name__}.")
        if not one.is_floating_point():
            raise TypeError(f"{label}: expected floating-point numbers, found {one.dtype}.")
        if one.ndim == 0 or len(one) != len(found[0]):
            raise ValueError(
                f"{label}: expected one row per example, as {name}[0] of shape {tuple(found[0].shape)} has, "
                f"found shape {tuple(one.shape)}."
            )
    if not found:
        raise ValueError(f"{name}: expected a tensor or a tuple of tensors, found an empty tuple.")
    return found


def _like(name: str, value: Any, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Read tensors in the shapes of the inputs."""
    found = _tensors(name, value)
    shapes, wanted = ([tuple(one.shape) for one in tensors] for tensors in (found, given))
    if shapes != wanted:
        raise ValueError(f"{name}: expected the shapes of the inputs, {wanted}, found {shapes}.")
    return found


def _baselines(baselines: Any, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    found = baselines if isinstance(baselines, tuple) else (baselines,) * (len(given) if baselines is None else 1)
    _check_number("baselines", found, given)
    return tuple(
        _expanded("baselines", torch.as_tensor(0.0 if value is None else value).to(one), one)
        for value, one in zip(found, given, strict=True)
    )


def _groups(feature_mask: Any, given: tuple[Tensor, ...]) -> Tensor:
    found = feature_mask if isinstance(feature_mask, tuple) else (feature_mask,)
    _check_number("feature_mask", found, given)
    if all(len(mask) == 1 for mask in found):
        first = tuple(one[:1] for one in given)
        return _flat(tuple(_expanded("feature_mask", *pair) for pair in zip(found, first, strict=True)))[0]
    return _flat(tuple(_expanded("feature_mask", *pair) for pair in zip(found, given, strict=True)))


def _check_number(name: str, found: tuple[Any, ...], given: tuple[Tensor, ...]) -> None:
    if len(found) != len(given):
        raise ValueError(f"{name}: expected one for each of the {len(given)} inputs, found {len(found)}.")


def _expanded(name: str, value: Tensor, one: Tensor) -> Tensor:
    try:
        return value.expand(one.shape)
    except RuntimeError:
        raise ValueError(
            f"{name}: shape {tuple(value.shape)} does not broadcast to the input's shape {tuple(one.shape)}."
        ) from None


def _target(target: Any) -> Any:
    """Read what Captum takes as a target, but for outputs of more than two axes."""
    if isinstance(target, tuple) or (isinstance(target, list) and any(isinstance(one, tuple) for one in target)):
        raise TypeError(f"target: expected a class or one class per row, found {target}; scores are (N, classes) here.")
    if target is None or isinstance(target, int):
        return target
    found = torch.as_tensor(target)
    return found.reshape(()) if found.numel() == 1 else found
