"""Draw training curves, loss and validation AUROC by epoch, from the CSV files of isic_models.py and heloc_models.py.

``python scripts/draw_curves.py FOLDER/isic-inception.csv --out docs/figures/models`` writes ``isic-inception.svg``.
"""

import argparse
import csv
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams.update({"svg.hashsalt": "verax", "svg.fonttype": "none", "font.size": 9})  # same numbers, same file

from matplotlib import pyplot as plt  # noqa: E402


def draw(path: Path, out: Path) -> Path:
    """Draw one run."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    epochs, loss, area = ([row[name] for row in rows] for name in ("number", "loss", "auroc"))
    best = max(rows, key=lambda row: row["auroc"])
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.5, 2.6), layout="constrained")
    left.plot(epochs, loss, color="#0072b2")
    left.set(xlabel="epoch", ylabel="training loss", title=path.stem)
    right.plot(epochs, area, color="#d55e00")
    right.plot(best["number"], best["auroc"], "o", color="black", markersize=4)
    right.set(xlabel="epoch", ylabel="validation AUROC", title=f"best {best['auroc']:.4f}, epoch {best['number']:.0f}")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    target = out / f"{path.stem}.svg"
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for path in given.runs:
        print(draw(path, given.out))


if __name__ == "__main__":
    main()
