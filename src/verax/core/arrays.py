"""Arrays in, the same kind of arrays out, on their way to a GPU and back while it computes.

NumPy or torch; one attribution, a stack, or a dict by name.
"""

import contextlib
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from verax.core.shapes import Shaped

ArrayKind = Literal["torch", "numpy"]
_SHOWN = 5  # names of a message
_TABLES = "verax.tables.problem(model, frame, background=train_frame) makes a problem of them, which every verb takes"
_TEXTS = "verax.text.classification(model, tokenizer, texts) makes a problem of them, which every verb takes"


def as_tensor(name: str, value: object) -> Tensor:
    """Read an array argument without copying where possible; gradients are cut off."""
    if isinstance(value, Tensor):
        return value.detach()
    if hasattr(value, "toarray"):
        raise TypeError(f"{name}: a sparse matrix ({type(value).__name__}) is not taken; pass {name}.toarray().")
    rows = name in ("inputs", "background")
    if rows and (columns := text_columns(value)):
        raise TypeError(f"{name}: text or categories in {', '.join(columns[:_SHOWN])}; {_TABLES}.")
    try:
        array = np.asarray(value)
        if rows and array.dtype.kind in "OUSTMm":
            raise TypeError(_not_numbers(array))
        # torch cannot hold NumPy's read-only flag or negative strides
        return torch.from_numpy(array if array.flags.writeable and array.flags.c_contiguous else array.copy())
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected an array of numbers, got {type(value).__name__} ({error}).") from None


def text_columns(value: object) -> list[str]:
    """Columns of a data frame that hold no numbers; none for anything else."""
    columns = getattr(value, "columns", None)
    if columns is None or not hasattr(value, "to_numpy"):
        return []
    frame: Any = value
    return [str(name) for name in columns if not _is_number(frame[name].dtype)]


def _is_number(dtype: Any) -> bool:
    return bool(dtype.is_numeric()) if hasattr(dtype, "is_numeric") else getattr(dtype, "kind", "O") in "fiub"


def _not_numbers(array: Any) -> str:
    """What an array of objects, texts or dates holds, and what takes such values."""
    first = next((value for value in array.flat if isinstance(value, str | bytes | dict)), None)
    if isinstance(first, dict):
        return f"rows as dicts: make a data frame of them, and if it holds text, {_TABLES}"
    if first is None:
        return f"values of type {array.dtype}; convert them first, a data frame with frame.astype(float)"
    if array.ndim < 2:
        return f"texts; {_TEXTS}"
    return f"text among the values: as a data frame, {_TABLES}"


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

    def labels(self, count: int) -> tuple[str, ...]:
        """What so many attributions are called in tables and figures: their names, or their numbers in a stack."""
        if self.form == "stack":
            return tuple(f"attribution {number}" for number in range(count))
        return self.names or ("attribution",)

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


def joined_rows(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of one kind as one."""
    if len(arrays) == 1:
        return arrays[0]
    kinds = {str(array.dtype) for array in arrays}
    if len(kinds) > 1:
        raise TypeError(f"batches: expected numbers of one kind in all, got {' and '.join(sorted(kinds))}.")
    if isinstance(arrays[0], Tensor):
        return torch.cat(list(arrays), dim=axis)
    return np.concatenate(list(arrays), axis=axis)


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Copy to a device; to a GPU beside its running work, for which the host then does not wait."""
    if device.type != "cuda" or values.device.type == "cuda":
        return values.to(device)
    with torch.cuda.stream(_copies(device)):
        moved = values.to(device)  # the host waits for this copy alone: nothing else is in the stream
    moved.record_stream(torch.cuda.current_stream(device))
    return moved


def on_host(values: Tensor) -> Any:
    """The values as a NumPy array, from a GPU beside its running work; for tensors that are complete, such as inputs.

    Half precision, which NumPy has only in part, becomes single.
    """
    with torch.cuda.stream(_copies(values.device)) if values.device.type == "cuda" else contextlib.nullcontext():
        half = values.is_floating_point() and values.element_size() < 4
        return (values.float() if half else values).cpu().numpy()


def send(values: Tensor, device: torch.device) -> Tensor:
    """Copy a few numbers to a device without waiting; ordinary memory would make a GPU's queue run empty first."""
    if device.type != "cuda" or values.device.type == "cuda":
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


@functools.cache
def _copies(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def wait_for(device: torch.device | None) -> None:
    """Let work queued on an accelerator finish, so that a clock can be read."""
    if device is not None and device.type == "cuda":
        torch.cuda.synchronize(device)
