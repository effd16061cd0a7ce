"""The command ``verax train``: a data set and an architecture in, a model file out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from verax.cli import common, complete
from verax.core.registry import unknown

if TYPE_CHECKING:
    from verax.paper.models.checkpoints import Epoch
    from verax.paper.models.recipes import Recipe

EXAMPLES = common.examples(
    "verax train breast-cancer linear --out small.safetensors              # seconds; data come with scikit-learn",
    "verax train heloc mlp --data heloc.csv --out heloc-mlp.safetensors",
    "verax train isic inception --data ISIC_FOLDER --out isic.safetensors  # on a GPU",
)


Task = Literal["auto", "classification", "regression"]  # what labels are for


def train(
    dataset: Annotated[
        str,
        typer.Argument(help=f"What to learn: {', '.join(complete.DATASETS)}.", autocompletion=complete.datasets),
    ],
    model: Annotated[
        str,
        typer.Argument(
            help="What learns: linear, mlp (for tables) or inception (for images).",
            autocompletion=complete.architectures,
        ),
    ],
    out: Annotated[Path, typer.Option(help="The weights, .safetensors; everything else goes to .json beside it.")],
    data: Annotated[Path | None, typer.Option(help=complete.DATA_HELP)] = None,
    label: Annotated[str | None, typer.Option(help="file: the column to predict.")] = None,
    task: Annotated[Task, typer.Option(help="file: what for; as the labels look by default.")] = "auto",
    recipe: Annotated[
        str | None, typer.Option(help="A variant of the shipped recipe: less-regularised (mlp) or balanced (classes).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of split, initial weights, order, augmentation and dropout.")] = 0,
    epochs: Annotated[int | None, typer.Option(help="Instead of the recipe's.")] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu or cuda; cuda where there is one.", autocompletion=complete.devices)
    ] = None,
    init: Annotated[Path | None, typer.Option(help="Start from the weights of this file.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Where downloads and decoded images are kept.")] = None,
    imports: common.Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final figures as JSON.")] = False,
) -> None:
    """Train a model of the paper with its recipe and save it. Run again after an interruption to go on."""
    with common.one_line_errors(imports, "Run the same command again to go on from the last whole epoch."):
        from verax.data.catalogue import load_named
        from verax.paper.models.shipped import train_shipped
        from verax.statistics.prediction_quality import in_words

        _check(dataset, model, recipe, data)
        common.check_file("--out", out, ".safetensors", [path for path in (data, init) if path is not None])
        where = None if device is None else common.checked_device_name(device)
        loaded = load_named(dataset, data, seed=seed, cache=cache, label=label, task=task)
        trained = train_shipped(
            model, loaded, out, recipe=recipe, seed=seed, epochs=epochs, device=where, init=init, progress=_show
        )
    facts: dict[str, Any] = {"dataset": dataset, "model": model, "out": str(out)}
    facts |= {"metrics": trained.metrics, "epochs": len(trained.history), "seconds": trained.seconds}
    lines = [f"{part}: {in_words(metrics)}" for part, metrics in trained.metrics.items()]
    common.show(facts, "\n".join([*lines, f"{trained.seconds:.0f} s, saved as {out}"]), as_json=as_json)


def _check(dataset: str, model: str, recipe: str | None, data: Path | None) -> None:
    """Raise, before anything is read, where something cannot be trained."""
    from verax.data.catalogue import names, source_of
    from verax.paper.models.recipes import RECIPES, check_recipe, recipe_for

    source = source_of(common.checked_name("dataset", dataset, names()))
    if model not in (architectures := dict.fromkeys(name for _, name in RECIPES)):
        raise ValueError(f"model: {unknown(model, architectures)}")
    if dataset in {name for name, _ in RECIPES}:  # others are trained with the general recipe
        recipe_for(dataset, model)
    check_recipe(model, recipe)
    source.check_path(data is not None, "--data")


def _show(epoch: "Epoch", recipe: "Recipe") -> None:
    left = (recipe.epochs - epoch.number) * epoch.seconds
    mark = " *" if epoch.best else ""
    common.tell(
        f"epoch {epoch.number}/{recipe.epochs}  loss {epoch.loss:.4f}  {epoch.words}{mark}  "
        f"{epoch.seconds:.1f} s, at most {left:.0f} s left"
    )
