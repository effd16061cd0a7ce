"""Holding a module for a call: evaluation mode, device, memory layout. All of it is always restored."""

import contextlib
import threading
from collections.abc import Iterator
from weakref import WeakKeyDictionary

import torch
from torch import nn

_LOCKS: WeakKeyDictionary[object, threading.RLock] = WeakKeyDictionary()
_NEW_LOCK = threading.Lock()


@contextlib.contextmanager
def one_thread_at_a_time(module: nn.Module | None, scorer: object) -> Iterator[None]:
    """Let other threads wait that use the same model: its mode, device and layout belong to one call at a time.

    Args:
        module: The model, if it is a torch module; models that share a layer with it wait as well.
        scorer: What other models are known by.
    """
    owners = [scorer] if module is None else sorted(module.modules(), key=id)  # one order, so that none blocks another
    with _NEW_LOCK:
        locks = [_LOCKS.setdefault(owner, threading.RLock()) for owner in owners]
    with contextlib.ExitStack() as stack:
        for lock in locks:
            stack.enter_context(lock)
        yield


@contextlib.contextmanager
def evaluation_mode(module: nn.Module | None) -> Iterator[None]:
    """Switch to evaluation mode and give every submodule its own mode back."""
    if module is None:
        yield
        return
    modes = [(part, part.training) for part in module.modules()]
    try:
        with contextlib.suppress(NotImplementedError):  # an exported program has one mode and no switch
            module.eval()
        yield
    finally:
        for part, training in modes:
            part.training = training


@contextlib.contextmanager
def gradients_off() -> Iterator[None]:
    """Off, but to be had on demand, also where the caller is in inference mode."""
    with torch.inference_mode(False), torch.no_grad():
        yield


@contextlib.contextmanager
def moved(module: nn.Module | None, home: torch.device, target: torch.device) -> Iterator[None]:
    """Bring a module to another device and back."""
    if module is None or home == target:
        yield
        return
    try:
        module.to(target)
        yield
    finally:
        module.to(home)


@contextlib.contextmanager
def laid_out(module: nn.Module | None, layout: torch.memory_format) -> Iterator[None]:
    """Lay the weights of convolutions out as their inputs will be; the very memory they had before comes back."""
    if module is None or layout is not torch.channels_last:
        yield
        return
    images = [weight for weight in module.parameters() if weight.ndim == 4 and not weight.is_inference()]
    before = [weight.data for weight in images]
    try:
        with gradients_off():
            for weight in images:
                weight.data = weight.data.contiguous(memory_format=layout)
        yield
    finally:
        for weight, data in zip(images, before, strict=True):
            weight.data = data
