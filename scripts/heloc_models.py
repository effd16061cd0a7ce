"""Train the HELOC models with five seeds each and print test AUROC, accuracy and time: the models table of the docs.

``python scripts/heloc_models.py heloc.csv``
"""

import sys
from statistics import mean

from verax.datasets import load_heloc
from verax.models import MLP, Linear
from verax.models.architecture import Architecture
from verax.models.recipes import Recipe, recipe_for
from verax.models.training import train

SEEDS = range(5)
MODELS: dict[str, Architecture] = {"linear": Linear(20), "mlp": MLP(20)}
BY_HEART = Recipe(epochs=120, batch_size=256, learning_rate=1e-3, weight_decay=0.0, keep="last", clip=None)


def main(path: str) -> None:
    """Print one line per model, and how far the perceptron gets without regularisation."""
    print("| model | test AUROC, mean (lowest) of five seeds | accuracy, mean | seconds each |\n|---|---|---|---|")
    for name, architecture in MODELS.items():
        found = [train(architecture, load_heloc(path, seed=seed), recipe_for("heloc", name)) for seed in SEEDS]
        scores = [one.metrics["test"] for one in found]
        areas = [score["auroc"] for score in scores]
        right, seconds = mean(score["accuracy"] for score in scores), mean(one.seconds for one in found)
        print(f"| HELOC-{name} | {mean(areas):.4f} ({min(areas):.4f}) | {right:.4f} | {seconds:.1f} |")
    free = train(MLP(20, dropout=0.0), load_heloc(path), BY_HEART)
    print(f"\nHELOC-mlp without regularisation: training accuracy {free.metrics['train']['accuracy']:.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
