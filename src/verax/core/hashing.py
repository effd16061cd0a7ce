"""Hashes of values: the same values give the same hash in every process and on every machine."""

import hashlib
import json
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
