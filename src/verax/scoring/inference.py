"""Inference: how plain forward passes run, on the user's module itself or on a copy made fast for them."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from verax.core.shapes import Shaped
from verax.core.warn import warn
from verax.scoring.adapters import Adapter
from verax.scoring.adapters.torch_module import TorchModule
from verax.scoring.batchnorm_folding import folded
from verax.scoring.companions import Companions
from verax.scoring.model_state import gradients_off
from verax.scoring.precision import DTYPES, Precision, single_precision

_COMPARED = 8  # rows on which a copy is compared with its module
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

    def filled(self, batch: Shaped[Tensor, "n *shape"], size: int) -> Shaped[Tensor, "size *shape"]:
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
            raise TypeError(f"{wanted} needs a torch module, got a model behind {type(adapter).__name__}.")
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
        companions: Companions | None = None,
    ) -> Runner:
        """Give the runner of a session's plain forward passes; ``plain`` itself where nothing else is asked for.

        Args:
            plain: What runs the module itself.
            inputs: Rows of which the first are used to compare the copy with the module.
            device: Where the module is.
            companions: What comes with the inputs.
        """
        wanted = self.precision is not None or self.compile
        if not wanted or not isinstance(self.adapter, TorchModule):
            return plain
        own = DTYPES[self.precision] if self.precision else plain.dtype
        make = self._compiled if self.compile else self._fast_copy
        rows = inputs[:_COMPARED].to(device, plain.dtype, copy=True)
        beside = None if companions is None else companions.at(torch.arange(len(rows), device=device))
        with gradients_off():
            module = make(_Trial(self.adapter, rows, beside), own, plain.layout)
        taken = own if plain.dtype.is_floating_point else plain.dtype  # whole numbers stay what they are
        return Runner(replace(self.adapter, module=module), taken, plain.layout, fixed=self.compile)

    def _compiled(self, trial: "_Trial", dtype: torch.dtype, layout: torch.memory_format) -> Any:
        """The compiled copy, with new weights where they changed; to compare them is quicker than to fold them."""
        module = trial.adapter.module
        structure, weights = [self.folds, *_structure(module)], list(_tensors(module))
        same = self.kept is not None and structure == self.structure
        if same and _equal(weights, self.weights):
            return self.compiled
        fresh = self._fast_copy(trial, dtype, layout)
        same, structure[0] = same and structure[0] == self.folds, self.folds
        if same and self.kept is not None:
            for old, new in zip(_tensors(self.kept), _tensors(fresh), strict=True):
                old.copy_(new)
        else:
            self.kept, self.compiled = fresh, torch.compile(fresh, dynamic=False)
        self.structure, self.weights = structure, [one.detach().clone() for one in weights]
        return self.compiled

    def _fast_copy(self, trial: "_Trial", dtype: torch.dtype, layout: torch.memory_format) -> nn.Module:
        module = trial.adapter.module
        fresh = folded(module) if self.folds else copy.deepcopy(module)
        if _kinds(fresh) != _kinds(module) and not trial.agree(fresh):
            warn(
                "The copy of the model with its batch norms folded gives other outputs than the model, so the model "
                "runs without folding, more slowly: it uses some of its layers in a way that its forward does not "
                "show. Leave precision and compile out to run the model itself.",
            )
            fresh, self.folds = copy.deepcopy(module), False
        fresh = fresh.to(dtype)
        return fresh.to(memory_format=layout) if layout is torch.channels_last else fresh  # type: ignore[call-overload]


def _kinds(module: nn.Module) -> list[type[nn.Module]]:
    return [type(part) for part in module.modules()]


@dataclass(frozen=True)
class _Trial:
    """Rows on which a copy of a module is compared with it."""

    adapter: TorchModule
    rows: Shaped[Tensor, "n *shape"]
    companions: Companions | None

    def agree(self, fresh: nn.Module) -> bool:
        """Whether a copy gives the outputs of the module, up to rounding, in the module's own precision."""
        with single_precision("float32"):
            found, wanted = (self._outputs(one) for one in (fresh, self.adapter.module))
        if found.shape != wanted.shape:
            return False
        eps = torch.finfo(self.rows.dtype if self.rows.is_floating_point() else torch.float32).eps
        slack = min(1e4 * eps, 0.05) * max(1.0, float(wanted.abs().max()))
        return bool(torch.allclose(found, wanted, rtol=0, atol=slack, equal_nan=True))

    def _outputs(self, module: nn.Module) -> Tensor:
        found = replace(self.adapter, module=module)(self.rows.clone(), "torch", self.companions)
        return found.to(torch.float64, copy=True) if isinstance(found, Tensor) else torch.zeros(0)


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _equal(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    """Whether all are equal, asked once: a GPU answers each question only when its queue has run empty."""
    return not first or bool(
        torch.stack([(one == other).all() for one, other in zip(first, second, strict=True)]).all()
    )


def _structure(module: nn.Module) -> list[Any]:
    """All that a compiled module takes for granted: layers with their settings and hooks, and the form of tensors."""
    found: list[Any] = [(one.shape, one.dtype, one.device, one.stride()) for one in _tensors(module)]
    for name, part in module.named_modules():
        settings = {key: value for key, value in vars(part).items() if isinstance(value, _PLAIN)}
        found.append((name, type(part), settings, tuple(part._forward_hooks), tuple(part._forward_pre_hooks)))
    return found
