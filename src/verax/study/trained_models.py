"""The networks of a study: trained as its spec says, or copied from files that ``verax train`` wrote."""

from collections.abc import Callable
from pathlib import Path

import torch

from verax.data.base import Dataset
from verax.paper.models.checkpoints import CheckpointError, Epoch
from verax.paper.models.recipes import Recipe
from verax.paper.models.shipped import Progress, architecture_for, train_shipped
from verax.scoring.model_files.saved import ModelFileError, SavedModel, load, save
from verax.study.data_spec import ModelSpec
from verax.study.explained_models import NAMES
from verax.study.store import Store


def keep_model(model: ModelSpec, dataset: Dataset, store: Store, device: str, log: Callable[[str], None]) -> None:
    """Train a model or copy its file, unless that was done; what is damaged or another model is set aside."""
    path = store.model(model.name)
    if not path.is_file():
        log(f"{model.name}: training" if model.path is None else f"{model.name}: from {model.path}")

    def progress(epoch: Epoch, recipe: Recipe) -> None:
        if epoch.number == 1 or epoch.number % 10 == 0:
            log(f"{model.name}: epoch {epoch.number} of {recipe.epochs}, loss {epoch.loss:.3f}, {epoch.words}")

    try:
        obtain_model(model, dataset, path, device, progress)
    except (ModelFileError, CheckpointError) as error:
        if model.path is not None and not path.is_file():
            raise
        endings = (".checkpoint",) if isinstance(error, CheckpointError) else (".safetensors", ".json")
        kept = [path.with_suffix(ending) for ending in endings]
        files = [(file, str(error)) for file in kept if file.exists()]
        for line in store.set_aside(files):
            log(line)
        obtain_model(model, dataset, path, device, progress)


def obtain_model(
    model: ModelSpec,
    dataset: Dataset,
    path: Path,
    device: str | None = None,
    progress: Progress = lambda epoch, recipe: None,
) -> SavedModel:
    """The trained model of a spec, kept at ``path``; trained or copied there when it is not there yet.

    A file that is damaged or another model is an error; the study sets it aside and asks again.
    """
    if path.is_file():
        kept = load(path)
        check_fits(model, dataset, kept)
        _check_source(model, dataset, kept)
        return kept
    if model.path is not None:
        given = load(Path(model.path).expanduser())
        check_fits(model, dataset, given)
        keep = {name: given.info[name] for name in ("hyperparameters", "metrics", "seed")}
        save(path, given.module, given.architecture, dataset=dataset, name=model.name, **keep)
        return load(path)
    assert model.architecture is not None  # noqa: S101  # the spec has one or the other
    train_shipped(
        model.architecture, dataset, path, recipe=model.recipe, seed=model.seed, device=device, progress=progress
    )
    return load(path)


def untrained(model: ModelSpec, dataset: Dataset) -> SavedModel:
    """The model of a spec before its training, or the file that the spec names."""
    if model.path is not None:
        return load(Path(model.path).expanduser())
    assert model.architecture is not None  # noqa: S101  # the spec has one or the other
    architecture = architecture_for(model.architecture, dataset)
    names = dataset.class_names, dataset.feature_names
    return SavedModel(architecture.build(model.seed).eval(), architecture, dataset.standardisation, *names, info={})


def _check_source(model: ModelSpec, dataset: Dataset, kept: SavedModel) -> None:
    """Refuse a kept model that the spec, or the file that it names, does not mean any more."""
    if kept.info.get("name", model.name) != model.name:  # only copies of files say it
        raise ModelFileError(f"{model.name}: the model kept here is {kept.info['name']}, under another's name.")
    if model.path is None:
        recipe, fingerprint = kept.info["hyperparameters"].get("recipe"), kept.info["data"]["fingerprint"]
        made = (NAMES[type(kept.architecture).__name__], recipe, kept.info["seed"], fingerprint)
        same = made == (model.architecture, model.recipe, model.seed, dataset.fingerprint)
    else:
        try:
            same = load(Path(model.path).expanduser()).info["weights"] == kept.info["weights"]
        except (FileNotFoundError, ModelFileError):  # gone or damaged: the copy is what there is
            same = True
    if not same:
        raise ModelFileError(f"{model.name}: the model kept here is not the one that the spec asks for.")


def check_fits(model: ModelSpec, dataset: Dataset, saved: SavedModel) -> None:
    """Refuse a model that learnt other inputs than those it would be explained on."""
    shape = tuple(dataset.inputs.shape[1:])
    learnt = saved.standardisation
    if learnt is None:
        raise ModelFileError(f"{model.name}: was saved without its data, so it is not known how to standardise inputs.")
    same = learnt.mean.shape == dataset.standardisation.mean.shape and all(
        torch.equal(getattr(learnt, part), getattr(dataset.standardisation, part)) for part in ("mean", "std")
    )
    if not same:
        raise ModelFileError(
            f"{model.name}: was trained on data standardised in another way than {dataset.name} with split seed "
            f"{dataset.split.seed}; train it on this split, or give the seed of its split."
        )
    wanted = getattr(saved.architecture, "shape", shape)
    if wanted != shape:
        raise ModelFileError(f"{model.name}: expects inputs of shape {wanted}, {dataset.name} has {shape}.")
    if saved.info.get("data") is not None and saved.task != dataset.task:
        raise ModelFileError(f"{model.name}: was trained for {saved.task}, the labels are for {dataset.task}.")
