"""Triton kernels that write rows of images, channels last. Imported where there is a GPU; see ``image_rows``."""

from typing import Any

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]

_BLOCK = 2048


def launch(kernel: Any, rows: int, numbers: int, *arguments: Any) -> None:
    """Start a kernel over so many rows of so many numbers."""
    kernel[(rows, triton.cdiv(numbers, _BLOCK))](*arguments, block=_BLOCK, num_warps=8)


@triton.jit  # type: ignore[untyped-decorator]
def by_rank(  # type: ignore[no-untyped-def]
    out, inputs, baselines, ranks, line, bound, least, at, own, pixels, channels: tl.constexpr, block: tl.constexpr
):
    """Write the baseline of a pixel where its rank is below the bound, or where it is not if the least go."""
    row = tl.program_id(0).to(tl.int64)
    number = tl.program_id(1) * block + tl.arange(0, block)
    inside = number < pixels * channels
    source = tl.load(at + row) * pixels * channels
    rank = tl.load(ranks + tl.load(line + row) * pixels + number // channels, mask=inside)
    gone = (rank < tl.load(bound + row)) != (tl.load(least + row) != 0)
    kept = tl.load(inputs + source + number, mask=inside)
    replaced = tl.load(baselines + source * own + number, mask=inside)
    tl.store(out + row * pixels * channels + number, tl.where(gone, replaced, kept), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def by_segment(  # type: ignore[no-untyped-def]
    out, image, off, segments, shown, count, pixels, channels: tl.constexpr, block: tl.constexpr
):
    """Write the image where the segment of a pixel is shown, its replacement elsewhere."""
    row = tl.program_id(0).to(tl.int64)
    number = tl.program_id(1) * block + tl.arange(0, block)
    inside = number < pixels * channels
    segment = tl.load(segments + number // channels, mask=inside, other=0)
    seen = tl.load(shown + row * count + segment, mask=inside, other=0) != 0
    kept = tl.load(image + number, mask=inside)
    replaced = tl.load(off + number, mask=inside)
    tl.store(out + row * pixels * channels + number, tl.where(seen, kept, replaced), mask=inside)
