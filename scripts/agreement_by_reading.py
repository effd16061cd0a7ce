"""How do the readings of studies agree with Infidelity, and what do methods score? From their score files alone.

``python scripts/agreement_by_reading.py STUDY...`` works on studies that are not finished yet, or whose models are
elsewhere. Each reading counts the inputs that have it. Intervals are those of resampled inputs.
"""

import argparse
from pathlib import Path

import numpy as np
import polars as pl
import torch

from verax.statistics.intervals import resampled_estimate, resampled_means
from verax.statistics.ranks import spearman

READINGS = ("pc", "dpc_magnitude", "dpc_signed", "dpc_literal", "dpc_coherent", "lpc", "effect_correlation")
SHOWN = ("Gradient", "SmoothGrad", "IntegratedGradients", "Random")
PLAIN = ("Random", "Edges")  # neither is an explanation


def main() -> None:
    options = arguments()
    for study in options.studies:
        scores = pl.concat([pl.read_parquet(path) for path in sorted(study.glob("scores/*.parquet"))])
        scores = scores.with_columns(pl.col(name).cast(pl.String) for name in ("model", "method", "configuration"))
        for (model,), own in scores.group_by("model", maintain_order=True):
            print(f"\n{model}: Spearman with Infidelity\n")
            is_lime = pl.col("method").str.contains("Lime")
            readings = [name for name in READINGS if name in own.columns]
            for reading in readings:
                parts = {"others": own.filter(~is_lime & ~pl.col("method").is_in(PLAIN)), "LIME": own.filter(is_lime)}
                print(f"{reading:20}", *(f"{name}: {agreement(part, reading)}" for name, part in parts.items()))
            print("\nbest configuration by coherent DPC: mean (standard error)\n")
            for method in SHOWN:
                print(best(own.filter(pl.col("method") == method), readings[1:]))


def agreement(scores: pl.DataFrame, reading: str) -> str:
    """Rank correlation over configurations of the means of a reading and of Infidelity, with its interval."""
    kept = scores.drop_nulls(reading)
    wide = [
        kept.pivot(on="input", index="configuration", values=name).sort("configuration").drop("configuration")
        for name in (reading, "infidelity")
    ]
    means = [resampled_means(torch.from_numpy(one.to_numpy()), 300, seed=0).numpy() for one in wide]
    drawn = [spearman(*pair) for pair in zip(*means, strict=True)]
    figure = float(spearman(*(one.to_numpy().mean(1) for one in wide)))
    found = resampled_estimate(figure, torch.tensor(np.array(drawn)))
    return f"{figure:+.2f} [{found.low:+.2f}, {found.high:+.2f}], {wide[0].height} x {wide[0].width} inputs;"


def best(scores: pl.DataFrame, readings: list[str]) -> str:
    """What a method's best configuration scores, over the inputs that have all readings."""
    rows = scores.drop_nulls(readings)
    means = [pl.col(name).mean() for name in readings]
    errors = [(pl.col(name).std() / pl.len().sqrt()).alias(f"{name} s.e.") for name in readings]
    row = rows.group_by("configuration").agg(*means, *errors).sort("dpc_coherent", descending=True).row(0, named=True)
    cells = [f"{name} {row[name]:.4f} ({row[f'{name} s.e.']:.4f})" for name in readings]
    return f"{row['configuration']}: {', '.join(cells)}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", type=Path, nargs="+", help="directories of studies")
    return parser.parse_args()


if __name__ == "__main__":
    main()
