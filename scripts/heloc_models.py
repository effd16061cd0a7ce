"""Train the HELOC models with five seeds each and print test AUROC, accuracy and time: the models table of the docs.

``python scripts/heloc_models.py heloc.csv [--out FOLDER]``; ``FOLDER/heloc-MODEL.csv`` then holds the epochs of seed 0,
from which ``scripts/draw_curves.py`` draws.
"""

import argparse
from pathlib import Path
from statistics import mean

from isic_models import write_epochs

from verax.datasets import load_heloc
from verax.paper.models import MLP, Linear
from verax.paper.models.recipes import Recipe, recipe_for
from verax.paper.models.training import train
from verax.scoring.model_files.saved import Architecture

SEEDS = range(5)
MODELS: dict[str, Architecture] = {"linear": Linear(20), "mlp": MLP(20)}
BY_HEART = Recipe(epochs=120, batch_size=256, learning_rate=1e-3, weight_decay=0.0, keep="last", clip=None)


def main() -> None:
    """Print one line per model, and how far the perceptron gets without regularisation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the CSV file")
    parser.add_argument("--out", type=Path, help="a folder for the epochs of seed 0")
    given = parser.parse_args()
    print(
        "| model | test AUROC: mean of five seeds, lowest, seed 0 | accuracy, mean | seconds each |\n|---|---|---|---|"
    )
    for name, architecture in MODELS.items():
        found = [train(architecture, load_heloc(given.data, seed=seed), recipe_for("heloc", name)) for seed in SEEDS]
        scores = [one.metrics["test"] for one in found]
        areas = [score["auroc"] for score in scores]
        right, seconds = mean(score["accuracy"] for score in scores), mean(one.seconds for one in found)
        three = ", ".join(f"{area:.4f}" for area in (mean(areas), min(areas), areas[0]))
        print(f"| HELOC-{name} | {three} | {right:.4f} | {seconds:.1f} |", flush=True)
        if given.out:
            given.out.mkdir(parents=True, exist_ok=True)
            write_epochs(given.out / f"heloc-{name}.csv", found[0].history)
    free = train(MLP(20, dropout=0.0), load_heloc(given.data), BY_HEART)
    print(f"\nHELOC-mlp without regularisation: training accuracy {free.metrics['train']['accuracy']:.4f}")


if __name__ == "__main__":
    main()
