"""The shipped way to a trained model: the recipe of data set and architecture, trained and saved."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

from verax.data.base import Dataset
from verax.paper.models.checkpoints import Epoch
from verax.paper.models.networks import MLP, InceptionV1, Linear
from verax.paper.models.objectives import outputs_for
from verax.paper.models.recipes import RECIPES, Recipe, check_recipe, general_recipe, varied
from verax.paper.models.training import Trained, train
from verax.scoring.model_files.saved import Architecture, model_paths, save

Progress = Callable[[Epoch, Recipe], None]


def architecture_for(name: str, dataset: Dataset) -> Architecture:
    """The architecture of a name, ``"linear"``, ``"mlp"`` or ``"inception"``, for the inputs of a data set."""
    shape, outputs = tuple(dataset.inputs.shape[1:]), outputs_for(dataset)
    if name == "linear":
        return Linear(shape[0] if len(shape) == 1 else shape, outputs)
    if name == "mlp":
        if len(shape) != 1:
            raise ValueError(f"model: mlp is for tables; for the images of {dataset.name} use linear or inception.")
        return MLP(shape[0], outputs=outputs)
    if len(shape) != 3:
        raise ValueError(f"model: inception is for images; for the table {dataset.name} use linear or mlp.")
    return InceptionV1(channels=shape[0], outputs=outputs)


def train_shipped(
    name: str,
    dataset: Dataset,
    path: Path,
    *,
    recipe: str | None = None,
    seed: int = 0,
    epochs: int | None = None,
    device: str | None = None,
    init: Path | None = None,
    progress: Progress = lambda epoch, recipe: None,
) -> Trained:
    """Train a model as shipped and save it; the run goes on where a killed one stopped.

    On a CPU the same arguments give the same file on every machine with the same kind of processor and version of
    torch, whatever the number of cores. On a GPU two runs differ in rounding.

    Args:
        name: The architecture.
        dataset: What it learns. A data set without a recipe is trained with the general one.
        path: Where to save, ``NAME.safetensors``; checkpoints lie beside it until the end.
        recipe: The variant of the recipe, ``"less-regularised"`` (mlp) or ``"balanced"``; None for the shipped one.
        seed: Of initial weights, order, augmentation and dropout.
        epochs: Instead of the recipe's, to try things out.
        device: Where; a CUDA device where there is one by default.
        init: Start from the weights of this file.
        progress: Called after each epoch.
    """
    model_paths(path)  # a wrong name or variant raises before the work
    check_recipe(name, recipe)
    architecture = architecture_for(name, dataset)
    rows, features = len(dataset.split.train), math.prod(dataset.inputs.shape[1:])
    chosen = RECIPES.get((dataset.name, name)) or general_recipe(name, rows, features)
    followed = dataclasses.replace(varied(chosen, name, recipe), seed=seed)
    if epochs is not None:
        followed = dataclasses.replace(followed, epochs=epochs)
    checkpoint = path.with_suffix(".checkpoint")

    def show(epoch: Epoch) -> None:
        progress(epoch, followed)

    trained = train(architecture, dataset, followed, device=device, checkpoint=checkpoint, init=init, progress=show)
    settings, metrics = dataclasses.asdict(followed), trained.metrics
    if recipe is not None:
        settings["recipe"] = recipe
    save(path, trained.module, architecture, dataset=dataset, hyperparameters=settings, metrics=metrics, seed=seed)
    checkpoint.unlink(missing_ok=True)
    return trained
