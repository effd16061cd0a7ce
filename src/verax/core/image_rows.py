"""Rows of images written by one kernel each, where there is a GPU that can: no mask and no copy comes in between."""

import functools
import importlib.util

import torch
from torch import Tensor

from verax.core.shapes import Bool, Int, Shaped


def can_write(device: torch.device, layout: torch.memory_format) -> bool:
    """Whether there is a kernel: for images with their channels last on a CUDA device, where Triton is installed."""
    return device.type == "cuda" and layout is torch.channels_last and _has_triton()


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def rows_by_rank(
    inputs: Shaped[Tensor, "b c h w"],
    baselines: Shaped[Tensor, "own c h w"],
    at: Int[Tensor, " m"],
    ranks: Int[Tensor, "lines pixels"],
    cuts: tuple[Int[Tensor, " m"], Int[Tensor, " m"], Bool[Tensor, " m"]],
) -> Shaped[Tensor, "m c h w"]:
    """Inputs whose pixels before a cut of a ranking are replaced, or those behind it."""
    from verax.core import image_kernels  # noqa: PLC0415  # Triton is not everywhere

    _, channels, height, width = inputs.shape
    out = torch.empty_like(inputs[:1].expand(len(at), *inputs.shape[1:]), memory_format=torch.channels_last)
    line, bound, least = cuts
    sizes = (int(len(baselines) > 1), height * width, channels)
    tensors = (out, inputs, baselines, ranks, line, bound, least, at)
    with torch.cuda.device(out.device):  # Triton starts its kernels on the current one
        image_kernels.launch(image_kernels.by_rank, len(at), inputs[0].numel(), *tensors, *sizes)
    return out


def rows_by_segment(
    image: Shaped[Tensor, "c h w"],
    off: Shaped[Tensor, "c h w"],
    segments: Int[Tensor, "h w"],
    shown: Bool[Tensor, "m segments"],
    out: Shaped[Tensor, "m c h w"],
) -> None:
    """Write an image where the segment of a pixel is shown, and its replacement elsewhere; all channels last."""
    from verax.core import image_kernels  # noqa: PLC0415  # Triton is not everywhere

    channels, height, width = image.shape
    sizes = (shown.shape[1], height * width, channels)
    tensors = (out, image, off, segments, shown)
    with torch.cuda.device(out.device):  # Triton starts its kernels on the current one
        image_kernels.launch(image_kernels.by_segment, len(out), image.numel(), *tensors, *sizes)
