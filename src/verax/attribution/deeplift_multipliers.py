"""DeepLIFT multipliers: what takes the place of a nonlinear function's derivative between inputs and references.

An activation gets the slope of its chord, ``(f(x) - f(r)) / (x - r)``. Max pooling gives the difference of each window
to the element that has the larger maximum.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  # as everywhere
from torch.overrides import TorchFunctionMode

from verax.core.blocks import deterministic_scatter_add

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
        several = any(isinstance(other, Tensor) for other in (*others, *settings.values())) and func.__name__ != "prelu"
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


_OTHER_WAY = (
    "model: DeepLIFT needs the same functions to be called for every row, but the model's way through its layers "
    "depends on the values: where references came to {references}, pairs came to {pairs}."
)


@dataclass
class _Multiplier:
    """A call of a nonlinear function on inputs, and what takes the place of its derivative for some references."""

    seen: Call  # what it saw, ``(inputs, 1, ...)``
    function: Evaluate  # what was called
    axes: int  # those of a max pooling, or 0
    slope: Tensor | None = None  # of each pair; for a max pooling its rise
    # pooled: for a max pooling, of each pair: the step of each element, the winners of the windows, and of these and of
    # the reference's winners those with the larger maxima
    pooled: tuple[Tensor, Tensor, Tensor] | None = None

    def meet(self, reference: Call) -> None:
        """Pair every input with every reference, ``(references, ...)``."""
        mine = self.seen
        step, rise = mine.before - reference.before, mine.after - reference.after
        if mine.winners is None or reference.winners is None:
            self.slope = _slope(mine, step, rise, self.function).flatten(0, 2)
            return
        larger = torch.where(rise > 0, mine.winners, reference.winners)
        self.slope = rise.flatten(0, 2)
        self.pooled = step.flatten(0, 2), mine.winners.expand(larger.shape).flatten(0, 2), larger.flatten(0, 2)


class Multipliers:
    """The calls on pairs: on inputs, each as often as there are references."""

    def __init__(self, inputs: int, references: int) -> None:
        self.inputs, self.references = inputs, references
        self.waiting: Iterator[Call] = iter(())
        self.multipliers: list[
            _Multiplier | None
        ] = []  # none for what works on something else than rows, such as weights

    def call(self, values: Tensor, function: Evaluate, name: str, axes: int) -> Tensor:
        """Call the function, whose derivative will be another for each set of references."""
        reference = self.next_call(name)
        if not self._of_rows(values, reference):
            self.multipliers.append(None)
            return function(values)[0]
        after, winners = function(values.detach())
        # of pairs, the first of each input: they are copies; copied, because what follows may change it in place
        seen = Call(name, values.detach(), after, winners)
        multiplier = _Multiplier(seen.apart(self.inputs, self.references).first(), function, axes)
        self.multipliers.append(multiplier)
        return _Sloped.apply(values, (after, multiplier))  # type: ignore[no-any-return, no-untyped-call]

    def meet(self, calls: Sequence[Call]) -> None:
        """Take the slopes between the inputs and some references."""
        self.waiting = iter(calls)
        for multiplier in self.multipliers:
            if multiplier is None:
                next(self.waiting, None)
            else:
                multiplier.meet(self.next_call(multiplier.seen.name).apart(self.references))
        self.end()

    def next_call(self, name: str) -> Call:
        """The next call on the references, which must be of the same function."""
        call = next(self.waiting, None)
        if call is None or call.name != name:
            raise ValueError(_OTHER_WAY.format(references="nothing" if call is None else call.name, pairs=name))
        return call

    def end(self) -> None:
        """Raise for references that came further than the pairs."""
        if call := next(self.waiting, None):
            raise ValueError(_OTHER_WAY.format(references=call.name, pairs="nothing"))

    def _of_rows(self, values: Tensor, reference: Call) -> bool:
        references, pairs = tuple(reference.before.shape), tuple(values.shape)
        several = references and references[0] % self.references == 0
        if several and pairs == (self.inputs * references[0], *references[1:]):
            return True
        if pairs == references and torch.equal(values, reference.before):
            return False
        raise ValueError(
            f"model: DeepLIFT pairs rows along the first axis, but {reference.name} saw shape {references} for the "
            f"references and {pairs} for {self.inputs} times as many pairs; keep the rows on the first axis."
        )


def _slope(mine: Call, step: Tensor, rise: Tensor, function: Evaluate) -> Tensor:
    """The chord's slope; of a chord so short that rounding would show, the derivative in its middle."""
    if mine.name == "relu":  # rounding does not show
        slope = rise.div_(step)
        # Equal values, which give NaN, are rare, and a sum shows them sooner than all is chosen; a GPU should not wait.
        if step.device.type == "cpu" and math.isfinite(float(slope.sum())):
            return slope
        return torch.where(step == 0, mine.after.sign(), slope)
    with torch.enable_grad():
        middle = (mine.before - step / 2).requires_grad_()
        (derivative,) = torch.autograd.grad(function(middle.flatten(0, 2))[0].sum(), middle)
    short = step.abs() <= torch.finfo(step.dtype).eps ** 0.5
    return torch.where(short, derivative, rise.div_(step))


class _Sloped(torch.autograd.Function):
    """A value with the slope of a chord; of a max pooling each rise goes to the element with the larger maximum."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, saved: tuple[Tensor, _Multiplier]) -> Tensor:
        after, ctx.multiplier = saved
        return after

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> tuple[Tensor, None]:
        slope = ctx.multiplier.slope
        if ctx.multiplier.pooled is None:
            return arriving[0] * slope, None
        step, winners, larger = ctx.multiplier.pooled
        shared = _scattered(arriving[0] * slope, larger, step, ctx.multiplier.axes)
        usual = _scattered(arriving[0], winners, step, ctx.multiplier.axes)
        return torch.where(step == 0, usual, shared.div_(step)), None


def _scattered(values: Tensor, places: Tensor, like: Tensor, axes: int) -> Tensor:
    """Add values at their places among the last axes; windows that overlap add up."""
    flat, where, what = torch.zeros_like(like).flatten(-axes), places.flatten(-axes), values.flatten(-axes)
    sums = deterministic_scatter_add(what, where, flat) if flat.is_cuda else flat.scatter_add_(-1, where, what)
    return sums.reshape(like.shape)
