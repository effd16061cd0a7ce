"""Guided Backpropagation: the gradient, with negative signals cut off at every ReLU (eq. 2)."""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from verax.attribution.base import Attribution
from verax.attribution.family import Piece
from verax.attribution.gradient import GradientFamily
from verax.core import palette
from verax.problem.problem import Problem
from verax.scoring.adapters.base import without_wrapper


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Names of torch's operations, without the underscore that marks those in place.
_CONSTANT = _names(
    "zeros_like ones_like empty_like full_like rand_like randn_like new_zeros new_ones new_empty new_full "
    "new_empty_strided"
)
_LINEAR = _names(
    # sums, copies and changes of shape
    "add sub rsub neg sum mean cumsum cat stack clone copy _to_copy detach alias lift_fresh fill zero view "
    "_unsafe_view _reshape_alias t transpose permute expand squeeze unsqueeze select slice split split_with_sizes "
    "unbind unfold diagonal as_strided flip roll repeat constant_pad_nd reflection_pad1d reflection_pad2d "
    "reflection_pad3d replication_pad1d replication_pad2d replication_pad3d im2col col2im pixel_shuffle "
    "pixel_unshuffle tril triu "
    # means over neighbours, and interpolation
    "avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d upsample_nearest1d "
    "upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d upsample_linear1d "
    "upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d _upsample_bilinear2d_aa "
    # the largest of neighbours: through it the signal goes as for the gradient, as in the publication
    "max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d adaptive_max_pool3d "
    # conditions, which matter where they are used
    "gt ge lt le eq ne isnan isinf isfinite argmax argmin"
)
_SCALED = _names("div")  # linear unless the divisor depends on the inputs
_PRODUCTS = _names(  # linear unless both factors depend on the inputs
    "mul mm bmm mv dot addmm addmv addr baddbmm addbmm addcmul linear convolution"
)
_CHOICES = _names(  # linear unless what is chosen depends on the inputs
    "where masked_fill masked_scatter index index_select gather take index_put index_add scatter scatter_add"
)
_BATCH_NORMS = _names(
    "native_batch_norm cudnn_batch_norm miopen_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training"
)
_ACTIVATIONS = _names(
    "celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu log_sigmoid_forward _log_softmax mish "
    "_prelu_kernel rrelu_with_noise selu sigmoid silu _softmax _safe_softmax softplus softshrink tanh "
    "native_layer_norm native_group_norm"
)


class WatchedOperations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sorts the operations that lead from some inputs to what is computed from them."""

    def __init__(self, inputs: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.activations: set[str] = set()
        self.unknown: set[str] = set()
        self._sorting = True
        # Memory, not tensors: views share it. It is held, so that none of it becomes some other tensor's.
        self._values: dict[int, Any] = {}
        self._conditions: dict[int, Any] = {}
        self._follow(self._values, _tensors(inputs))

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # compiled modules raise; else torch imports its compiler here, which takes over a second

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        arguments = list(_tensors((args, kwargs)))
        values = any(map(self._depends, arguments))
        conditions = any(_memory(tensor) in self._conditions for tensor in arguments)
        output = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[-1]
        name = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        if not (values or conditions) or name in _CONSTANT:
            return output
        if values and self._sorting:
            self._sort(name, conditions, args)
        # whole numbers and truths are conditions, as is what is made of conditions alone
        for tensor in _tensors(output):
            self._follow(self._values if values and tensor.is_floating_point() else self._conditions, [tensor])
        return output

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Follow operations, but do not sort them: they are known."""
        before, self._sorting = self._sorting, False
        yield
        self._sorting = before

    def _sort(self, name: str, conditions: bool, args: tuple[Any, ...]) -> None:
        if name in _LINEAR or (name in _SCALED and not self._depends(args[1])):
            return
        if name in _PRODUCTS | _CHOICES:
            if conditions:
                self.unknown.add(f"{name} by a condition on its own values")
            elif name in _PRODUCTS and all(map(self._depends, _factors(name, args))):
                self.activations.add(f"{name} of its own values")
        elif name in _BATCH_NORMS:
            if "no_training" not in name and (args[5] if len(args) > 5 else True):
                self.activations.add("normalisation by the batch")
        elif name in _ACTIVATIONS or name.startswith("_scaled_dot_product"):
            self.activations.add(name.lstrip("_"))
        else:
            self.unknown.add(name.lstrip("_"))

    def _depends(self, value: Any) -> bool:
        return isinstance(value, Tensor) and _memory(value) in self._values

    def _follow(self, into: dict[int, Any], tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            into[_memory(tensor)] = tensor.untyped_storage()


def _factors(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The two factors of a product; what it is added to comes first."""
    return args[1:3] if name.startswith(("add", "badd")) else args[:2]


def _memory(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _tensors(values: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor))


_aten = torch.ops.aten
_IN_PLACE = {torch.relu_, Tensor.relu_, _aten.relu_, _aten.relu_.default}
_RELUS = {torch.relu, Tensor.relu, nn.functional.relu, _aten.relu, _aten.relu.default} | _IN_PLACE

# Names of autograd's nodes, without "Backward" and a number.
_GUIDED = "GuidedReLU"
_HIDDEN = {"Relu", "DifferentiableGraph", "CompiledFunction"}
_CANNOT_SEE = (
    "model: {what}, so GuidedBackprop finds no ReLUs in it. Pass the model as it was before torch.jit or "
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
    derivative; a model that has only others raises. So is one with a step that may be a ReLU by hand, or that is
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
        return GuidedBackpropFamily()


@dataclass(frozen=True)
class GuidedBackpropFamily(GradientFamily):
    """One backward pass per input."""

    def pieces(self, members: Sequence[Attribution], problem: Problem) -> Iterator[Piece]:
        module = problem.open_session.module
        assert module is not None  # noqa: S101  # families that need gradients are given one
        _check_no_compiled(module)
        blocks = super().pieces(members, problem)
        while True:
            with _guided(module):  # not around the yield, where other code runs
                piece = next(blocks, None)
            if piece is None:
                return
            yield piece


@contextlib.contextmanager
def _guided(module: nn.Module) -> Iterator[None]:
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
        self._watch = WatchedOperations(inputs)
        self._watch.__enter__()  # type: ignore[no-untyped-call]

    def end(self, module: nn.Module, inputs: Any, output: Any) -> None:
        watch = self._watch
        self.stop()
        assert watch is not None  # noqa: S101  # it began
        _check(watch, without_wrapper(output, "logits"))

    def stop(self) -> None:
        if self._watch is not None:
            self._watch.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self._watch = None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings = kwargs or {}
        if func not in _RELUS:
            return func(*args, **settings)
        with contextlib.nullcontext() if self._watch is None else self._watch.paused():
            return _guided_relu(func in _IN_PLACE, *args, **settings)


def _guided_relu(in_place: bool, input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002  # torch's own name
    result: Tensor = GuidedReLU.apply(input)  # type: ignore[no-untyped-call]
    return input.copy_(result) if in_place or inplace else result


class GuidedReLU(torch.autograd.Function):
    """A ReLU that passes back only the positive part of what arrives."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        ctx.save_for_backward(values > 0)  # a mask of its own: the values may be overwritten in place
        return values.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> Tensor:
        (active,) = ctx.saved_tensors
        return torch.where(active, arriving[0].clamp(min=0), 0)


def _check_no_compiled(module: nn.Module) -> None:
    for name, part in module.named_modules():
        compiled = getattr(part, "_compiled_call_impl", None) is not None or type(part).__name__ == "OptimizedModule"
        if compiled or isinstance(part, torch.jit.ScriptModule):
            where = f"its part {name!r}" if name else "it"
            how = "compiled" if compiled else "a TorchScript module"
            raise TypeError(_CANNOT_SEE.format(what=f"{where} is {how}"))


def _check(watch: WatchedOperations, output: object) -> None:
    """Raise for a model with steps that may hide a ReLU, or with other activations only."""
    if not isinstance(output, Tensor) or output.grad_fn is None:
        return
    nodes = _nodes(output)
    # ReLUs that were missed, and operations of autograd whose inside cannot be seen
    custom = {_name(node) for node in nodes if isinstance(node, BackwardCFunction)} - {_GUIDED}
    hidden = watch.unknown | custom | ({_name(node) for node in nodes} & _HIDDEN)
    if hidden:
        raise TypeError(_CANNOT_SEE.format(what=f"it has operations that may hide them ({', '.join(sorted(hidden))})"))
    if watch.activations and _GUIDED not in map(_name, nodes):
        raise ValueError(
            f"model: GuidedBackprop is defined for networks of ReLUs; this one has none, but other activations "
            f"({', '.join(sorted(watch.activations))}). verax.attribution.Gradient and SmoothGrad work."
        )


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
