"""Arrays in, the same kind of arrays out: NumPy or torch, one attribution, a stack, or a dict by name."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from verax.core.shapes import Shaped

ArrayKind = Literal["torch", "numpy"]


def as_tensor(name: str, value: object) -> Tensor:
    """Read an array argument without copying where possible; gradients are cut off."""
    if isinstance(value, Tensor):
        return value.detach()
    if hasattr(value, "toarray"):
        raise TypeError(f"{name}: a sparse matrix ({type(value).__name__}) is not taken; pass {name}.toarray().")
    try:
        array = np.asarray(value)
        # torch cannot hold NumPy's read-only flag or negative strides
        return torch.from_numpy(array if array.flags.writeable and array.flags.c_contiguous else array.copy())
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected an array of numbers, found {type(value).__name__} ({error}).") from None


def kind_of(value: object) -> ArrayKind:
    """Tell the array library that the user works with."""
    return "torch" if isinstance(value, Tensor) else "numpy"


@dataclass(frozen=True)
class Layout:
    """How the user handed the attributions in, and so how results go back.

    Attributes:
        form: One attribution, a stack of them, or a dict by name.
        names: The names, for a dict.
        kind: NumPy or torch.
        device: The device of the inputs.
        dtype: The dtype of results.
    """

    form: Literal["one", "stack", "dict"]
    names: tuple[str, ...]
    kind: ArrayKind
    device: torch.device
    dtype: torch.dtype

    def pack(self, values: Shaped[Tensor, "k *rest"]) -> Any:
        """Give a stack of results the form, kind, device and dtype of what came in."""
        if values.is_floating_point():
            values = values.to(self.dtype)
        values = values.to(self.device)
        if values.is_inference():
            values = values.clone()  # a plain tensor, so that the user may go on to differentiate with it
        return self.arrange([self._native(value) for value in values], stacked=self._native(values))

    def arrange(self, items: list[Any], stacked: Any = None) -> Any:
        """Give one item per attribution the form of what came in."""
        if self.form == "dict":
            return dict(zip(self.names, items, strict=True))
        if self.form == "one":
            return items[0]
        return items if stacked is None else stacked

    def _native(self, value: Tensor) -> Any:
        return value.cpu().numpy() if self.kind == "numpy" else value
