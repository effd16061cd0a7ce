"""Calls of nonlinear functions while a model runs, however they are made: as modules, as functions, as methods."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  # as everywhere
from torch.overrides import TorchFunctionMode

Function = Callable[..., Any]
Evaluate = Callable[[Tensor], tuple[Tensor, Tensor | None]]

_SPACES = (torch, F, Tensor, torch.special, torch._C._nn)
_NAMES = """
    abs celu clamp clamp_max clamp_min elu erf exp expit expm1 gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu
    log log1p log_sigmoid logit logsigmoid mish prelu relu relu6 rrelu selu sigmoid silu softplus softshrink softsign
    special_expit sqrt square tanh tanhshrink threshold
"""

# For every way to call an activation: the call that leaves its input alone, and whether this one does not.
_ACTIVATIONS: dict[Function, tuple[Function, bool]] = {
    getattr(space, name + place): (getattr(space, name), bool(place))
    for space, name, place in product(_SPACES, _NAMES.split(), ("", "_"))
    if hasattr(space, name) and hasattr(space, name + place)
}
# For every way to call max pooling: the call that says where the maxima are, and the number of axes.
_POOLINGS: dict[Function, tuple[Function, int]] = {
    getattr(space, f"{kind}{axes}d"): (getattr(F, f"{kind}{axes}d_with_indices"), axes)
    for (space, kind), axes in product(((F, "max_pool"), (torch, "max_pool"), (F, "adaptive_max_pool")), (1, 2, 3))
}


@dataclass(frozen=True)
class Call:
    """A call of a nonlinear function: values before and after; for max pooling also where the maxima are."""

    name: str
    before: Tensor
    after: Tensor
    winners: Tensor | None

    def apart(self, *counts: int) -> "Call":
        """The same with the first axis cut: into so many rows, of so many, of what belongs to each."""
        return self._each(lambda values: values.reshape(*counts, -1, *values.shape[1:]))

    def first(self) -> "Call":
        """Copies of what belongs to the first of the second axis, which stays."""
        return self._each(lambda values: values[:, :1].clone())

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Call":
        winners = None if self.winners is None else change(self.winners)
        return Call(self.name, change(self.before), change(self.after), winners)


class CaughtCalls(TorchFunctionMode):
    """Hands calls of nonlinear functions to another: the values, the function, its name, the axes of a max pooling."""

    def __init__(self, call: Callable[[Tensor, Evaluate, str, int], Tensor]) -> None:
        super().__init__()
        self.call = call

    def __torch_function__(
        self, func: Function, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings = dict(kwargs or {})
        if func not in _ACTIVATIONS and func not in _POOLINGS:
            return func(*args, **settings)
        values, *others = args or (settings.pop("input"),)
        several = any(isinstance(one, Tensor) for one in (*others, *settings.values())) and func.__name__ != "prelu"
        if several or not values.is_floating_point():
            return func(*args, **(kwargs or {}))
        in_place = settings.pop("inplace", False)
        if func in _POOLINGS:
            settings.pop("return_indices", None)
            with_indices, axes = _POOLINGS[func]
            return self.call(values, lambda batch: with_indices(batch, *others, **settings), f"max_pool{axes}d", axes)
        activation, always = _ACTIVATIONS[func]
        output = self.call(values, lambda batch: (activation(batch, *others, **settings), None), activation.__name__, 0)
        return values.copy_(output) if in_place or always else output


@dataclass
class Recording:
    """Keeps the calls with what they saw."""

    calls: list[Call] = field(default_factory=list)

    def call(self, values: Tensor, function: Evaluate, name: str, axes: int) -> Tensor:
        """Call the function."""
        after, winners = function(values)
        # copies: what follows may change either in place
        self.calls.append(Call(name, values.detach().clone(), after.detach().clone(), winners))
        return after
