"""Precision: the number format in which a model runs, from exact single precision to half precision."""

import contextlib
from collections.abc import Iterator
from typing import Literal, get_args

import torch

Precision = Literal["float32", "tf32", "bfloat16", "float16"]

DTYPES: dict[Precision, torch.dtype] = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def checked_precision(precision: str | None) -> None:
    """Refuse an unknown precision."""
    if precision is not None and precision not in get_args(Precision):
        names = ", ".join(f'"{name}"' for name in get_args(Precision))
        raise ValueError(f"precision: expected None or one of {names}, got {precision!r}.")


@contextlib.contextmanager
def single_precision(precision: Precision | None) -> Iterator[None]:
    """Let products of float32 numbers be exact (``"float32"``) or rounded to TF32, and restore torch's settings.

    Other precisions leave torch's settings alone.
    """
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
