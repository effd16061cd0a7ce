"""What a model does to its inputs, operation by operation: which activations it has, and which steps may hide one.

Watches the operations that torch carries out, whatever Python wrote them: a ReLU by hand is a product with a condition,
an absolute value or a maximum. Only operations known to be linear in the inputs, and known activations, pass; any other
one is named, so that nothing is taken for linear by mistake.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


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
    """Sorts the operations that lead from some inputs to what is computed from them.

    Args:
        inputs: What the operations are followed from.

    Attributes:
        activations: Known operations that are not linear.
        unknown: Operations that may hide an activation.
    """

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
        return False  # compiled modules are refused; else torch imports its compiler here, which takes over a second

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Carry out one operation, and sort it."""
        given = list(_tensors((args, kwargs)))
        values = any(map(self._depends, given))
        conditions = any(_memory(one) in self._conditions for one in given)
        found = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[-1]
        name = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        if not (values or conditions) or name in _CONSTANT:
            return found
        if values and self._sorting:
            self._sort(name, conditions, args)
        # whole numbers and truths are conditions, as is what is made of conditions alone
        for one in _tensors(found):
            self._follow(self._values if values and one.is_floating_point() else self._conditions, [one])
        return found

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
        for one in tensors:
            into[_memory(one)] = one.untyped_storage()


def _factors(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The two factors of a product; what it is added to comes first."""
    return args[1:3] if name.startswith(("add", "badd")) else args[:2]


def _memory(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _tensors(values: Any) -> Iterator[Tensor]:
    return (one for one in tree_leaves(values) if isinstance(one, Tensor))
