"""How a model runs: what it may fail with, evaluation mode, device, memory layout, precision, and a faster copy."""

import contextlib
import copy
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from verax.core.shapes import Shaped
from verax.core.warn import warn
from verax.scoring.adapters import Adapter
from verax.scoring.adapters.base import RowArguments
from verax.scoring.adapters.torch_module import TorchModule
from verax.scoring.batchnorm_folding import folded


class ModelError(ValueError, RuntimeError):
    """The model itself failed on the rows that it was given. Its own error is the cause of this one."""


def failure(error: RuntimeError, rows: int) -> ModelError:
    """What to raise in the place of a model's own error: torch's may be pages long, and name no argument."""
    message = textwrap.shorten(str(error), 300, placeholder=" ...") or type(error).__name__
    compiling = type(error).__module__.startswith(("torch._dynamo", "torch._inductor"))
    advice = " torch.compile cannot do with it: leave compile out." if compiling else ""
    return ModelError(f"model: it failed on a batch of {rows} rows: {message.rstrip('.')}.{advice}")


def is_out_of_memory(error: BaseException) -> bool:
    """Tell an exhausted memory, of the device or of the machine, from any other failure."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("allocate memory" in text or "out of memory" in text)


_LOCKS: WeakKeyDictionary[object, threading.RLock] = WeakKeyDictionary()
_NEW_LOCK = threading.Lock()


@contextlib.contextmanager
def one_thread_at_a_time(module: nn.Module | None, scorer: object) -> Iterator[None]:
    """Let other threads wait that use the same model: its mode, device and layout belong to one call at a time."""
    owners = [scorer] if module is None else sorted(module.modules(), key=id)  # one order, so that none blocks another
    with _NEW_LOCK:
        locks = [_LOCKS.setdefault(owner, threading.RLock()) for owner in owners]
    with contextlib.ExitStack() as stack:
        for lock in locks:
            stack.enter_context(lock)
        yield


@contextlib.contextmanager
def gradients_off() -> Iterator[None]:
    """Off, but to be had on demand, also where the caller is in inference mode."""
    with torch.inference_mode(False), torch.no_grad():
        yield


@contextlib.contextmanager
def ready(
    module: nn.Module | None, home: torch.device, target: torch.device, layout: torch.memory_format
) -> Iterator[None]:
    """In evaluation mode, on a device, weights of convolutions laid out as their inputs; all of it always restored."""
    if module is None:
        yield
        return
    modes = [(part, part.training) for part in module.modules()]
    before: list[tuple[Tensor, Tensor]] = []  # weights, and the very memory that comes back
    try:
        with contextlib.suppress(NotImplementedError):  # an exported program has one mode and no switch
            module.eval()
        if home != target:
            module.to(target)
        if layout is torch.channels_last:
            before = [(each, each.data) for each in module.parameters() if each.ndim == 4 and not each.is_inference()]
            with gradients_off():
                for weight, data in before:
                    weight.data = data.contiguous(memory_format=layout)
        yield
    finally:
        for weight, data in before:
            weight.data = data
        if home != target:
            module.to(home)
        for part, training in modes:
            part.training = training


Precision = Literal["float32", "tf32", "bfloat16", "float16"]

DTYPES: dict[Precision, torch.dtype] = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@contextlib.contextmanager
def single_precision(precision: Precision | None) -> Iterator[None]:
    """Let products of float32 numbers be exact (``"float32"``) or rounded to TF32; other precisions change nothing."""
    if precision not in ("float32", "tf32"):
        yield
        return
    products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    try:
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions


_COMPARED = 8  # rows on which a copy is compared with its module
_PLAIN = (bool, int, float, str, tuple, type(None))


@dataclass(frozen=True)
class Runner:
    """What runs batches, and how it wants them."""

    adapter: Adapter  # the model
    dtype: torch.dtype  # the precision of batches
    layout: torch.memory_format  # their memory layout
    fixed: bool = False  # whether all batches must have the same number of rows

    def filled(self, batch: Shaped[Tensor, "n *shape"], size: int) -> Shaped[Tensor, "size *shape"]:
        """Fill a batch up with copies of its first row, which any model can take."""
        rest = batch[:1].expand(size - len(batch), *batch.shape[1:])
        return torch.cat((batch, rest)).to(memory_format=self.layout)


class Inference:
    """Makes the folded, cast and maybe compiled copy on which plain forward passes run, if a setting asks for one.

    Weights are read anew for every session; what was compiled is used again while the module keeps its structure.
    """

    def __init__(self, adapter: Adapter, precision: Precision | None, compile: bool) -> None:  # noqa: A002
        setting = "compile" if compile else f"precision: {precision!r}"
        if (compile or precision in ("bfloat16", "float16")) and not isinstance(adapter, TorchModule):
            raise TypeError(f"{setting} needs a torch module, got a model behind {type(adapter).__name__}.")
        self.adapter, self.precision, self.compile = adapter, precision, compile
        self.folds = True  # until a folded copy is found to give other outputs
        self.kept: nn.Module | None = None
        self.compiled: Any = None
        self.structure: list[Any] = []  # of the user's module when it was last copied
        self.weights: list[Tensor] = []  # and its weights

    def runner(
        self,
        plain: Runner,
        inputs: Shaped[Tensor, "n *shape"],
        device: torch.device,
        row_arguments: RowArguments | None = None,
    ) -> Runner:
        """Give the runner of a session's plain forward passes; ``plain`` itself where nothing else is asked for."""
        if not (self.precision or self.compile) or not isinstance(self.adapter, TorchModule):
            return plain
        dtype = DTYPES[self.precision] if self.precision else plain.dtype
        make = self._compiled if self.compile else self._fast_copy
        rows = inputs[:_COMPARED].to(device, plain.dtype, copy=True)
        beside = None if row_arguments is None else row_arguments.at(torch.arange(len(rows), device=device))
        with gradients_off():
            module = make(partial(_agrees, self.adapter, rows, beside), dtype, plain.layout)
        taken = dtype if plain.dtype.is_floating_point else plain.dtype  # whole numbers stay what they are
        return Runner(replace(self.adapter, module=module), taken, plain.layout, fixed=self.compile)

    def _compiled(self, agrees: "_Check", dtype: torch.dtype, layout: torch.memory_format) -> Any:
        """The compiled copy, with new weights where they changed; to compare them is quicker than to fold them."""
        module: Any = self.adapter.module
        structure, weights = [self.folds, *_structure(module)], _tensors(module)
        same = self.kept is not None and structure == self.structure
        if same and _equal(weights, self.weights):
            return self.compiled
        fresh = self._fast_copy(agrees, dtype, layout)
        same, structure[0] = same and structure[0] == self.folds, self.folds
        if same and self.kept is not None:
            for old, new in zip(_tensors(self.kept), _tensors(fresh), strict=True):
                old.copy_(new)
        else:
            self.kept, self.compiled = fresh, torch.compile(fresh, dynamic=False)
        self.structure, self.weights = structure, [weight.detach().clone() for weight in weights]
        return self.compiled

    def _fast_copy(self, agrees: "_Check", dtype: torch.dtype, layout: torch.memory_format) -> nn.Module:
        module: Any = self.adapter.module
        fresh = folded(module) if self.folds else copy.deepcopy(module)
        changed = [type(part) for part in fresh.modules()] != [type(part) for part in module.modules()]
        if changed and not agrees(fresh):
            warn(
                "The copy of the model with its batch norms folded gives other outputs than the model, so the model "
                "runs without folding, more slowly: it uses some of its layers in a way that its forward does not "
                "show. Leave precision and compile out to run the model itself.",
            )
            fresh, self.folds = copy.deepcopy(module), False
        fresh = fresh.to(dtype)
        return fresh.to(memory_format=layout) if layout is torch.channels_last else fresh  # type: ignore[call-overload]


_Check = Callable[[nn.Module], bool]


def _agrees(
    adapter: TorchModule, rows: Shaped[Tensor, "n *shape"], beside: RowArguments | None, fresh: nn.Module
) -> bool:

    def outputs_of(module: nn.Module) -> Tensor:
        outputs = replace(adapter, module=module)(rows.clone(), "torch", beside)
        return outputs.to(torch.float64, copy=True) if isinstance(outputs, Tensor) else torch.zeros(0)

    with single_precision("float32"):
        outputs, expected = outputs_of(fresh), outputs_of(adapter.module)
    if outputs.shape != expected.shape:
        return False
    eps = torch.finfo(rows.dtype if rows.is_floating_point() else torch.float32).eps
    slack = min(1e4 * eps, 0.05) * max(1.0, float(expected.abs().max()))
    return bool(torch.allclose(outputs, expected, rtol=0, atol=slack, equal_nan=True))


def _tensors(module: nn.Module) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]


def _equal(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    """Whether all are equal, asked once: a GPU answers each question only when its queue has run empty."""
    return not first or bool(
        torch.stack([(value == other).all() for value, other in zip(first, second, strict=True)]).all()
    )


def _structure(module: nn.Module) -> list[Any]:
    """All that a compiled module takes for granted: layers with their settings and hooks, and the form of tensors."""
    facts: list[Any] = [(tensor.shape, tensor.dtype, tensor.device, tensor.stride()) for tensor in _tensors(module)]
    for name, part in module.named_modules():
        settings = {key: value for key, value in vars(part).items() if isinstance(value, _PLAIN)}
        facts.append((name, type(part), settings, tuple(part._forward_hooks), tuple(part._forward_pre_hooks)))
    return facts
