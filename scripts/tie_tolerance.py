"""How far the ranks of a study hang on the tolerance within which scores are ties.

``python scripts/tie_tolerance.py STUDY --out docs/results/paper/ties.csv`` reads a study's score files. For each model,
group of configurations and kind of Infidelity: Spearman's correlation of DPC with Infidelity, the size of the Pareto
set, and how many configurations are tied, with the library's tolerance (``TIE`` of the spread) and others; beside them
the standard error of a mean as a share of that spread, which tolerances should be far below.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
import polars as pl

from verax.attribution.names import is_reference, lime_methods
from verax.paper.published import PAPER_DPC, PAPER_INFIDELITY
from verax.statistics.ranks import LAST_DIGITS, TIE, Floats, ranks, spearman, tied
from verax.study.ranking import front
from verax.study.tables import NORMALISED_INFIDELITY

TOLERANCES = (0.0, 1e-12, TIE, 1e-8, 1e-6)
HEAD = ("model", "group", "infidelity", "tolerance", "spearman", "pareto", "ties of DPC", "ties of Infidelity")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="the study's directory")
    parser.add_argument("--out", type=Path, required=True, help="the table: .csv")
    options = parser.parse_args()
    names = ("model", "method", "configuration")
    columns = [*names, PAPER_DPC, PAPER_INFIDELITY, NORMALISED_INFIDELITY]
    files = sorted(options.study.glob("scores/*.parquet"))
    scores = pl.concat([pl.read_parquet(path, columns=columns) for path in files])
    scores = scores.with_columns(pl.col(name).cast(pl.String) for name in names)
    explained = scores.filter(~pl.col("method").map_elements(is_reference, pl.Boolean))
    rows = []
    for (model, lime), own in explained.group_by("model", pl.col("method").is_in(lime_methods()), maintain_order=True):
        figures = pl.col(columns[3:]).cast(pl.Float64)
        means = own.group_by("configuration").agg(
            figures.mean(), (figures.std() / pl.len().sqrt()).name.suffix(" s.e.")
        )
        for infidelity in (PAPER_INFIDELITY, NORMALISED_INFIDELITY):
            head = [str(model), "LIME" if lime else "all others", infidelity]
            rows += [[*head, *row, relative_error(means, infidelity)] for row in by_tolerance(means, infidelity)]
    rows.sort(key=lambda row: row[:3])
    with options.out.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([(*HEAD, "standard error of a mean, of the spread"), *rows])
    for row in rows:
        print(*row, sep="  ")


def by_tolerance(means: pl.DataFrame, infidelity: str) -> list[list[str]]:
    """Tolerance, correlation, Pareto set and ties, a row per tolerance."""
    given = [means[column].to_numpy() for column in (PAPER_DPC, infidelity)]
    rows = []
    for tolerance in TOLERANCES:
        dpc, loss = (ranks(tied(values, tolerance * spread(values))) for values in given)
        size = front(dpc, loss).sum()  # ranks are far apart: no further ties
        rows.append([f"{tolerance:g}", f"{float(spearman(dpc, loss)):.4f}", str(size), *map(many, (dpc, loss))])
    return rows


def many(places: Floats) -> str:
    """How many share their rank with another."""
    _, counts = np.unique(places, return_counts=True)
    return str(counts[counts > 1].sum())


def relative_error(means: pl.DataFrame, column: str) -> str:
    """The median standard error of a mean, by the spread of the means."""
    return f"{means[f'{column} s.e.'].median() / spread(means[column].to_numpy()):.1e}"


def spread(values: Floats) -> float:
    """The range of the middle half, or of all where that half differs in its last digits alone, as in ``tied``."""
    lowest, low, middle, high, highest = np.quantile(values, (0, 0.25, 0.5, 0.75, 1), method="nearest")
    return float(high - low if high - low > LAST_DIGITS * abs(middle) else highest - lowest)


if __name__ == "__main__":
    main()
