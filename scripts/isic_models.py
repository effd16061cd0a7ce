"""Train the ISIC models as shipped; save them, and what happened in each epoch, and print the figures.

``python scripts/isic_models.py ISIC_FOLDER --out FOLDER --models inception``
``python scripts/isic_models.py ISIC_FOLDER --out FOLDER --models linear --recipe balanced``

Models are trained as by ``verax train isic MODEL``. ``FOLDER/isic-MODEL.csv`` holds the epochs, from which
``scripts/draw_curves.py`` draws.
"""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from verax.datasets import load_isic
from verax.paper.models.recipes import VARIANTS, Recipe
from verax.paper.models.shipped import train_shipped
from verax.paper.models.training import Epoch

MODELS = ("linear", "inception")


def write_epochs(path: Path, epochs: Sequence[Epoch]) -> None:
    """One line per epoch, with the columns that this kind of model has."""
    names = [field.name for field in dataclasses.fields(Epoch) if getattr(epochs[0], field.name) is not None]
    lines = [",".join(f"{getattr(epoch, name):.6g}" for name in names) for epoch in epochs]
    path.write_text("\n".join([",".join(names), *lines]) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder that holds the images and their labels")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--recipe", choices=VARIANTS, help="the variant of the recipe; the shipped one without")
    parser.add_argument("--epochs", type=int, help="instead of the recipe's, to try it out")
    parser.add_argument("--device", help="cpu or cuda; cuda where there is one")
    parser.add_argument("--seed", type=int, default=0, help="of split, initial weights, order and augmentation")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    dataset = load_isic(given.data, seed=given.seed)
    lines = ["| model | validation AUROC | test AUROC | test accuracy | epochs | seconds |", "|---" * 6 + "|"]
    for name in given.models:

        def show(epoch: Epoch, recipe: Recipe, name: str = name) -> None:
            area = f"validation AUROC {epoch.auroc:.4f}"
            print(
                f"{name} {epoch.number}/{recipe.epochs}: loss {epoch.loss:.4f}, {area}, {epoch.seconds:.2f} s",
                flush=True,
            )

        path = given.out / f"isic-{name}.safetensors"
        settings = {"recipe": given.recipe, "seed": given.seed, "epochs": given.epochs, "device": given.device}
        found = train_shipped(name, dataset, path, progress=show, **settings)
        write_epochs(given.out / f"isic-{name}.csv", found.history)
        validation, test = found.metrics["validation"], found.metrics["test"]
        figures = f"{validation['auroc']:.4f} | {test['auroc']:.4f} | {test['accuracy']:.4f}"
        lines.append(f"| {name} | {figures} | {len(found.history)} | {found.seconds:.0f} |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
