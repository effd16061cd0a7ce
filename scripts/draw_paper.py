"""Draw the paper's figures with the models of several studies in one figure each.

``python scripts/draw_paper.py HELOC ISIC --out docs/figures/paper`` reads finished studies and draws PC and DPC by
method, with and without multiplication by the input, and DPC against Infidelity over LIME's grid and over the others.
"""

import argparse
from pathlib import Path

from verax.report.page import write_joint_figures
from verax.study.results import read_results
from verax.study.study import open_study


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
