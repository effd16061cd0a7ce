"""Adaptive against fixed steps: how far are scores from those at one feature per step, and for how many model rows?

PC, DPC and LPC on tables, images of 64 and 1,024 pixels, trees and random networks (``adaptive_models.py``). The
constants of the stated error were chosen on one half of the models, so that it holds for 97.5 % of pairs of input and
attribution in each of its cells, except LPC of three trees. What it is worth is stated on the other half. For fixed
steps of DPC the rules "sum" and "coherent", which are equal at one feature per step and for adaptive steps. Errors are
those that 95 of 100 pairs stay below; "held" is the share whose error is below the stated one, beside what it would be
with other numbers of standard errors (and the tolerance changed alike).
"""

from dataclasses import replace
from statistics import mean, median
from typing import Any

import common
from adaptive_models import Case, setting_half, stated_half

import verax
from verax.metrics import DirectedPredictionChange, LocalPredictionChange, PredictionChange
from verax.perturbation.adaptive import SURE

FULL = 10**6
TOLERANCES = (0.05, 0.01, 0.002)
STANDARD_ERRORS = (3, 4, 5, 6)
ROUNDING = 1e-6  # of scores in single precision
FIXED = (5, 10, 20, 40, 80, 160, 320)
METRICS: dict[str, Any] = {
    "PC": PredictionChange(),
    "DPC": DirectedPredictionChange("magnitude"),
    "DPC morf": DirectedPredictionChange("magnitude", area="morf"),
    "LPC": LocalPredictionChange(epsilon=0.1),
}


def main() -> None:
    options = common.arguments(__doc__)
    common.print_header("Adaptive against fixed steps")
    n = 8 if options.quick else 24
    halves: dict[str, dict[str, Any]] = {}
    for half, cases in (("stated", stated_half(n)), ("setting", setting_half(n))):
        halves[half] = {}
        for name, make in cases.items():
            case = make()
            for label, metric in METRICS.items():
                halves[half][f"{name}, {label}"] = compared(case, metric)
                report(f"{name}, {label}", halves[half][f"{name}, {label}"])
        summary(half, halves[half])
        print(f"\nAll figures: {common.write_results('adaptive_steps', options, **halves)}")


def evaluated(case: Case, metric: Any) -> Any:
    """The metric's evaluation, its unperturbed rows counted whatever was evaluated before."""
    return verax.evaluate(case.problem.with_model(case.problem.scorer), case.attributions, {"it": metric})


def compared(case: Case, metric: Any) -> dict[str, Any]:
    """Rows and errors of adaptive steps and of each fixed number."""
    pairs = case.attributions.shape[0] * len(case.problem)
    full = evaluated(case, replace(metric, steps=FULL))
    wanted, features = full["it"].value, full["it"].steps
    found: dict[str, Any] = {"features": features, "full rows": full.rows / pairs, "adaptive": {}, "fixed": {}}
    for tolerance in TOLERANCES:
        adaptive = replace(metric, steps="adaptive", tolerance=tolerance)
        result = evaluated(case, adaptive)
        error, one = (result["it"].value - wanted).abs(), result["it"].error / SURE
        held = {number: float((error <= number * one + ROUNDING).double().mean()) for number in STANDARD_ERRORS}
        found["adaptive"][tolerance] = {
            "pairs": pairs,
            "rows": result.rows / pairs,
            "error": float(error.quantile(0.95)),
            "held": held[int(SURE)],
            "held by standard errors": held,
            "stated": float(result["it"].error.mean()),
        }
    for rule in ("sum", "coherent") if hasattr(metric, "rule") else ("",):
        own = replace(metric, rule=rule) if rule else metric
        for steps in (number for number in FIXED if number < features):
            result = evaluated(case, replace(own, steps=steps))
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


def summary(half: str, found: dict[str, Any]) -> None:
    """Rows beside those of fixed steps of equal error, and how often the stated error held."""
    lines = []
    for name, one in found.items():
        cells = (one["adaptive"][tolerance] for tolerance in TOLERANCES)
        shown = (f"{cell['rows']:.0f} / {rows_of_fixed(one, cell['error']):.0f}, {cell['held']:.3f}" for cell in cells)
        lines.append((name, str(one["features"]), *shown))
    print(f"\n{half} half: rows of adaptive steps / of fixed steps of equal error, and share whose stated error held")
    common.print_table(("case", "features", *(f"tolerance {tolerance:g}" for tolerance in TOLERANCES)), lines)
    print()
    shares_held([cell for one in found.values() for cell in one["adaptive"].values()])
    shares_of_rows("up to 64 features", [one for one in found.values() if one["features"] <= 64])
    shares_of_rows("more features", [one for one in found.values() if one["features"] > 64])


def shares_held(cells: list[dict[str, Any]]) -> None:
    for number in STANDARD_ERRORS:
        shares = [cell["held by standard errors"][number] for cell in cells]
        below = sum(share < 0.95 for share in shares)
        print(
            f"{number} standard errors: held for {min(shares):.3f} of pairs at least, {mean(shares):.3f} in the mean; "
            f"below 0.95 in {below} of {len(cells)} cells"
        )


def shares_of_rows(which: str, found: list[dict[str, Any]]) -> None:
    for tolerance in TOLERANCES:
        cells = [one["adaptive"][tolerance] for one in found]
        parts = [cell["rows"] / rows_of_fixed(one, cell["error"]) for one, cell in zip(found, cells, strict=True)]
        share = f"{median(parts):.2f} in the median, at most {max(parts):.2f}"
        print(f"{which}, tolerance {tolerance:g}: rows over those of fixed steps of equal error {share}")


if __name__ == "__main__":
    main()
