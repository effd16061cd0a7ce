"""DeepLIFT's rescale rule: multipliers that turn the difference of an input to a reference into that of their scores.

While the model runs, calls of nonlinear functions are replaced, however they are made: as modules (in place or reused),
as functions, as methods. The model first runs on the references, and what its nonlinear functions saw is kept; then on
every pair of an input with a reference, where each activation gets the slope of its chord, ``(f(x) - f(r)) / (x - r)``,
in place of its derivative. Max pooling gives the difference of each window to the element that has the larger maximum.
Anything else keeps its derivative, which is exact where it is linear; ``deeplift_shap`` checks what is left.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  # as everywhere
from torch.overrides import TorchFunctionMode

from verax.core.blocks import pieces
from verax.core.repeatable import repeatable_convolutions, scatter_sums
from verax.core.shapes import Float, Int
from verax.scoring.class_scores import class_scores, target_scores
from verax.scoring.session import NOT_DIFFERENTIABLE, Session

_LEAST_ROWS = 16  # and columns, of a product of matrices that is the same for any more of them
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
class Tile:
    """Multipliers of some inputs against some references.

    Attributes:
        rows: Which inputs.
        columns: Which references.
        multipliers: One for every element of every pair.
        reference_scores: Scores of all classes for these references.
    """

    rows: slice
    columns: slice
    multipliers: Float[Tensor, "b r *shape"]
    reference_scores: Float[Tensor, "r classes"]


def tiles(
    session: Session,
    inputs: Float[Tensor, "n *shape"],
    references: Float[Tensor, "m *shape"],
    target: Int[Tensor, " n"],
) -> Iterator[Tile]:
    """Pair every input with every reference, a batch of pairs at a time, halving it when memory runs out.

    Rows are given on the session's device and in its precision.
    A tile of b inputs and r references costs r + b * r rows forward and b * r rows backward.
    """
    waiting = [(slice(0, len(inputs)), slice(0, len(references)))]
    while waiting:
        rows, columns = waiting.pop()
        count, width = rows.stop - rows.start, columns.stop - columns.start
        if count * width > session.batch_size:
            waiting.extend(cut_pairs(rows, columns, session.batch_size))
            continue
        pair = partial(_pair, session, inputs[rows], references[columns], target[rows])
        answer = session.halving(pair, count * width)
        if answer is None:
            waiting.append((rows, columns))
            continue
        session.counts.rows += width + count * width
        session.counts.rows_backward += count * width
        yield Tile(rows, columns, *answer)


def cut_pairs(rows: slice, columns: slice, size: int) -> list[tuple[slice, slice]]:
    """Cut a rectangle of pairs into nearly equal ones of at most ``size`` pairs, last one first.

    They are about square: the more inputs share a run of the references, the less it costs.
    """
    across = _parts(columns, size // min(rows.stop - rows.start, math.isqrt(size)))
    down = _parts(rows, size // (across[0].stop - across[0].start))
    return list(product(down, across))[::-1]


def _parts(whole: slice, most: int) -> list[slice]:
    """Nearly equal parts of at most ``most``."""
    count = whole.stop - whole.start
    even = -(-count // -(-count // most))
    return [slice(whole.start + part.start, whole.start + part.stop) for part in pieces(count, even)]


def _pair(
    session: Session,
    inputs: Float[Tensor, "b *shape"],
    references: Float[Tensor, "r *shape"],
    target: Int[Tensor, " b"],
) -> tuple[Float[Tensor, "b r *shape"], Float[Tensor, "r classes"]]:
    """Multipliers of every pair, and the scores of the references."""
    width = len(references)
    recording = _Recording()
    with _Caught(recording.call):
        reference_scores = class_scores(session.outputs(references), session.returns, session.output)
    pairs = inputs.repeat_interleave(width, 0).requires_grad_()
    pairing = _Pairing(iter(recording.calls), len(inputs), width)
    with torch.enable_grad(), _Caught(pairing.call, pairing.linear):
        classes = target.repeat_interleave(width)
        scores = target_scores(session.outputs(pairs), classes, session.returns, session.output)
    pairing.next_call("nothing")
    ones = torch.ones_like(scores)
    with session.clocked(), repeatable_convolutions():
        gradient = torch.autograd.grad(scores, pairs, ones, allow_unused=True)[0] if scores.requires_grad else None
    if gradient is None:
        raise TypeError(NOT_DIFFERENTIABLE.format(what="the model's output does not depend on its input"))
    return gradient.reshape(len(inputs), *references.shape), reference_scores


@dataclass(frozen=True)
class _Call:
    """A call of a nonlinear function: values before and after; for max pooling also where the maxima are."""

    name: str
    before: Tensor
    after: Tensor
    winners: Tensor | None


class _Caught(TorchFunctionMode):
    """Hands calls of nonlinear functions to another: the values, the function, its name, the axes of a max pooling.

    Those of linear layers go to ``linear``, where there is one.
    """

    def __init__(
        self, call: Callable[[Tensor, Evaluate, str, int], Tensor], linear: Callable[..., Tensor] = F.linear
    ) -> None:
        super().__init__()
        self.call, self.linear = call, linear

    def __torch_function__(
        self, func: Function, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings = dict(kwargs or {})
        if func is F.linear:
            return self.linear(*args, **settings)
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
class _Recording:
    """Keeps the calls with what they saw."""

    calls: list[_Call] = field(default_factory=list)

    def call(self, values: Tensor, function: Evaluate, name: str, axes: int) -> Tensor:
        """Call the function."""
        after, winners = function(values)
        # copies: what follows may change either in place
        self.calls.append(_Call(name, values.detach().clone(), after.detach().clone(), winners))
        return after


@dataclass
class _Pairing:
    """Gives calls on pairs, all references of the first input first, slopes between input and reference."""

    waiting: Iterator[_Call]
    inputs: int
    references: int

    def call(self, values: Tensor, function: Evaluate, name: str, axes: int) -> Tensor:
        """Call the function, and replace its derivative."""
        reference = self._reference(name, values)
        if reference is None:
            return function(values)[0]
        before = values.detach()
        with torch.no_grad():
            after, winners = function(before)
        step = self._difference(before, reference.before)
        rise = self._difference(after, reference.after)
        if winners is None or reference.winners is None:
            slope = _slope(name, step, rise, before, after, function)
            return _Sloped.apply(values, (after, slope))  # type: ignore[no-any-return, no-untyped-call]
        reference_winners = reference.winners.expand(self.inputs, *reference.winners.shape).flatten(0, 1)
        saved = after, step, rise, winners, reference_winners, axes
        return _Pooled.apply(values, saved)  # type: ignore[no-any-return, no-untyped-call]

    def linear(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # noqa: A002  # torch's
        """Call a linear layer: for some of the pairs of each input, whose rows are alike, and copy what it gives.

        Not for a single one: products of few rows are computed in another way, which the last digits show.
        """
        few = -(-_LEAST_ROWS // self.inputs)
        usual = input.ndim == weight.ndim == 2 and len(input) == self.inputs * self.references
        if not usual or few >= self.references or len(weight) < _LEAST_ROWS or input.device.type != "cpu":
            return F.linear(input, weight, bias)
        with torch.no_grad():
            rows = input.reshape(self.inputs, self.references, -1)[:, :few].flatten(0, 1)
            found = F.linear(rows, weight, bias).reshape(self.inputs, few, -1)[:, :1]
            found = found.expand(-1, self.references, -1).flatten(0, 1).contiguous()
        return _Linear.apply(input, weight, found)  # type: ignore[no-any-return, no-untyped-call]

    def next_call(self, name: str) -> _Call | None:
        """The next call on the references, which must be of the same function; ``"nothing"`` after the last one."""
        call = next(self.waiting, None)
        recorded = call.name if call else "nothing"
        if recorded != name:
            raise ValueError(
                "model: DeepLIFT needs the same functions to be called for every row, but the model's way through its "
                f"layers depends on the values: where references came to {recorded}, pairs came to {name}."
            )
        return call

    def _reference(self, name: str, values: Tensor) -> _Call | None:
        """The same call on the references; None where it works on something else than rows, such as weights."""
        call = self.next_call(name)
        assert call is not None  # noqa: S101  # it has a name
        references, pairs = tuple(call.before.shape), tuple(values.shape)
        if references and pairs == (self.inputs * references[0], *references[1:]):
            return call
        if pairs == references and torch.equal(values, call.before):
            return None
        raise ValueError(
            f"model: DeepLIFT pairs rows along the first axis, but {name} saw shape {references} for the references "
            f"and {pairs} for {self.inputs} times as many pairs; keep the rows on the first axis."
        )

    def _difference(self, pairs: Tensor, references: Tensor) -> Tensor:
        return (pairs.reshape(self.inputs, *references.shape) - references).flatten(0, 1)


def _slope(name: str, step: Tensor, rise: Tensor, before: Tensor, after: Tensor, function: Evaluate) -> Tensor:
    """The chord's slope; of a chord so short that rounding would show, the derivative in its middle."""
    if name == "relu":  # rounding does not show
        slope = rise.div_(step)
        # Equal values, which give NaN, are rare, and a sum shows them sooner than all is chosen; a GPU should not wait.
        if step.device.type == "cpu" and math.isfinite(float(slope.sum())):
            return slope
        return torch.where(step == 0, after.sign(), slope)
    with torch.enable_grad():
        middle = (before - step / 2).requires_grad_()
        (derivative,) = torch.autograd.grad(function(middle)[0].sum(), middle)
    short = step.abs() <= torch.finfo(step.dtype).eps ** 0.5
    return torch.where(short, derivative, rise.div_(step))


class _Linear(torch.autograd.Function):
    """What a linear layer gives, known already."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, found: Tensor) -> Tensor:
        ctx.save_for_backward(weight)
        return found

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> tuple[Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        return arriving[0] @ weight, None, None


class _Sloped(torch.autograd.Function):
    """A value with a slope of our own."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, saved: tuple[Tensor, Tensor]) -> Tensor:
        after, slope = saved
        ctx.save_for_backward(slope)
        return after

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return arriving[0] * slope, None


class _Pooled(torch.autograd.Function):
    """Max pooling that gives the rise of each window to the element which has the larger maximum."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, saved: tuple[Any, ...]) -> Tensor:
        after, step, rise, winners, reference_winners, ctx.axes = saved
        ctx.save_for_backward(step, rise, winners, torch.where(rise > 0, winners, reference_winners))
        return after  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> tuple[Tensor, None]:
        step, rise, winners, larger = ctx.saved_tensors
        shared = _scattered(arriving[0] * rise, larger, step, ctx.axes)
        usual = _scattered(arriving[0], winners, step, ctx.axes)
        return torch.where(step == 0, usual, shared.div_(step)), None


def _scattered(values: Tensor, places: Tensor, like: Tensor, axes: int) -> Tensor:
    """Add values at their places among the last axes; windows that overlap add up."""
    flat, where, what = torch.zeros_like(like).flatten(-axes), places.flatten(-axes), values.flatten(-axes)
    sums = scatter_sums(what, where, flat) if flat.is_cuda else flat.scatter_add_(-1, where, what)
    return sums.reshape(like.shape)
