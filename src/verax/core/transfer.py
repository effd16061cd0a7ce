"""Transfers: data goes to a GPU while it computes."""

import contextlib
import functools
from typing import Any

import torch
from torch import Tensor


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
