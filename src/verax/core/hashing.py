"""Hashes of values, the same in every process and on every machine, and checksums inside files."""

import hashlib
import json
import re
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

BLANK_CHECKSUM = "sealed:" + 64 * "0"
_CHECKSUM = re.compile(rb"sealed:[0-9a-f]{64}")


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


def with_checksum(content: bytes) -> bytes:
    """Put the hash of a file where it holds ``BLANK_CHECKSUM`` or an older checksum; it is taken with the blank there.

    Example:
        >>> with_checksum(b"values " + BLANK_CHECKSUM.encode())[:22]
        b'values sealed:9bd70a89'
    """
    blank = _CHECKSUM.sub(BLANK_CHECKSUM.encode(), content)
    return blank.replace(BLANK_CHECKSUM.encode(), f"sealed:{hashlib.sha256(blank).hexdigest()}".encode())


def has_valid_checksum(content: bytes) -> bool:
    """Whether a file holds the hash of itself: every byte is what was written.

    Example:
        >>> has_valid_checksum(with_checksum(BLANK_CHECKSUM.encode())), has_valid_checksum(BLANK_CHECKSUM.encode())
        (True, False)
    """
    return bool(_CHECKSUM.search(content)) and content == with_checksum(content)
