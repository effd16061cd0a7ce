"""Adaptive against fixed steps: how far are scores from those at one feature per step, and for how many model rows?

Tables, images of 64 and 1,024 pixels, trees and a network of random weights; PC, DPC and LPC; for fixed steps of DPC
the rules "sum" and "coherent", which are equal at one feature per step and for adaptive steps. Errors are
those that 95 of 100 pairs of input and attribution stay below; "held" is the share whose error is below the stated one.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import common
import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from torch import Tensor, nn

import verax
from verax.attribution import Gradient, Occlusion, SmoothGrad, attribute
from verax.datasets import load_breast_cancer, load_digits
from verax.metrics import DirectedPredictionChange, LocalPredictionChange, PredictionChange

FULL = 10**6
TOLERANCES = (0.05, 0.01, 0.002)
FIXED = (5, 10, 20, 40, 80, 160, 320)
METRICS: dict[str, Any] = {
    "PC": PredictionChange(),
    "DPC": DirectedPredictionChange(),
    "DPC morf": DirectedPredictionChange(area="morf"),
    "LPC": LocalPredictionChange(epsilon=0.1),
}


@dataclass(frozen=True)
class Case:
    """A model, its inputs, and attributions of them."""

    model: Any
    inputs: Tensor
    attributions: Tensor


def main() -> None:
    options = common.arguments(__doc__)
    common.print_header("Adaptive against fixed steps")
    found: dict[str, Any] = {}
    for name, make in cases(options).items():
        case = make()
        for label, metric in METRICS.items():
            found[f"{name}, {label}"] = compared(case, metric)
            report(f"{name}, {label}", found[f"{name}, {label}"])
    summary(found)
    print(f"\nAll figures: {common.write_results('adaptive_steps', options, found=found)}")


def compared(case: Case, metric: Any) -> dict[str, Any]:
    """Rows and errors of adaptive steps and of each fixed number."""
    pairs = case.attributions.shape[0] * len(case.inputs)
    full = verax.evaluate(case.model, case.inputs, case.attributions, {"it": replace(metric, steps=FULL)})
    wanted, features = full["it"].value, full["it"].steps
    found: dict[str, Any] = {"features": features, "full rows": full.rows / pairs, "adaptive": {}, "fixed": {}}
    for tolerance in TOLERANCES:
        adaptive = replace(metric, steps="adaptive", tolerance=tolerance)
        result = verax.evaluate(case.model, case.inputs, case.attributions, {"it": adaptive})
        error = (result["it"].value - wanted).abs()
        found["adaptive"][tolerance] = {
            "rows": result.rows / pairs,
            "error": float(error.quantile(0.95)),
            "held": float((error <= result["it"].error + 1e-6).double().mean()),
            "stated": float(result["it"].error.mean()),
        }
    for rule in ("sum", "coherent") if hasattr(metric, "rule") else ("",):
        own = replace(metric, rule=rule) if rule else metric
        for steps in (number for number in FIXED if number < features):
            result = verax.evaluate(case.model, case.inputs, case.attributions, {"it": replace(own, steps=steps)})
            error = (result["it"].value - wanted).abs()
            named = f"{steps} {rule}".strip()
            found["fixed"][named] = {"rows": result.rows / pairs, "error": float(error.quantile(0.95))}
    return found


def rows_of_fixed(found: dict[str, Any], error: float) -> float:
    """Rows of the smallest fixed number of steps whose error is no larger; all of them at one feature per step."""
    enough: list[float] = [one["rows"] for one in found["fixed"].values() if one["error"] <= error]
    return min([*enough, found["full rows"]])


def report(name: str, found: dict[str, Any]) -> None:
    lines = [
        (f"adaptive, {tolerance:g}", f"{one['rows']:.1f}", f"{one['error']:.4f}", f"{one['held']:.3f}")
        for tolerance, one in found["adaptive"].items()
    ]
    lines += [(f"{steps}", f"{one['rows']:.1f}", f"{one['error']:.4f}", "") for steps, one in found["fixed"].items()]
    lines.append((f"{found['features']}", f"{found['full rows']:.1f}", "0", ""))
    print(f"\n{name}")
    common.print_table(("steps", "rows", "error", "held"), lines)


def summary(found: dict[str, Any]) -> None:
    """For each case: rows at the middle tolerance, and rows of the fixed steps of equal error."""
    lines = []
    for name, one in found.items():
        cells = []
        for tolerance in TOLERANCES:
            adaptive = one["adaptive"][tolerance]
            equal = rows_of_fixed(one, adaptive["error"])
            cells.append(f"{adaptive['rows']:.0f} / {equal:.0f}, {adaptive['held']:.3f}")
        lines.append((name, str(one["features"]), *cells))
    print("\nRows of adaptive steps / of fixed steps of equal error, and share of inputs whose stated error held")
    common.print_table(("case", "features", *(f"tolerance {tolerance:g}" for tolerance in TOLERANCES)), lines)


def cases(options: argparse.Namespace) -> dict[str, Callable[[], Case]]:
    n = 8 if options.quick else 48
    return {
        "paper's MLP, 20 features": lambda: with_gradients(common.paper_mlp(), common.normal_inputs(4 * n)),
        "cancer, MLP": lambda: with_gradients(*trained_on_cancer(4 * n)),
        "cancer, forest": lambda: of_trees(RandomForestClassifier(50, random_state=0), 2 * n),
        "cancer, boosted trees": lambda: of_trees(HistGradientBoostingClassifier(random_state=0), 2 * n),
        "digits, linear": lambda: with_gradients(*trained_on_digits(linear(64), 1, n)),
        "digits, CNN": lambda: with_gradients(*trained_on_digits(cnn(), 1, n)),
        "digits 32 x 32, linear": lambda: with_gradients(*trained_on_digits(linear(1024), 4, n // 2)),
        "digits 32 x 32, CNN": lambda: with_gradients(*trained_on_digits(cnn(), 4, n // 2)),
        "random weights, 200 features": lambda: with_gradients(random_network(200), common.normal_inputs(n, 200)),
    }


def with_gradients(model: nn.Module, inputs: Tensor) -> Case:
    scorer = verax.Scorer(model.eval(), returns="logits")
    gradient, smooth = attribute((Gradient(), SmoothGrad(sigma=0.25)), scorer, inputs).values()
    noise = torch.randn(inputs.shape, generator=torch.Generator().manual_seed(3))
    return Case(scorer, inputs, torch.stack([gradient, gradient * inputs, smooth, noise]))


def of_trees(model: Any, n: int) -> Case:
    inputs, labels = cancer()
    model.fit(inputs.double().numpy(), labels.numpy())
    rows = inputs[:n].double()
    (single,) = attribute((Occlusion(),), model, rows).values()
    noise = torch.randn(rows.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return Case(model, rows, torch.stack([single, single * (1 + noise / 2), noise]))


def cancer() -> tuple[Tensor, Tensor]:
    data = load_breast_cancer()
    inputs = torch.tensor(np.asarray(data.inputs))
    return ((inputs - inputs.mean(0)) / inputs.std(0)).float(), torch.tensor(np.asarray(data.labels))


def trained_on_cancer(n: int) -> tuple[nn.Module, Tensor]:
    inputs, labels = cancer()
    layers = [nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)]
    return trained(layers, inputs, labels), inputs[:n]


def trained_on_digits(layers: list[nn.Module], larger: int, n: int) -> tuple[nn.Module, Tensor]:
    data = load_digits()
    images = torch.tensor(np.asarray(data.inputs)).float()
    images = nn.functional.interpolate((images - images.mean(0)) / images.std(), scale_factor=larger, mode="bilinear")
    return trained(layers, images, torch.tensor(np.asarray(data.labels))), images[:n]


def linear(features: int) -> list[nn.Module]:
    return [nn.Flatten(), nn.Linear(features, 1)]


def cnn() -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(16, 32, 3)]
    return [*layers, nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 1)]


def trained(layers: list[nn.Module], inputs: Tensor, labels: Tensor) -> nn.Module:
    """A few seconds of training from seeded weights."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(*layers)
    seeded(model, generator, 1.0)
    optimiser = torch.optim.Adam(model.parameters(), 3e-3, weight_decay=1e-3)
    for _ in range(300):
        rows = torch.randint(len(inputs), (128,), generator=generator)
        loss = nn.functional.binary_cross_entropy_with_logits(model(inputs[rows])[:, 0], labels[rows].float())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


def random_network(features: int) -> nn.Module:
    model = nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    seeded(model, torch.Generator().manual_seed(1), 1.4)
    return model


def seeded(model: nn.Module, generator: torch.Generator, scale: float) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            fan = parameter[0].numel() if parameter.ndim > 1 else len(parameter)
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale / fan**0.5)


if __name__ == "__main__":
    main()
