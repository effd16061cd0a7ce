"""DeepLIFT's rescale rule: multipliers that turn the difference of an input to a reference into that of their scores.

While the model runs, calls of nonlinear functions are replaced, however they are made: as modules (in place or reused),
as functions, as methods. Inputs run once, each as often as references go with it at a time; what comes after is the
same graph for all of them. References run, what the nonlinear functions saw is kept, and in the way back through the
graph each activation gets the slope of its chord, ``(f(x) - f(r)) / (x - r)``, in place of its derivative. Max pooling
gives the difference of each window to the element that has the larger maximum. Anything else keeps its derivative,
which is exact where it is linear; ``deeplift_shap`` checks what is left. The last step, from the model's outputs to
log-odds or a probability, gets its mean derivative on the straight way between the two outputs.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch
from numpy.polynomial.legendre import leggauss
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  # as everywhere
from torch.overrides import TorchFunctionMode

from verax.core.blocks import deterministic_convolutions, deterministic_scatter_add, pieces
from verax.core.shapes import Float, Int
from verax.scoring.class_scores import class_scores, target_scores
from verax.scoring.meter import Rows
from verax.scoring.session import NOT_DIFFERENTIABLE, Session

_POINTS = 16  # of the way between two outputs
_INDEPENDENT = NOT_DIFFERENTIABLE.format(what="the model's output does not depend on its input")
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

    def each(self, change: Callable[[Tensor], Tensor]) -> "Call":
        winners = None if self.winners is None else change(self.winners)
        return Call(self.name, change(self.before), change(self.after), winners)


def _apart(*counts: int) -> Callable[[Tensor], Tensor]:
    """Cuts the first axis into so many rows, of so many, of what belongs to each."""
    return lambda values: values.reshape(*counts, -1, *values.shape[1:])


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
        seen = self.seen
        step, rise = seen.before - reference.before, seen.after - reference.after
        if seen.winners is None or reference.winners is None:
            self.slope = _slope(seen, step, rise, self.function).flatten(0, 2)
            return
        larger = torch.where(rise > 0, seen.winners, reference.winners)
        self.slope = rise.flatten(0, 2)
        self.pooled = step.flatten(0, 2), seen.winners.expand(larger.shape).flatten(0, 2), larger.flatten(0, 2)


def _next_call(waiting: Iterator[Call], name: str) -> Call:
    """The next call on the references, which must be of the same function."""
    call = next(waiting, None)
    if call is None or call.name != name:
        raise ValueError(_OTHER_WAY.format(references="nothing" if call is None else call.name, pairs=name))
    return call


def _check_end(waiting: Iterator[Call]) -> None:
    if call := next(waiting, None):
        raise ValueError(_OTHER_WAY.format(references=call.name, pairs="nothing"))


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


@dataclass(frozen=True)
class Tile:
    """Multipliers of some inputs against some references."""

    rows: slice  # which inputs
    columns: slice  # which references
    multipliers: Float[Tensor, "b r *shape"]  # one for every element of every pair
    reference_scores: Float[Tensor, "r classes"]  # scores of all classes for these references


def tiles(
    session: Session,
    inputs: Float[Tensor, "n *shape"],
    references: Float[Tensor, "m *shape"],
    target: Int[Tensor, " n"],
) -> Iterator[Tile]:
    """Pair every input with every reference, a batch of pairs at a time, halving it when memory runs out."""
    waiting = [(slice(0, len(inputs)), slice(0, len(references)))]
    while waiting:
        rows, columns = waiting.pop()
        whole, *others = _parts(rows, session.batch_size)
        waiting.extend((part, columns) for part in reversed(others))
        graph = _Graph(session, inputs[whole], target[whole], _width(whole, columns, session.batch_size))
        for part in _parts(columns, graph.width):
            answer = session.halving(partial(graph.multipliers, references[part]), len(graph.inputs) * graph.width)
            if answer is None:
                waiting.append((whole, slice(part.start, columns.stop)))
                break
            yield Tile(whole, part, *answer)


def pair_rows(inputs: int, references: int, batch_size: int) -> Rows:
    """Model rows of ``tiles`` while memory lasts: each part of the inputs once, all references for each part."""
    columns, cost = slice(0, references), Rows(0)
    for rows in _parts(slice(0, inputs), batch_size):
        count, width = rows.stop - rows.start, _width(rows, columns, batch_size)
        runs = len(_parts(columns, width))
        cost += Rows((count + runs) * width, count * runs * width)
    return cost


def _width(rows: slice, columns: slice, size: int) -> int:
    """How many references go with some inputs at a time: as many as let a batch be full, but evenly."""
    most = max(1, size // (rows.stop - rows.start))
    first = _parts(columns, most)[0]
    return int(first.stop - first.start)


def _parts(whole: slice, most: int) -> list[slice]:
    """Nearly equal parts of at most ``most``."""
    count = whole.stop - whole.start
    even = -(-count // -(-count // most))
    return [slice(whole.start + part.start, whole.start + part.stop) for part in pieces(count, even)]


class _Graph:
    """Some inputs, each as often as references go with it, on their way through the model."""

    def __init__(
        self, session: Session, inputs: Float[Tensor, "b *shape"], target: Int[Tensor, " b"], width: int
    ) -> None:
        self.session, self.inputs, self.target, self.width = session, inputs, target, width
        self.ends: tuple[Tensor, Tensor] | None = None  # pairs and the model's outputs, once they have run
        # of each call of a nonlinear function; none for what works on something else than rows, such as weights
        self.called: list[_Multiplier | None] = []

    def multipliers(
        self, references: Float[Tensor, "r *shape"]
    ) -> tuple[Float[Tensor, "b r *shape"], Float[Tensor, "r classes"]]:
        """Multipliers of every pair, and the scores of the references, which may be fewer than the graph is wide."""
        session, count = self.session, len(references)
        rows = torch.cat((references, references[-1:].expand(self.width - count, *references.shape[1:])))
        calls: list[Call] = []

        def keep(values: Tensor, function: Evaluate, name: str, axes: int) -> Tensor:
            after, winners = function(values)
            # copies: what follows may change either in place
            calls.append(Call(name, values.detach().clone(), after.detach().clone(), winners))
            return after

        with CaughtCalls(keep):
            reference_outputs = session.outputs(rows)
        reference_scores = class_scores(reference_outputs, session.returns, session.output)
        session.counts.rows += self.width
        pairs, outputs = self.ends = self.ends or self._run(calls)
        waiting = iter(calls)
        for multiplier in self.called:
            if multiplier is None:
                next(waiting, None)
            else:
                multiplier.meet(_next_call(waiting, multiplier.seen.name).each(_apart(self.width)))
        _check_end(waiting)
        arriving = self._last_step(outputs.detach(), reference_outputs.detach().repeat(len(self.inputs), 1))
        with session.clocked(), deterministic_convolutions():
            (gradient,) = torch.autograd.grad(outputs, pairs, arriving, True, allow_unused=True)
        if gradient is None:
            raise TypeError(_INDEPENDENT)
        session.counts.rows_backward += len(pairs)
        return gradient.reshape(len(self.inputs), *rows.shape)[:, :count], reference_scores[:count]

    def _run(self, calls: Sequence[Call]) -> tuple[Tensor, Tensor]:
        """Run the inputs, after references, which made some calls."""
        session, waiting = self.session, iter(calls)

        def slope(values: Tensor, function: Evaluate, name: str, axes: int) -> Tensor:
            """Call the function, whose derivative will be another for each set of references."""
            if not self._of_rows(values, _next_call(waiting, name)):
                self.called.append(None)
                return function(values)[0]
            after, winners = function(values.detach())
            # of pairs, the first of each input: they are copies; copied, because what follows may change it in place
            seen = Call(name, values.detach(), after, winners).each(_apart(len(self.inputs), self.width))
            multiplier = _Multiplier(seen.each(lambda values: values[:, :1].clone()), function, axes)
            self.called.append(multiplier)
            return _Sloped.apply(values, (after, multiplier))  # type: ignore[no-any-return, no-untyped-call]

        pairs = self.inputs.repeat_interleave(self.width, 0).requires_grad_()
        with torch.enable_grad(), CaughtCalls(slope):
            outputs = session.outputs(pairs)
        _check_end(waiting)
        if not outputs.requires_grad:
            raise TypeError(_INDEPENDENT)
        session.counts.rows += len(pairs)
        return pairs, outputs

    def _of_rows(self, values: Tensor, reference: Call) -> bool:
        references, pairs = tuple(reference.before.shape), tuple(values.shape)
        several = references and references[0] % self.width == 0
        if several and pairs == (len(self.inputs) * references[0], *references[1:]):
            return True
        if pairs == references and torch.equal(values, reference.before):
            return False
        raise ValueError(
            f"model: DeepLIFT pairs rows along the first axis, but {reference.name} saw shape {references} for the "
            f"references and {pairs} for {len(self.inputs)} times as many pairs; keep the rows on the first axis."
        )

    def _last_step(
        self, outputs: Float[Tensor, "pairs outputs"], references: Float[Tensor, "pairs outputs"]
    ) -> Float[Tensor, "pairs outputs"]:
        """Multipliers from the model's outputs to the scores: what they make of differences adds up to the scores'."""
        # the mean gradient of the score between the two outputs, by Gauss and Legendre's rule; what it misses of the
        # difference goes to the outputs that count
        session, classes = self.session, self.target.repeat_interleave(self.width)

        def score(at: Float[Tensor, "pairs outputs"]) -> Float[Tensor, " pairs"]:
            return target_scores(at, classes, session.returns, session.output)

        def gradient(at: Float[Tensor, "pairs outputs"]) -> Float[Tensor, "pairs outputs"]:
            with torch.enable_grad():
                leaf = at.requires_grad_()
                (grad,) = torch.autograd.grad(score(leaf).sum(), leaf)
            return grad

        if session.returns == "values" or (session.returns == "logits" and session.output == "logit"):
            return gradient(outputs.clone())
        way = outputs - references
        places, weights = ((1 + part) / 2 if at == 0 else part / 2 for at, part in enumerate(leggauss(_POINTS)))
        mean = torch.zeros_like(outputs)
        for place, weight in zip(places.tolist(), weights.tolist(), strict=True):
            mean += weight * gradient(references + place * way)
        missed = score(outputs) - score(references) - (mean * way).sum(1)
        counts = mean.square() * way
        total = (counts * way).sum(1)
        return mean + (missed / torch.where(total == 0, 1.0, total))[:, None] * counts
