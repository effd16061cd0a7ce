"""Inference: how plain forward passes run, on the user's module itself or on a copy made fast for them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from verax.adapters import Adapter
from verax.adapters.torch_module import TorchModule
from verax.folding import folded
from verax.holding import gradients_off
from verax.precision import DTYPES, Precision
from verax.shapes import Float

_PLAIN = (bool, int, float, str, tuple, type(None))


@dataclass(frozen=True)
class Runner:
    """What runs batches, and how it wants them.

    Attributes:
        adapter: The model.
        dtype: The precision of batches.
        layout: Their memory layout.
        fixed: Whether all batches must have the same number of rows.
    """

    adapter: Adapter
    dtype: torch.dtype
    layout: torch.memory_format
    fixed: bool = False

    def filled(self, batch: Float[Tensor, "n *shape"], size: int) -> Float[Tensor, "size *shape"]:
        """Fill a batch up with copies of its first row, which any model can take."""
        rest = batch[:1].expand(size - len(batch), *batch.shape[1:])
        return torch.cat((batch, rest)).to(memory_format=self.layout)


class Inference:
    """Makes the copy on which plain forward passes run, if one is asked for by a precision or by ``compile``.

    The copy has its batch norms folded, its weights cast and laid out, and is compiled if so wanted. Weights are read
    anew for every session. What was compiled is kept and used again as long as the module keeps its structure.
    """

    def __init__(self, adapter: Adapter, precision: Precision | None, compile: bool) -> None:  # noqa: A002
        wanted = "compile" if compile else f"precision: {precision!r}"
        if (compile or precision in ("bfloat16", "float16")) and not isinstance(adapter, TorchModule):
            raise TypeError(f"{wanted} needs a torch module, found a model behind {type(adapter).__name__}.")
        self.adapter, self.precision, self.compile = adapter, precision, compile
        self.kept: nn.Module | None = None
        self.structure: list[Any] = []
        self.compiled: Any = None
        self.seen: tuple[list[Any], list[Tensor]] = ([], [])  # the module that was compiled, as it was

    def runner(self, plain: Runner) -> Runner:
        """Give the runner of a session's plain forward passes; ``plain`` itself where nothing else is asked for."""
        wanted = self.precision is not None or self.compile
        if not wanted or not isinstance(self.adapter, TorchModule):
            return plain
        own = DTYPES[self.precision] if self.precision else plain.dtype
        if self.compiled is not None and self._as_seen(self.adapter.module):
            return Runner(replace(self.adapter, module=self.compiled), own, plain.layout, fixed=True)
        with gradients_off():
            fresh = folded(self.adapter.module).to(own)
            if plain.layout is torch.channels_last:
                fresh = fresh.to(memory_format=plain.layout)  # type: ignore[call-overload]
            module = self._compiled(fresh) if self.compile else fresh
        return Runner(replace(self.adapter, module=module), own, plain.layout, fixed=self.compile)

    def _compiled(self, fresh: nn.Module) -> Any:
        structure = _structure(fresh)
        if self.kept is not None and self.structure == structure:
            for old, new in zip(_tensors(self.kept), _tensors(fresh), strict=True):
                old.copy_(new)
        else:
            self.kept, self.structure, self.compiled = fresh, structure, torch.compile(fresh, dynamic=False)
        whole = self.adapter.module
        assert whole is not None  # noqa: S101  # runner() has seen that it is a module
        self.seen = _structure(whole), [one.detach().clone() for one in _tensors(whole)]
        return self.compiled

    def _as_seen(self, module: nn.Module) -> bool:
        """Whether the module is the same to the last bit as at the last call, which is quicker to see than to fold."""
        structure, tensors = self.seen
        return structure == _structure(module) and all(map(torch.equal, tensors, _tensors(module)))


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _structure(module: nn.Module) -> list[Any]:
    """All that a compiled module takes for granted: layers with their settings and hooks, and the form of tensors."""
    found: list[Any] = [(one.shape, one.dtype, one.device, one.stride()) for one in _tensors(module)]
    for name, part in module.named_modules():
        settings = {key: value for key, value in vars(part).items() if isinstance(value, _PLAIN)}
        found.append((name, type(part), settings, tuple(part._forward_hooks), tuple(part._forward_pre_hooks)))
    return found
