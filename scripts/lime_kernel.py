"""Does DPC agree with Infidelity over the LIME grid on HELOC? It hangs on LIME's kernel and on how the MLP was trained.

LPC and the effect correlation, which lack DPC's flaws, are asked the same.

``python scripts/lime_kernel.py heloc.csv [--out FILE.csv]`` trains the linear model and the MLP by both recipes with
five seeds each, explains the same validation rows with the paper's 729 LIME configurations under both readings of the
kernel width, and prints the table of the docs. ``FILE.csv`` then holds the figures of each seed.
"""

import argparse
import csv
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import verax
from verax.analysis.outliers import front
from verax.attribution import LimeTabular, attribute, grid
from verax.datasets import Dataset, load_heloc
from verax.metrics import DirectedPredictionChange, EffectCorrelation, Infidelity, LocalPredictionChange
from verax.models.recipes import recipe_for, varied
from verax.models.shipped import architecture_for
from verax.models.training import train
from verax.statistics.intervals import estimates
from verax.statistics.ranks import spearman

MODELS = (("linear", None), ("mlp", None), ("mlp", "less-regularised"))
KERNELS = {False: "absolute", True: "times root of 20"}
HEAD = ("model", "recipe", "kernel width", "metric")
FIGURES = ("spearman", "pareto", "band")


def main() -> None:
    """Print one line per model, recipe, kernel and metric: means over seeds with their 95 % intervals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the CSV file")
    parser.add_argument("--rows", type=int, default=256, help="validation rows, the first ones (default 256)")
    parser.add_argument("--seeds", type=int, default=5, help="training runs of each model (default 5)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--samples", type=int, default=640, help="draws of Infidelity (default 640)")
    parser.add_argument("--plain", action="store_true", help="Infidelity as it is, not normalised")
    parser.add_argument(
        "--every",
        type=int,
        default=1,
        help="only every so manieth LIME configuration, to try it out; 7 visits all settings",
    )
    parser.add_argument("--out", type=Path, help="a CSV file for the figures of each seed")
    given = parser.parse_args()
    dataset = load_heloc(given.data)
    runs = [
        {"model": name, "recipe": recipe or "shipped", "seed": seed, **figures}
        for name, recipe in MODELS
        for seed in range(given.first, given.first + given.seeds)
        for figures in measured(_trained(dataset, name, recipe, seed), dataset, given)
    ]
    if given.out:
        with given.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(runs[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(runs)
    print("\n".join(table(runs)))


def _trained(dataset: Dataset, name: str, recipe: str | None, seed: int) -> verax.Scorer:
    followed = dataclasses.replace(varied(recipe_for("heloc", name), name, recipe), seed=seed)
    found = train(architecture_for(name, dataset), dataset, followed, device="cpu")
    quality = ", ".join(f"{part} AUROC {found.metrics[part]['auroc']:.4f}" for part in ("train", "test"))
    print(f"{name}, {recipe or 'shipped'} recipe, seed {seed}: {quality}", flush=True)
    return verax.Scorer(found.module, returns="logits")


def measured(model: verax.Scorer, dataset: Dataset, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The figures of one model under each kernel."""
    inputs, _ = dataset.part("validation", given.rows)
    gains = (DirectedPredictionChange(), LocalPredictionChange(), EffectCorrelation(samples=given.samples))
    metrics = (*gains, Infidelity(samples=given.samples, normalize=not given.plain))
    lime = {
        scaled: [one for one in grid("tabular", scale_kernel=scaled) if isinstance(one, LimeTabular)][:: given.every]
        for scaled in KERNELS
    }
    found = attribute(lime[False] + lime[True], model, inputs)
    for scaled, kernel in KERNELS.items():
        stack = {one.canonical: found[one.canonical] for one in lime[scaled]}
        result = verax.evaluate(model, inputs, stack, metrics)
        means = [np.array([float(one.mean()) for one in result[metric.name].value.values()]) for metric in metrics]
        loss = means.pop()
        low, middle, high = np.quantile(loss, (0.25, 0.5, 0.75))
        for metric, gain in zip(gains, means, strict=True):
            figures = {"spearman": float(spearman(gain, loss)), "pareto": int(front(gain, loss).sum())}
            yield {"kernel width": kernel, "metric": metric.label, **figures, "band": float((high - low) / middle)}


def table(runs: list[dict[str, Any]]) -> list[str]:
    """The lines of a Markdown table; an interval in brackets is Student's t over seeds."""
    lines = [f"| {' | '.join(HEAD)} | Spearman with Infidelity | lowest, highest | Pareto set | IQR / median |"]
    lines.append("|---" * (len(HEAD) + 4) + "|")
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault(tuple(run[name] for name in HEAD), []).append(run)
    for key, group in groups.items():
        values = torch.tensor([[run[name] for run in group] for name in FIGURES], dtype=torch.float64)
        rank, size, band = estimates(values)
        ends = f"{values[0].min():+.2f}, {values[0].max():+.2f}"
        lines.append(f"| {' | '.join(key)} | {rank:+.2f} | {ends} | {size:.1f} | {band.mean:.0%} |")
    return lines


if __name__ == "__main__":
    main()
