"""Do 95 % intervals of Infidelity cover where a model is sure of its inputs? Against the exact truth, before and after.

A logistic model of a row x has the margin m = w . x, and Gaussian perturbations move it by tau times a normal number:
so the score that endless draws would give is an integral over one normal number, which a sum over a fine grid gives to
many digits. Each case is one m, one tau and one attribution, by its correlation with the gradient; 200 rows with the
same margin, but draws of their own, are 200 trials. ``before`` is the interval without a word on rare effects:
Student's t for the logarithm alone.
"""

import argparse
import json
import math
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import verax
from verax.statistics.intervals import depends_on_few_draws, mean_square_interval

FEATURES, SIGMA = 8, 0.2
MARGINS, MOVES = (0, 4, 8, 16, 32), (0.2, 1, 2, 4, 8)
CORRELATIONS = {"gradient": 1.0, "noisy": 0.9, "poor": 0.2}
SIZES = (20, 80, 640)


class Logistic(nn.Module):
    """Two logits, one of them 0, the other a slope along the first feature."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, rows: Tensor) -> Tensor:
        """Logits; class 0 is the likelier one where the first feature is positive."""
        margin = self.slope * rows[:, 0]
        return torch.stack([margin, torch.zeros_like(margin)], dim=1)


def truth(margin: float, tau: float, correlation: float) -> float:
    """Normalised Infidelity of endless draws: ``E[S^2] - max(E[P S], 0)^2 / E[P^2]``."""
    grid = torch.linspace(-14, 14, 56_001, dtype=torch.float64)
    weights = (-grid.square() / 2).exp() * (grid[1] - grid[0]) / math.sqrt(2 * math.pi)
    change = change_of(margin, tau * grid)
    fitted = correlation * float((weights * grid * change).sum())
    return float((weights * change.square()).sum()) - max(fitted, 0.0) ** 2


def change_of(margin: float, move: Tensor) -> Tensor:
    """``sigmoid(margin) - sigmoid(margin - move)``, without the loss of digits near 1."""
    return (move - margin).sigmoid() - torch.tensor(-margin, dtype=torch.float64).sigmoid()


def attribution(correlation: float, count: int) -> Tensor:
    """Its effect has this correlation with the margin's."""
    found = torch.zeros(count, FEATURES, dtype=torch.float64)
    found[:, 0], found[:, 1] = correlation, math.sqrt(1 - correlation**2)
    return found


def measured(margin: float, tau: float, samples: int, trials: int) -> list[dict[str, Any]]:
    """Coverage before and after, for each attribution."""
    slope = tau / SIGMA
    rows = torch.randn(trials, FEATURES, dtype=torch.float64, generator=torch.Generator().manual_seed(samples))
    rows[:, 0] = margin / slope
    maps = {name: attribution(correlation, trials) for name, correlation in CORRELATIONS.items()}
    # class 1, whose small probability keeps its digits; its changes are those of class 0 with the other sign
    maps = {name: -one for name, one in maps.items()}
    problem = verax.Problem(Logistic(slope), rows, target=1)
    found = verax.metrics.Infidelity(samples=samples, sigma=SIGMA)(problem, maps)
    doubt = depends_on_few_draws(found.carried, samples)
    nobody = torch.full_like(found.carried, float(samples))
    before = mean_square_interval(found.scores, found.errors, nobody, samples, 1.0, 0.95)
    after = found.interval()
    lines = []
    for place, (name, correlation) in enumerate(CORRELATIONS.items()):
        wanted = truth(margin, tau, correlation)
        ends = {"before": (before[0][place], before[1][place]), "after": (after[0][name], after[1][name])}
        covered = {
            when: float(((low <= wanted) & (wanted <= high)).double().mean()) for when, (low, high) in ends.items()
        }
        line = {"draws": samples, "margin": margin, "tau": tau, "attribution": name, **covered}
        upper = float(after[1][name].median())
        lines.append(line | {"in doubt": float(doubt.double().mean()), "truth": wanted, "upper end": upper})
    return lines


def main() -> None:
    """Print the table, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "saturated_intervals.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [
        line
        for samples in SIZES
        for margin in MARGINS
        for tau in MOVES
        for line in measured(float(margin), float(tau), samples, options.trials)
    ]
    for line in lines:
        shown = (f"{one:.3g}" if isinstance(one, float) else str(one) for one in line.values())
        print("  ".join(f"{name} {one}" for name, one in zip(line, shown, strict=True)))
    for samples in SIZES:
        for sure in (False, True):
            of = [line for line in lines if line["draws"] == samples and (line["margin"] >= 8) == sure]
            words = "margin from 8 on" if sure else "margin up to 4"
            for when in ("before", "after"):
                shares = sorted(line[when] for line in of)
                mean, tenth = sum(shares) / len(shares), shares[len(shares) // 10]
                print(f"{samples} draws, {words}, {when}: lowest {shares[0]:.2f}, tenth {tenth:.2f}, mean {mean:.3f}")
    options.out.write_text(json.dumps({"trials": options.trials, "cases": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
