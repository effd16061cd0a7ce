"""Guided Backpropagation: the gradient, with negative signals cut off at every ReLU (eq. 2)."""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode

from verax.attribution.activations import WatchedOperations
from verax.attribution.base import Attribution
from verax.attribution.family import Family
from verax.attribution.given import Explained, Given, Piece, Place
from verax.attribution.gradient import input_gradients
from verax.core import palette
from verax.scoring.adapters.base import without_wrapper
from verax.scoring.meter import Rows

_aten = torch.ops.aten
_IN_PLACE = {torch.relu_, Tensor.relu_, _aten.relu_, _aten.relu_.default}
_RELUS = {torch.relu, Tensor.relu, nn.functional.relu, _aten.relu, _aten.relu.default} | _IN_PLACE

# Names of autograd's nodes, without "Backward" and a number.
_GUIDED = "GuidedReLU"
_HIDDEN = {"Relu", "DifferentiableGraph", "CompiledFunction"}
_CANNOT_SEE = (
    "model: {what}, so GuidedBackprop cannot see its ReLUs. Pass the model as it was before torch.jit or "
    "torch.compile, with ReLUs that are modules or calls of torch.relu. verax.attribution.Gradient and SmoothGrad work."
)


@dataclass(frozen=True)
class GuidedBackprop(Attribution):
    """The gradient of the target logit, of which every ReLU passes only the positive part.

    At each ReLU ``r_in = 1[f > 0] 1[r_out > 0] r_out`` goes back (Springenberg et al. 2014).

    It hardly depends on the upper layers of a model (Adebayo et al. 2018, Sixt et al. 2020): ``verax.tune`` tries it
    only where it is named.

    ReLUs count however they are called: as modules, also in place or reused, as functions, as methods. Beside them
    other activations of torch (GELU, sigmoid, softmax, attention, layer norm) and products of two signals keep their
    derivative; a model that has only others is refused. So is one with a step that may be a ReLU by hand, or that is
    not known to be linear: a choice by a condition, an absolute value, a maximum, a power, a sine, an
    ``autograd.Function``. Where all is linear, but for max pooling, the result is the gradient.

    Example:
        >>> import verax
        >>> model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 1))
        >>> model[1].weight.data = torch.tensor([[3.0, -2.0]])
        >>> scorer = verax.Scorer(model, returns="logits")
        >>> GuidedBackprop()(verax.Problem(scorer, torch.ones(1, 2), target=1))  # the gradient is [3, -2]
        tensor([[3., 0.]])
    """

    local: ClassVar[bool] = True
    label: ClassVar[str] = "Guided Backpropagation"
    abbreviation: ClassVar[str] = "GB"
    colour: ClassVar[str | None] = palette.SKY
    citation: ClassVar[str] = "Springenberg et al.: Striving for simplicity: the all convolutional net, 2014"
    known_limitation: ClassVar[str] = (
        "hardly depends on the upper layers of a model, so it may look the same for another prediction "
        "(Adebayo et al. 2018, Sixt et al. 2020)"
    )

    @property
    def family(self) -> "GuidedBackpropFamily":
        """A family of its own."""
        return GuidedBackpropFamily()


@dataclass(frozen=True)
class GuidedBackpropFamily(Family):
    """One backward pass per input."""

    needs_gradients: ClassVar[bool] = True

    def rows(self, members: Sequence[GuidedBackprop], given: Given, place: Place) -> Rows:
        """One per input."""
        return Rows(len(given.inputs), len(given.inputs))

    def pieces(self, members: Sequence[GuidedBackprop], explained: Explained) -> Iterator[Piece]:
        """Yield the guided gradient, once for each member."""
        module = explained.session.module
        assert module is not None  # noqa: S101  # families that need gradients are given one
        _refuse_compiled(module)
        blocks = input_gradients(explained)
        while True:
            with guided(module):  # not around the yield, where other code runs
                block = next(blocks, None)
            if block is None:
                return
            rows, values = block
            yield Piece(rows, values.expand(len(members), *values.shape))


@contextlib.contextmanager
def guided(module: nn.Module) -> Iterator[None]:
    """Let every ReLU of this thread be guided, and check that none of the module's was missed."""
    with _GuidedReLUs() as relus:
        hooks = (module.register_forward_pre_hook(relus.begin), module.register_forward_hook(relus.end))
        try:
            yield
        finally:
            relus.stop()
            for hook in hooks:
                hook.remove()


class _GuidedReLUs(TorchFunctionMode):
    """Replaces calls of ReLU, and watches all other operations of a module on their way."""

    def __init__(self) -> None:
        super().__init__()
        self._watch: WatchedOperations | None = None

    def begin(self, module: nn.Module, inputs: Any) -> None:
        """The module begins."""
        self._watch = WatchedOperations(inputs)
        self._watch.__enter__()  # type: ignore[no-untyped-call]

    def end(self, module: nn.Module, inputs: Any, output: Any) -> None:
        """The module is done."""
        watch = self._watch
        self.stop()
        assert watch is not None  # noqa: S101  # it began
        _check(watch, without_wrapper(output, "logits"))

    def stop(self) -> None:
        """Watch no longer."""
        if self._watch is not None:
            self._watch.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self._watch = None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings = kwargs or {}
        if func not in _RELUS:
            return func(*args, **settings)
        if self._watch is None:
            return _guided_relu(func in _IN_PLACE, *args, **settings)
        with self._watch.paused():
            return _guided_relu(func in _IN_PLACE, *args, **settings)


def _guided_relu(in_place: bool, input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002  # torch's own name
    result: Tensor = GuidedReLU.apply(input)  # type: ignore[no-untyped-call]
    return input.copy_(result) if in_place or inplace else result


class GuidedReLU(torch.autograd.Function):
    """A ReLU that passes back only the positive part of what arrives."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        """Cut off negative values."""
        ctx.save_for_backward(values > 0)  # a mask of its own: the values may be overwritten in place
        return values.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> Tensor:
        """Cut off negative signals and those of inactive units."""
        (active,) = ctx.saved_tensors
        return torch.where(active, arriving[0].clamp(min=0), 0)


def _refuse_compiled(module: nn.Module) -> None:
    for name, part in module.named_modules():
        compiled = getattr(part, "_compiled_call_impl", None) is not None or type(part).__name__ == "OptimizedModule"
        if compiled or isinstance(part, torch.jit.ScriptModule):
            where = f"its part {name!r}" if name else "it"
            how = "compiled" if compiled else "a TorchScript module"
            raise TypeError(_CANNOT_SEE.format(what=f"{where} is {how}"))


def _check(watch: WatchedOperations, output: object) -> None:
    """Refuse a model with steps that may hide a ReLU, or with other activations only."""
    if not isinstance(output, Tensor) or output.grad_fn is None:
        return
    nodes = _nodes(output)
    hidden = watch.unknown | {_name(node) for node in nodes if _hides(node)}
    if hidden:
        raise TypeError(_CANNOT_SEE.format(what=f"it has operations that may hide them ({', '.join(sorted(hidden))})"))
    if watch.activations and _GUIDED not in map(_name, nodes):
        raise ValueError(
            f"model: GuidedBackprop is defined for networks of ReLUs; this one has none, but other activations "
            f"({', '.join(sorted(watch.activations))}). verax.attribution.Gradient and SmoothGrad work."
        )


def _hides(node: Any) -> bool:
    """Whether an operation of autograd is a ReLU that was missed, or one whose inside cannot be seen."""
    own = isinstance(node, BackwardCFunction) and _name(node) != _GUIDED
    return own or _name(node) in _HIDDEN


def _name(node: Any) -> str:
    return re.sub(r"^.*::|Backward\d*$", "", node.name())


def _nodes(output: Tensor) -> set[Any]:
    """The operations of autograd that led to an output."""
    waiting, seen = [output.grad_fn], {output.grad_fn}
    while waiting:
        node = waiting.pop()
        assert node is not None  # noqa: S101  # only nodes are put in
        following = {step for step, _ in node.next_functions if step is not None} - seen
        seen |= following
        waiting.extend(following)
    return seen
