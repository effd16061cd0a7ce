"""How PC and DPC grow: with inputs, attributions, steps and the size of images, in time and memory.

Time of one call against the number of inputs, of attributions and of steps (the paper's network on 60 features, random
attributions, so that few rows coincide), each at five sizes, as the slope of a straight line through the logarithms: 1
is linear. For images of growing size the call is compared with a bare InceptionV1 forward over as many rows. Memory is
what the call adds to a fresh process.
"""

import json
import math
from collections.abc import Callable
from typing import Any

import common
import torch

import verax
from verax.metrics import DirectedPredictionChange, PredictionChange
from verax.paper.models import InceptionV1
from verax.scoring.scorer import automatic_batch_size

METRICS = ("pc", DirectedPredictionChange(order="signed"))
FEATURES = 60
BASE = {"inputs": 512, "attributions": 8, "steps": 20}
SIZES = {
    "inputs": (256, 512, 1024, 2048, 4096),
    "attributions": (4, 8, 16, 32, 64),
    "steps": (5, 10, 20, 30, 60),
}
IMAGES = (32, 64, 96, 128)
WANTED = 0.1  # farthest from a slope of 1


def main() -> None:
    options = common.arguments(__doc__)
    if options.memory_worker:
        print(json.dumps({axis: memory(axis, options.quick) for axis in SIZES}))
        return
    common.print_header("Growth of PC and DPC (signed)")
    growth = {axis: grow(axis, options) for axis in SIZES}
    images = {str(size): of_images(size, options) for size in (IMAGES[:2] if options.quick else IMAGES)}
    peak = common.in_fresh_process(__file__, *(["--quick"] if options.quick else []))
    report(growth, images, peak)
    path = common.write_results("growth", options, growth=growth, images=images, memory=peak)
    print(f"\nRaw repeats: {path}")


def sizes_of(axis: str, quick: bool) -> tuple[int, ...]:
    return tuple(max(2, size // (4 if quick else 1)) for size in SIZES[axis])


def case_of(axis: str, size: int) -> Callable[[], Any]:
    """The evaluation of one size, from the problem on."""
    base = {**BASE, axis: size}
    inputs = common.normal_inputs(base["inputs"], FEATURES)
    generator = torch.Generator().manual_seed(2)
    attributions = torch.randn(base["attributions"], *inputs.shape, generator=generator)
    steps = base["steps"]
    metrics = (PredictionChange(steps=steps), DirectedPredictionChange("signed", steps))
    model = common.paper_mlp(FEATURES)
    return lambda: verax.evaluate(verax.Problem(model, inputs), attributions, metrics)


def grow(axis: str, options: Any) -> dict[str, Any]:
    cases, rows = {}, {}
    for size in sizes_of(axis, options.quick):
        cases[str(size)] = case_of(axis, size)
        rows[str(size)] = cases[str(size)]().rows
    return {"rows": rows, "seconds": common.interleaved(cases, options.repeats)}


def memory(axis: str, quick: bool) -> dict[str, int]:
    """Extra bytes at each size, the largest last, after a small call has loaded everything."""
    case_of("inputs", 16)()
    found = {}
    for size in sizes_of(axis, quick):
        found[str(size)] = common.peak_extra_bytes(case_of(axis, size))["extra"]
    return found


def of_images(size: int, options: Any) -> dict[str, Any]:
    """PC and DPC of a few images and the bare forward over as many rows."""
    model = InceptionV1().build(seed=0).eval()
    generator = torch.Generator().manual_seed(3)
    images, attributions = torch.randn(2, 2, 3, size, size, generator=generator)

    def evaluate() -> Any:
        return verax.evaluate(verax.Problem(model, images), attributions, METRICS)

    rows = evaluate().rows
    ready = torch.randn(rows, 3, size, size, generator=generator)
    batch = min(rows, automatic_batch_size(ready[0].numel(), torch.device("cpu")))
    cases = {
        "verax": evaluate,
        "bare forward": lambda: common.bare_forward(model, ready, batch),
    }
    return {"rows": rows, "seconds": common.interleaved(cases, options.repeats)}


def slope(seconds: dict[str, float]) -> float:
    """Of the straight line through the logarithms of sizes and times."""
    x = torch.tensor([math.log(int(size)) for size in seconds], dtype=torch.float64)
    y = torch.tensor([math.log(time) for time in seconds.values()], dtype=torch.float64)
    x = x - x.mean()
    return float((x * y).sum() / (x * x).sum())


def report(growth: dict[str, Any], images: dict[str, Any], peak: dict[str, dict[str, int]]) -> None:
    for axis, found in growth.items():
        times = common.medians(found["seconds"])
        rows = [
            (size, f"{found['rows'][size]:,}", f"{taken:.3f}", f"{peak[axis][size] / 2**20:.0f}")
            for size, taken in times.items()
        ]
        common.print_table((axis, "rows", "seconds", "extra MiB"), rows)
        found["slope"] = slope(times)
        reached = common.verdict(abs(found["slope"] - 1) <= WANTED)
        print(f"slope {found['slope']:.3f} ({reached}, wanted within {WANTED:.0%} of 1)\n")
    lines = []
    for size, found in images.items():
        times = common.medians(found["seconds"])
        share = times["bare forward"] / times["verax"]
        lines.append((f"{size} x {size}", f"{found['rows']}", f"{times['verax']:.2f}", f"{share:.2f}"))
    common.print_table(("InceptionV1, 2 images", "rows", "seconds", "share of bare forward"), lines)


if __name__ == "__main__":
    main()
