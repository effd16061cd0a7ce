"""Draw the paper's figures with the models of several studies in one figure each.

``python scripts/draw_paper.py HELOC ISIC --out docs/figures/paper`` reads finished studies and draws PC and DPC by
method, with and without multiplication by the input, and DPC against Infidelity over LIME's grid and over the others.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import polars as pl

from verax.report.html import fixed_style, save
from verax.report.page import FONT_SIZE, over_configurations
from verax.report.view import View
from verax.study.results import read_results
from verax.study.study import open_study
from verax.study.tables import Tables


def write_joint_figures(folder: Path, several: Sequence[Tables]) -> list[Path]:
    """Draw the paper's figures over several studies, all models in one figure each, and return the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    view = View(joined(several), ())
    # letters as outlines would take most of the file
    with fixed_style(FONT_SIZE), mpl.rc_context({"svg.fonttype": "none"}):
        return [save(figure, folder / f"{name}.svg") for name, figure in over_configurations(view)]


def joined(several: Sequence[Tables]) -> Tables:
    """The models of several studies with the metrics that all of them measured; settings and costs are left out."""
    first, *others = several
    names = Counter(model.name for tables in several for model in tables.models)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise ValueError(f"studies: models need different names to be shown together, got twice: {', '.join(twice)}.")
    shared = {metric.column for metric in first.metrics}.intersection(
        *({metric.column for metric in tables.metrics} for tables in others)
    )
    columns = [name for name in first.scores.columns if all(name in tables.scores.columns for tables in several)]
    return Tables(
        scores=pl.concat([tables.scores.select(columns) for tables in several]),
        uncertainty=pl.concat([tables.uncertainty for tables in several]),
        models=tuple(model for tables in several for model in tables.models),
        settings={},
        costs=first.costs.clear(),
        metrics=tuple(metric for metric in first.metrics if metric.column in shared),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", type=Path, nargs="+", help="directories of finished studies")
    parser.add_argument("--out", type=Path, default=Path("docs/figures/paper"))
    given = parser.parse_args()
    several = []
    for folder in given.studies:
        found = read_results(open_study(folder))
        if found.missing:
            raise SystemExit(f"{folder}: {len(found.missing)} units are missing; run the study to its end first.")
        several.append(found.tables)
    for path in write_joint_figures(given.out, several):
        print(f"{path}, {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
