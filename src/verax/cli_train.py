"""The command ``verax train``: a data set and an architecture in, a model file out."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verax import cli_complete
from verax.cli_common import check_file, checked_device_name, examples, one_line_errors, print_json, tell

if TYPE_CHECKING:
    from verax.datasets import Dataset
    from verax.models.checkpoints import Epoch
    from verax.models.recipes import Recipe

EXAMPLES = examples(
    "verax train breast-cancer linear --out small.safetensors              # seconds; data come with scikit-learn",
    "verax train heloc mlp --data heloc.csv --out heloc-mlp.safetensors",
    "verax train isic inception --data ISIC_FOLDER --out isic.safetensors  # on a GPU",
)


class DatasetName(StrEnum):
    """Data sets that can be trained on."""

    heloc = "heloc"
    isic = "isic"
    breast_cancer = "breast-cancer"
    digits = "digits"


class ModelName(StrEnum):
    """Models that can be trained."""

    linear = "linear"
    mlp = "mlp"
    inception = "inception"


def train(
    dataset: Annotated[DatasetName, typer.Argument(help="What to learn.")],
    model: Annotated[ModelName, typer.Argument(help="What learns; mlp is for tables, inception for images.")],
    out: Annotated[Path, typer.Option(help="The weights, .safetensors; everything else goes to .json beside it.")],
    data: Annotated[Path | None, typer.Option(help="heloc: a CSV file (else downloaded); isic: a folder.")] = None,
    seed: Annotated[int, typer.Option(help="Of split, initial weights, order, augmentation and dropout.")] = 0,
    epochs: Annotated[int | None, typer.Option(help="Instead of the recipe's.")] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu or cuda; cuda where there is one.", autocompletion=cli_complete.devices)
    ] = None,
    init: Annotated[Path | None, typer.Option(help="Start from the weights of this file.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Where downloads and decoded images are kept.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final figures as JSON.")] = False,
) -> None:
    """Train a model of the paper with its recipe and save it. Run again after an interruption to go on."""
    with one_line_errors("Run the same command again to go on from the last whole epoch."):
        from verax.models.recipes import recipe_for
        from verax.models.shipped import train_shipped

        recipe_for(dataset.value, model.value)  # refuses what has none
        check_file("--out", out, ".safetensors", [path for path in (data, init) if path is not None])
        where = None if device is None else checked_device_name(device)
        loaded = _load(dataset, data, seed, cache)
        found = train_shipped(
            model.value, loaded, out, seed=seed, epochs=epochs, device=where, init=init, progress=_show
        )
    facts: dict[str, Any] = {"dataset": dataset.value, "model": model.value, "out": str(out)}
    facts |= {"metrics": found.metrics, "epochs": len(found.history), "seconds": found.seconds}
    if as_json:
        print_json(facts)
        return
    for part, metrics in found.metrics.items():
        typer.echo(f"{part}: AUROC {metrics['auroc']:.4f}, accuracy {metrics['accuracy']:.4f}")
    typer.echo(f"{found.seconds:.0f} s, saved as {out}")


def _load(name: DatasetName, data: Path | None, seed: int, cache: Path | None) -> "Dataset":
    from verax.datasets.named import load_named

    if name is DatasetName.isic and data is None:
        raise ValueError("--data: isic needs the folder that holds the images and their labels.")
    if name in (DatasetName.breast_cancer, DatasetName.digits) and data is not None:
        raise ValueError(f"--data: {name.value} comes with scikit-learn and takes none.")
    return load_named(name.value, data, seed=seed, cache=cache)


def _show(epoch: "Epoch", recipe: "Recipe") -> None:
    left = (recipe.epochs - epoch.number) * epoch.seconds
    mark = " *" if epoch.best else ""
    tell(
        f"epoch {epoch.number}/{recipe.epochs}  loss {epoch.loss:.4f}  validation AUROC {epoch.auroc:.4f}{mark}  "
        f"{epoch.seconds:.1f} s, at most {left:.0f} s left"
    )
