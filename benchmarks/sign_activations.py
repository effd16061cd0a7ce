"""How often the error that adaptive steps state holds where it is not promised: on networks of sign activations.

They are level almost everywhere and jump, and where every scored point is level nothing tells of a jump. 30 kinds of
random networks; each cell is a kind, a metric and a tolerance, with three networks, 24 inputs and two random
attributions.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import common
import torch
from adaptive_steps import FULL
from torch import Tensor

import verax
from verax.metrics import DirectedPredictionChange, LocalPredictionChange, PredictionChange

FEATURES = (40, 100, 784)
SHAPES = (*product((1,), (1, 3, 8, 16, 32, 64)), *product((2,), (3, 8, 16, 64)))  # layers and units
METRICS: dict[str, Any] = {
    "PC": PredictionChange(),
    "DPC": DirectedPredictionChange(),
    "DPC, by magnitude": DirectedPredictionChange("magnitude"),
    "LPC": LocalPredictionChange(epsilon=0.1),
}
TOLERANCES = (0.05, 0.01)
ROUNDING = 1e-9  # of scores in double precision


def main() -> None:
    options = common.arguments(__doc__)
    common.print_header("Adaptive steps on sign activations")
    networks, inputs = (1, 4) if options.quick else (3, 24)
    cells: dict[str, Any] = {}
    for features, (layers, units) in product(FEATURES, SHAPES):
        drawn = [network(features, layers, units, inputs, seed) for seed in range(networks)]
        for label, metric in METRICS.items():
            found = [pairs(*one, metric) for one in drawn]
            for tolerance in TOLERANCES:
                name = f"{label}: {features} features, {layers} x {units} units, {tolerance:g}"
                cells[name] = cell([each[tolerance] for each in found])
    for label in METRICS:
        shares = [one["held"] for name, one in cells.items() if name.startswith(f"{label}:")]
        low = sum(share < 0.95 for share in shares)
        print(
            f"{label}: held for {min(shares):.1%} to {max(shares):.1%} of pairs; below 95 % in {low} of {len(shares)}"
        )
    print(f"\nAll figures: {common.write_results('sign_activations', options, cells=cells)}")


def network(
    features: int, layers: int, units: int, inputs: int, seed: int
) -> tuple[Callable[[Tensor], Tensor], Tensor, Tensor]:
    """A random network, inputs and attributions of them."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    weights = [drawn(features, units) / math.sqrt(features), *(drawn(units, units) for _ in range(layers - 1))]
    shifts, last = [0.3 * drawn(units) for _ in weights], 2 * drawn(units) / math.sqrt(units)

    def score(rows: Tensor) -> Tensor:
        for weight, shift in zip(weights, shifts, strict=True):
            rows = torch.sign(rows @ weight + shift)
        return rows @ last

    return score, drawn(inputs, features), drawn(2, inputs, features)


def pairs(
    score: Callable[[Tensor], Tensor], inputs: Tensor, attributions: Tensor, metric: Any
) -> dict[float, tuple[Tensor, Tensor]]:
    """By tolerance, of each pair of input and attribution the error, and the one that is stated."""
    problem = verax.Problem(verax.Scorer(score, returns="logits"), inputs)
    metrics = {f"{tolerance}": replace(metric, steps="adaptive", tolerance=tolerance) for tolerance in TOLERANCES}
    found = verax.evaluate(problem, attributions, {"full": replace(metric, steps=FULL), **metrics})
    wanted = found["full"].value
    return {each: ((found[f"{each}"].value - wanted).abs(), found[f"{each}"].error) for each in TOLERANCES}


def cell(found: list[tuple[Tensor, Tensor]]) -> dict[str, Any]:
    """The share of pairs whose error is no larger than stated, and how many of the others stated 0."""
    error, stated = (torch.cat([part.flatten() for part in parts]) for parts in zip(*found, strict=True))
    fails = error > stated + ROUNDING
    held = 1 - float(fails.double().mean())
    return {"pairs": len(error), "held": held, "failed": int(fails.sum()), "of them 0": int((stated[fails] == 0).sum())}


if __name__ == "__main__":
    main()
