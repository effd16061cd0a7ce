"""The command line. Commands load what they need when they run; a wrong argument is one line and exit code 2."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import verax
from verax.cli_common import one_line_errors
from verax.cli_evaluate import SeveralPaths, evaluate
from verax.cli_study import study_app, verify

if TYPE_CHECKING:
    from verax.datasets import Dataset
    from verax.models.checkpoints import Epoch
    from verax.models.recipes import Recipe

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Measure how faithful feature attributions are to the model they explain.",
)


app.add_typer(study_app, name="study")
app.command()(verify)
app.command("evaluate", cls=SeveralPaths)(evaluate)


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


def _version(asked: bool) -> bool:
    if asked:
        typer.echo(f"verax {verax.__version__}")
        raise typer.Exit
    return asked


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Measure how faithful feature attributions are to the model they explain."""


@app.command()
def train(
    dataset: Annotated[DatasetName, typer.Argument(help="What to learn.")],
    model: Annotated[ModelName, typer.Argument(help="What learns.")],
    out: Annotated[Path, typer.Option(help="The weights, .safetensors; everything else goes to .json beside it.")],
    data: Annotated[Path | None, typer.Option(help="heloc: a CSV file (else downloaded); isic: a folder.")] = None,
    seed: Annotated[int, typer.Option(help="Of split, initial weights, order, augmentation and dropout.")] = 0,
    epochs: Annotated[int | None, typer.Option(help="Instead of the recipe's.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; cuda where there is one.")] = None,
    init: Annotated[Path | None, typer.Option(help="Start from the weights of this file.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Where downloads and decoded images are kept.")] = None,
) -> None:
    """Train a model of the paper with its recipe and save it. Run again after an interruption to go on."""
    with one_line_errors():
        from verax.models.recipes import recipe_for
        from verax.models.shipped import train_shipped

        recipe_for(dataset.value, model.value)  # refuses what has none
        loaded = _load(dataset, data, seed, cache)
        found = train_shipped(
            model.value, loaded, out, seed=seed, epochs=epochs, device=device, init=init, progress=_show
        )
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
    typer.echo(
        f"epoch {epoch.number}/{recipe.epochs}  loss {epoch.loss:.4f}  validation AUROC {epoch.auroc:.4f}{mark}  "
        f"{epoch.seconds:.1f} s, at most {left:.0f} s left",
        err=True,
    )
