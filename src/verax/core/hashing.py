"""Hashes of values: the same values give the same hash in every process and on every machine."""

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor


def digest(**parts: Any) -> str:
    """Hash named values that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, allow_nan=False).encode()).hexdigest()


def tensor_hash(*tensors: Tensor) -> str:
    """Hash of the values of tensors."""
    digest = hashlib.sha256()
    for tensor in tensors:
        own = tensor.detach().cpu().contiguous()
        digest.update(f"{own.dtype} {tuple(own.shape)}\n".encode())
        digest.update(own.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def stable_form(value: Any) -> str:
    """A frozen value in words that are the same in every process; tensors as a hash of them."""
    if isinstance(value, Tensor):
        return tensor_hash(value)
    if is_dataclass(value) and not isinstance(value, type):
        settings = ", ".join(f"{field.name}={stable_form(getattr(value, field.name))}" for field in fields(value))
        return f"{type(value).__module__}.{type(value).__qualname__}({settings})"
    return repr(value)
