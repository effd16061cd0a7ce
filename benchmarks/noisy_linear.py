"""ROAD's noisy linear imputation: removed pixels of a batch of images, beside Quantus, which solves image by image.

Both solve the same equations, and their solutions are compared; Quantus' noise is switched off, and so is ours. Which
pixels go: single ones at random, and the top of a smooth heat map, as attributions of a network give. Wanted: at least
5 times faster per image, on every size and share.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import common
import numpy as np
import torch
from quantus.functions.perturb_func import noisy_linear_imputation
from torch import Tensor
from torch.nn import functional

from verax.problem.replacement import Rows
from verax.replacement import NoisyLinear

IMAGES, CHANNELS = 32, 3
SIZES, SHARES = (32, 64), (0.2, 0.5, 0.9)
WANTED, EQUAL = 5.0, 1e-5


def main() -> None:
    options = common.arguments(__doc__)
    images, sizes = (4, SIZES[:1]) if options.quick else (IMAGES, SIZES)
    common.print_header(f"Noisy linear imputation, {images} images with {CHANNELS} channels")
    rows, content, worst, apart = [], {}, float("inf"), 0.0
    for size in sizes:
        values = torch.rand(images, CHANNELS, size, size, generator=torch.Generator().manual_seed(0)).double()
        for kind, heat in heat_maps(images, size).items():
            for share in SHARES:
                gone = top(heat, share)
                both = cases(values, gone)
                apart = max(apart, float((both["verax"]() - both["Quantus"]()).abs().max()))
                times = common.interleaved(both, options.repeats)
                low, middle, high = common.ratios(times["Quantus"], times["verax"])
                worst = min(worst, middle)
                each = {name: 1e3 * one / images for name, one in common.medians(times).items()}
                name = f"{size} x {size}, {kind}, {share:.0%} removed"
                rows.append((name, *(f"{one:.2f}" for one in each.values()), f"{middle:.1f} [{low:.1f}, {high:.1f}]"))
                content[name] = times
    common.print_table(("", "Verax, ms per image", "Quantus, ms per image", "ratio [quartiles]"), rows)
    print(
        f"\nLargest difference of the two solutions: {apart:.1e} ({common.verdict(apart <= EQUAL)}, wanted {EQUAL:g})"
    )
    print(f"Smallest ratio: {worst:.1f} ({common.verdict(worst >= WANTED)}, wanted {WANTED:g})")
    path = common.write_results("noisy_linear", options, images=images, largest_difference=apart, seconds=content)
    print(f"\nRaw repeats: {path}")


def heat_maps(images: int, size: int) -> dict[str, Tensor]:
    """An order of pixels at random, and one that is smooth over an eighth of the image."""
    noise = torch.rand(images, 1, size, size, generator=torch.Generator().manual_seed(1))
    return {
        "single pixels": noise,
        "heat maps": functional.interpolate(noise[..., ::8, ::8], size=size, mode="bicubic"),
    }


def top(heat: Tensor, share: float) -> Tensor:
    """The pixels with the largest values, as truth values."""
    order = heat.flatten(1).argsort(dim=1, descending=True)
    chosen = order[:, : round(share * order.shape[1])]
    return torch.zeros_like(order, dtype=torch.bool).scatter_(1, chosen, True).reshape(heat.shape)


def cases(values: Tensor, gone: Tensor) -> dict[str, Callable[[], Any]]:
    return {"verax": partial(ours, values, gone), "Quantus": partial(theirs, values, gone)}


def ours(values: Tensor, gone: Tensor) -> Tensor:
    return NoisyLinear(noise=0.0).fill(Rows(values, values), gone)


def theirs(values: Tensor, gone: Tensor) -> Tensor:
    solved = [
        noisy_linear_imputation(image.numpy(), np.flatnonzero(mask.numpy()), noise=0.0)
        for image, mask in zip(values, gone, strict=True)
    ]
    return torch.from_numpy(np.stack(solved))


if __name__ == "__main__":
    main()
