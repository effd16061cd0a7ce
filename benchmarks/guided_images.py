"""The part of ``guided.py`` on images: InceptionV1, one attribution of each of a few images.

Quantus replaces elements, not pixels, in steps of one size, so both sides take 24 steps of 512 elements here.
"""

from collections.abc import Callable
from typing import Any

import common
import torch
from peers import Quantus

import verax
from verax.metrics import DirectedPredictionChange, PredictionChange
from verax.paper.models import InceptionV1

STEPS, SIDE = 24, 64
METRICS = (PredictionChange(steps=STEPS), DirectedPredictionChange("signed", STEPS))
BARE_BATCHES = (16, 64, 256)


def measure(quick: bool, repeats: int) -> dict[str, Any]:
    model = InceptionV1(outputs=1).build(seed=0).eval()
    generator = torch.Generator().manual_seed(3)
    images, attribution = torch.randn(2, 2 if quick else 8, 3, SIDE, SIDE, generator=generator)
    peer = Quantus(model, images, images[0].numel() // STEPS)

    def evaluate() -> Any:
        return verax.evaluate(verax.Problem(model, images, features="element"), attribution, METRICS)

    ours = evaluate()
    agreement = peer.difference(attribution, ours["pc"].morf, ours["pc"].lerf, len(images))
    with common.recorded(model) as sizes:
        peer.curves(attribution, len(images))
    bare_rows = torch.randn(ours.rows, *images.shape[1:], generator=generator)
    cases: dict[str, Callable[[], object]] = {
        f"bare forward, {size}": lambda size=size: common.bare_forward(model, bare_rows, size) for size in BARE_BATCHES
    }
    cases |= {"verax": evaluate, "quantus": lambda: peer.curves(attribution, len(images))}
    rows = {"verax": ours.rows, "quantus": sum(sizes)}
    times = common.interleaved(cases, repeats)
    return {"images": len(images), "max_difference": agreement, "rows": rows, "seconds": times}


def report(found: dict[str, Any]) -> None:
    times, rows = common.medians(found["seconds"]), found["rows"]
    bare = common.fastest(times, "bare forward")
    lines = [
        (f"{bare.capitalize()} rows a batch (best)", times[bare], rows["verax"]),
        ("Verax, PC and DPC", times["verax"], rows["verax"]),
        ("Quantus, MoRF and LeRF", times["quantus"], rows["quantus"]),
    ]
    print(f"\nInceptionV1, {found['images']} images of {SIDE} x {SIDE}, 1 attribution, {STEPS} steps")
    print(f"Curves of Verax and Quantus, max |difference|: {found['max_difference']:.2g}")
    common.print_table(
        ("", "seconds", "rows", "rows/s"),
        [(what, f"{time:.3f}", f"{count:,}", f"{count / time:,.0f}") for what, time, count in lines],
    )
    low, share, high = common.ratios(found["seconds"][bare], found["seconds"]["verax"])
    print(f"Share of the bare forward's rows/s: {share:.2f}, half of the rounds from {low:.2f} to {high:.2f}")
    low, gain, high = common.ratios(found["seconds"]["quantus"], found["seconds"]["verax"])
    print(f"Quantus / Verax: {gain:.2f}, half of the rounds from {low:.2f} to {high:.2f}")
