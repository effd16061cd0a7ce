"""What a study explains: models with the inputs and the background they are explained on, ready to be used."""

import dataclasses
import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from verax.attribution import Attribution, LimeImage
from verax.attribution.base import Modality
from verax.core import noise
from verax.core.hashing import tensor_hash
from verax.core.shapes import Float, Int
from verax.datasets.base import Dataset, as_numbers
from verax.models.files import ModelFileError, SavedModel, load, save
from verax.models.shipped import Progress, architecture_for, train_shipped
from verax.scoring.scorer import Scorer
from verax.study.spec import DataSpec, ModelSpec

_IMAGES_IN_BACKGROUND = 1024
_NAMES = {"Linear": "linear", "MLP": "mlp", "InceptionV1": "inception"}


@dataclass(frozen=True)
class ExplainedModel:
    """A model and what it is explained on.

    Attributes:
        data: What the spec says about the data set.
        spec: What the spec says about the model.
        dataset: The data set.
        module: The network, in evaluation mode.
        architecture: ``"linear"``, ``"mlp"`` or ``"inception"``.
        metrics: How good the model is on each part of the data.
        rows: Row numbers of the inputs in the data set.
        inputs: Standardised inputs.
        background: Standardised training rows.
        labels: Their classes.
        configurations: What is compared, as it is named in tables.
    """

    data: DataSpec
    spec: ModelSpec
    dataset: Dataset
    module: nn.Module
    architecture: str
    metrics: dict[str, Any]
    rows: Int[np.ndarray, " n"]
    inputs: Float[Tensor, "n *shape"]
    background: Float[Tensor, "m *shape"]
    labels: Int[Tensor, " m"]
    configurations: tuple[Attribution, ...]

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return self.spec.name

    @property
    def modality(self) -> Modality:
        """The kind of data."""
        return modality_of(self.dataset)

    @cached_property
    def weights_hash(self) -> str:
        """Hash of the network's parameters and buffers."""
        state = sorted(self.module.state_dict().items())
        names = " ".join(name for name, _ in state)
        return hashlib.sha256((names + tensor_hash(*(tensor for _, tensor in state))).encode()).hexdigest()

    @cached_property
    def background_hash(self) -> str:
        """Hash of the background and its classes."""
        return tensor_hash(self.background, self.labels)

    @cached_property
    def _scorers(self) -> dict[bool, Scorer]:
        return {}

    def scorer(self, compiled: bool) -> Scorer:
        """What runs the model; one and the same at every call, because compiling takes long."""
        if compiled not in self._scorers:
            self._scorers[compiled] = Scorer(
                self.module, returns="logits", precision=self.spec.precision, compile=compiled
            )
        return self._scorers[compiled]

    def used(self, configuration: Attribution) -> Attribution:
        """The configuration as it is computed: image LIME is told how to undo this data set's standardisation."""
        if not isinstance(configuration, LimeImage) or configuration.pixel_mean is not None:
            return configuration
        scale = self.dataset.standardisation
        mean, std = (tuple(part.flatten().double().tolist()) for part in (scale.mean, scale.std))
        return dataclasses.replace(configuration, pixel_mean=mean, pixel_std=std)


def modality_of(dataset: Dataset) -> Modality:
    """Whether a data set holds tables or images."""
    return "tabular" if dataset.inputs.ndim == 2 else "image"


@dataclass(frozen=True)
class Material:
    """Inputs and background of a data set, standardised; all models of the data set share them."""

    dataset: Dataset
    rows: Int[np.ndarray, " n"]
    inputs: Float[Tensor, "n *shape"]
    background: Float[Tensor, "m *shape"]
    labels: Int[Tensor, " m"]


def material(data: DataSpec, dataset: Dataset) -> Material:
    """Choose and standardise what is explained, and what methods may use."""
    rows = dataset.split.rows(data.part)[: data.limit]
    if not len(rows):
        raise ValueError(f"data: {dataset.name} has no {data.part} rows.")
    data.attributions.configurations(modality_of(dataset))  # refuses what is not for such data, before any training
    train_rows = _background_rows(dataset, data.background)
    inputs, background = (
        dataset.standardisation.apply(as_numbers(dataset.inputs[chosen])) for chosen in (rows, train_rows)
    )
    return Material(dataset, rows, inputs, background, torch.from_numpy(dataset.labels[train_rows]))


def explained_model(data: DataSpec, spec: ModelSpec, material: Material, saved: SavedModel) -> ExplainedModel:
    """Put a model and its data together."""
    _check_fits(spec, material.dataset, saved)
    return ExplainedModel(
        data,
        spec,
        material.dataset,
        saved.module.eval(),
        _NAMES[type(saved.architecture).__name__],
        _figures(saved.info.get("metrics")),
        material.rows,
        material.inputs,
        material.background,
        material.labels,
        tuple(data.attributions.configurations(modality_of(material.dataset))),
    )


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
        _check_fits(model, dataset, kept)
        _check_source(model, dataset, kept)
        return kept
    if model.file is not None:
        given = load(Path(model.file).expanduser())
        _check_fits(model, dataset, given)
        keep = {name: given.info[name] for name in ("hyperparameters", "metrics", "seed")}
        save(path, given.module, given.architecture, dataset=dataset, name=model.name, **keep)
        return load(path)
    assert model.architecture is not None  # noqa: S101  # the spec has one or the other
    train_shipped(model.architecture, dataset, path, seed=model.seed, device=device, progress=progress)
    return load(path)


def untrained(model: ModelSpec, dataset: Dataset) -> SavedModel:
    """The model of a spec before its training, or the file that the spec names."""
    if model.file is not None:
        return load(Path(model.file).expanduser())
    assert model.architecture is not None  # noqa: S101  # the spec has one or the other
    architecture = architecture_for(model.architecture, dataset)
    names = dataset.class_names, dataset.feature_names
    return SavedModel(architecture.build(model.seed).eval(), architecture, dataset.standardisation, *names, info={})


def _background_rows(dataset: Dataset, count: int | None) -> Int[np.ndarray, " m"]:
    """Training rows, all of a table or some of many images, chosen by the seed of the split."""
    rows = dataset.split.train
    if count is None:
        count = len(rows) if dataset.inputs.ndim == 2 else _IMAGES_IN_BACKGROUND
    key = noise.input_keys(torch.zeros(1, 1), dataset.split.seed, "background")
    order = noise.words(key, 0, len(rows))[0].argsort(stable=True).numpy()
    return np.sort(rows[order[:count]])


def _figures(metrics: Any) -> dict[str, dict[str, float]]:
    """Figures by part of the data, as training writes them; the metrics of one's own model may be anything."""
    parts = metrics.items() if isinstance(metrics, dict) else ()
    return {
        part: {name: float(value) for name, value in figures.items() if isinstance(value, int | float)}
        for part, figures in parts
        if isinstance(figures, dict)
    }


def _check_source(model: ModelSpec, dataset: Dataset, kept: SavedModel) -> None:
    """Refuse a kept model that the spec, or the file that it names, does not mean any more."""
    if kept.info.get("name", model.name) != model.name:  # only copies of files say it
        raise ModelFileError(f"{model.name}: the model kept here is {kept.info['name']}, under another's name.")
    if model.file is None:
        made = (_NAMES[type(kept.architecture).__name__], kept.info["seed"], kept.info["data"]["fingerprint"])
        same = made == (model.architecture, model.seed, dataset.fingerprint)
    else:
        try:
            same = load(Path(model.file).expanduser()).info["weights"] == kept.info["weights"]
        except (FileNotFoundError, ModelFileError):  # gone or damaged: the copy is what there is
            same = True
    if not same:
        raise ModelFileError(f"{model.name}: the model kept here is not the one that the spec asks for.")


def _check_fits(model: ModelSpec, dataset: Dataset, saved: SavedModel) -> None:
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
