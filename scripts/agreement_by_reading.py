"""How do the readings of a study agree with Infidelity, and what do methods score? From its score files alone.

``python scripts/agreement_by_reading.py STUDY`` works on a study that is not finished yet, or whose models are
elsewhere: inputs count that all models and all readings have.
"""

import argparse
from pathlib import Path

import polars as pl
from scipy.stats import spearmanr

READINGS = ("pc", "dpc_magnitude", "dpc_signed", "dpc_literal", "dpc_coherent", "lpc", "effect_correlation")
SHOWN = ("Gradient", "SmoothGrad", "IntegratedGradients", "Random")
PLAIN = ("Random", "Edges")  # neither is an explanation


def main() -> None:
    options = arguments()
    scores = pl.concat([pl.read_parquet(path) for path in sorted(options.study.glob("scores/*.parquet"))])
    words = [pl.col(name).cast(pl.String) for name in ("model", "method", "configuration")]
    readings = [reading for reading in READINGS if reading in scores.columns]
    scores = scores.with_columns(words).drop_nulls(readings)
    models = scores["model"].n_unique()
    shared = scores.group_by("input").agg(pl.col("model").n_unique()).filter(pl.col("model") == models)
    scores = scores.join(shared.select("input"), on="input")
    means = [pl.col(name).mean() for name in (*readings, "infidelity")]
    errors = [(pl.col(name).std() / pl.len().sqrt()).alias(f"{name} s.e.") for name in readings]
    table = scores.group_by("model", "method", "configuration").agg(*means, *errors, pl.len().alias("inputs"))
    for (model,), own in table.group_by("model", maintain_order=True):
        print(f"\n{model}, {own['inputs'].max()} inputs: Spearman with Infidelity, LIME's configurations apart\n")
        is_lime = own["method"].str.contains("Lime")
        others = own.filter(~is_lime & ~own["method"].is_in(PLAIN))
        for reading in readings:
            found = [spearmanr(part[reading], part["infidelity"])[0] for part in (others, own.filter(is_lime))]
            print(f"{reading:20}{len(others):6} {found[0]:+.2f}{int(is_lime.sum()):8} {found[1]:+.2f}")
        print("\nbest configuration by coherent DPC: mean (standard error)\n")
        for method in SHOWN:
            best = own.filter(pl.col("method") == method).sort("dpc_coherent", descending=True).row(0, named=True)
            cells = [f"{name} {best[name]:.4f} ({best[f'{name} s.e.']:.4f})" for name in readings[1:]]
            print(f"{best['configuration']}: {', '.join(cells)}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path, help="a study's directory")
    return parser.parse_args()


if __name__ == "__main__":
    main()
