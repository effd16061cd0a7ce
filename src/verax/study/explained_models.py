"""What a study explains: models, trained or copied, with the inputs and the background they are explained on."""

import contextlib
import hashlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from verax.attribution import Attribution, IntegratedGradients, LimeImage
from verax.attribution.base import Modality
from verax.core import noise
from verax.core.files import tensor_hash
from verax.core.shapes import Float, Int, Shaped
from verax.data.base import Dataset, Standardisation, as_numbers
from verax.data.file import column_baselines, column_values
from verax.problem.features import FeatureMap, feature_map
from verax.problem.problem import Problem
from verax.scoring.adapters import Adapter, Returns
from verax.scoring.class_scores import Scale
from verax.scoring.model_files.saved import SavedModel
from verax.scoring.scorer import Scorer
from verax.study.data_spec import DataSpec, ModelSpec


@dataclass(frozen=True)
class Machine:
    """Where and how to compute; no result depends on it beyond rounding.

    Attributes:
        device: ``"cpu"`` or a CUDA device.
        batch_size: Rows in a model call; found automatically.
        compile: Whether models are compiled, which pays on a GPU.
    """

    device: str = "cpu"
    batch_size: int | None = None
    compile: bool = False

    def gpus(self) -> tuple["Machine", ...]:
        """The same for each of its GPUs, where none is named and there are several; this one alone otherwise."""
        device = torch.device(self.device)
        count = torch.cuda.device_count() if device.type == "cuda" and device.index is None else 1
        return tuple(replace(self, device=f"cuda:{number}") for number in range(count)) if count > 1 else (self,)

    @property
    def name(self) -> str:
        """The device in words, and whether models are compiled: results with the same name have the same bits."""
        threads = torch.get_num_threads()
        name = "cpu" if threads == 1 else f"cpu, {threads} threads"
        if torch.device(self.device).type == "cuda":
            name = torch.cuda.get_device_name(self.device)
        return name + (", compiled" if self.compile else "")


_ANY = Machine()
_IMAGES_IN_BACKGROUND = 1024


@dataclass(frozen=True)
class Material:
    """Inputs and background of a data set, standardised; all models that take rows of this kind share them."""

    dataset: Dataset  # the data set
    rows: Int[np.ndarray, " n"]  # row numbers of the inputs in it, in the random order in which they are explained
    inputs: Float[Tensor, "n *shape"]  # what is explained
    background: Float[Tensor, "m *shape"]  # training rows
    labels: Int[Tensor, " m"] | None  # their classes; None for a regression
    scale: Standardisation  # how inputs are brought back to their own units
    # the feature of each element, where some take several; None for the usual
    features: Int[Tensor, " elements"] | None = None
    baselines: Float[Tensor, " elements"] | None = None  # what removed features become, where that is not 0
    # which elements are categories, which have no direction and take no noise; None for none
    codes: Shaped[Tensor, " elements"] | None = None
    explained: Scale = "log_odds"  # what methods explain

    @property
    def categories(self) -> list[str]:
        table = self.dataset.columns
        return (
            [] if table is None else [name for name, words in zip(table.names, table.categories, strict=True) if words]
        )

    @property
    def facts(self) -> dict[str, Tensor]:
        """What belongs to the inputs beside their values, by name; nothing for plain ones."""
        named = {"features": self.features, "baselines": self.baselines, "codes": self.codes}
        return {name: value for name, value in named.items() if value is not None}


@contextlib.contextmanager
def known_warnings_silenced() -> Iterator[None]:
    """Silence what a study says of its categories once, and what is no doubt where the study itself explains."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\w+ counts 0 for features that are categorical")
        warnings.filterwarnings("ignore", message="target: .* below 0 for inputs predicted")
        yield


def modality_of(dataset: Dataset) -> Modality:
    return "tabular" if dataset.inputs.ndim == 2 else "image"


def material(data: DataSpec, dataset: Dataset, *, by_column: bool = False) -> Material:
    """Inputs and background as the shipped architectures take them: numbers without gaps, categories as 0 and 1.

    With ``by_column``, for models of one's own, a number for each column of a table, with gaps where there are; in
    double precision, so that a model gets its rows as they were: trees ask on which side of a number a value is.
    """
    rows, train = _rows(data, dataset)
    words = () if dataset.columns is None else dataset.columns.categories
    categorical: Any = np.array([kinds is not None for kinds in words], dtype=bool)
    if by_column and dataset.inputs.ndim == 2:
        values, scale = column_values(dataset)
        inputs, background = (scale.apply(torch.from_numpy(values[part]).double()) for part in (rows, train))
        features, baselines = None, column_baselines(dataset) if any(words) else None
        categorical = categorical if any(words) else None
    else:
        scale, features, baselines = dataset.standardisation, dataset.features, dataset.baselines
        inputs, background = (scale.apply(as_numbers(dataset.inputs[part])) for part in (rows, train))
        categorical = None if features is None or not words else categorical[features]
    return Material(
        dataset,
        rows,
        inputs,
        background,
        None if dataset.task == "regression" else torch.from_numpy(dataset.labels[train]),
        scale,
        _tensor(features),
        _tensor(baselines, inputs.dtype),
        _tensor(categorical) if categorical is not None and categorical.any() else None,
        data.attributions.explained,
    )


def _rows(data: DataSpec, dataset: Dataset) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " m"]]:
    """The rows to explain, in an order of which any beginning is a random sample, and those of the background."""
    rows = _shuffled(dataset.split.rows(data.part), data.seed, "explained rows")[: data.limit]
    if not len(rows):
        raise ValueError(f"data: {dataset.name} has no {data.part} rows.")
    data.attributions.configurations(modality_of(dataset))  # raises for what is not for such data, before any training
    # training rows, all of a table or some of many images, chosen by the seed of the split
    train, count = dataset.split.train, data.background
    if count is None:
        count = len(train) if dataset.inputs.ndim == 2 else _IMAGES_IN_BACKGROUND
    return rows, np.sort(_shuffled(train, dataset.split.seed, "background")[:count])


def _shuffled(rows: Int[np.ndarray, " n"], seed: int, purpose: str) -> Int[np.ndarray, " n"]:
    """Rows in an order that hangs on their number, the seed and the purpose alone."""
    key = noise.input_keys(torch.zeros(1, 1), seed, purpose)
    shuffled: Int[np.ndarray, " n"] = rows[noise.words(key, 0, len(rows))[0].argsort(stable=True).numpy()]
    return shuffled


def _tensor(values: Any, dtype: torch.dtype | None = None) -> Any:
    return None if values is None else torch.as_tensor(values, dtype=dtype)


NAMES = {"Linear": "linear", "MLP": "mlp", "InceptionV1": "inception"}


@dataclass(frozen=True)
class ExplainedModel:
    data: DataSpec  # what the spec says about the data set
    spec: ModelSpec  # what the spec says about the model
    material: Material  # the inputs, the background, and what one feature is
    module: Any  # what predicts: a network in evaluation mode, or an adapter around a model of one's own
    returns: Returns | None  # what it returns; None for an adapter, which says it itself
    architecture: str  # ``"linear"``, ``"mlp"`` or ``"inception"``, or what kind of model it is
    metrics: dict[str, Any]  # how good the model is on each part of the data
    configurations: tuple[Attribution, ...]  # what is compared, as it is named in tables
    left_out: tuple[str, ...] = ()  # what was asked for but does not fit the model, with the reason
    # hash of what a model of one's own computes; None for a network, which is known by its weights
    identity: str | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def dataset(self) -> Dataset:
        return self.material.dataset

    @property
    def rows(self) -> Int[np.ndarray, " n"]:
        return self.material.rows

    @property
    def inputs(self) -> Float[Tensor, "n *shape"]:
        return self.material.inputs

    @property
    def background(self) -> Float[Tensor, "m *shape"]:
        return self.material.background

    @property
    def labels(self) -> Int[Tensor, " m"] | None:
        return self.material.labels

    @property
    def modality(self) -> Modality:
        return modality_of(self.dataset)

    @property
    def features(self) -> FeatureMap:
        groups = self.material.features
        return feature_map("auto" if groups is None else groups, self.inputs)

    def problem(self, rows: slice, machine: Machine = _ANY, *, background: bool = True) -> Problem:
        """The question about some inputs; without the background for metrics, which a study tells what they need."""
        return _problem(self.material, self.scorer(machine.compile), rows, machine, background)

    @cached_property
    def weights_hash(self) -> str:
        return self.identity or state_hash(self.module)

    @cached_property
    def background_hash(self) -> str:
        return tensor_hash(self.background, *(() if self.labels is None else (self.labels,)))

    @cached_property
    def facts_hash(self) -> dict[str, str]:
        """Hashes of what belongs to the inputs beside their values, and what is explained where not the logit."""
        explained = self.material.explained
        facts = {name: tensor_hash(value) for name, value in self.material.facts.items()}
        return facts if explained == "logit" else {**facts, "explained": explained}

    @cached_property
    def _scorers(self) -> dict[bool, Scorer]:
        return {}

    def scorer(self, compiled: bool) -> Scorer:
        """What runs the model; one and the same at every call, because compiling takes long."""
        if compiled not in self._scorers:
            self._scorers[compiled] = Scorer(
                self.module, returns=self.returns, precision=self.spec.precision, compile=compiled
            )
        return self._scorers[compiled]

    def explaining(self, configurations: Sequence[Attribution]) -> "ExplainedModel":
        """The same model with some configurations, and with what was hashed and compiled for it."""
        if tuple(configurations) == self.configurations:
            return self
        other = replace(self, configurations=tuple(configurations))
        for name in ("_scorers", "weights_hash", "background_hash", "facts_hash"):
            vars(other)[name] = getattr(self, name)
        return other

    def used(self, configuration: Attribution) -> Attribution:
        """The configuration as it is computed, with what is known of the data set's standardisation.

        Of images, LIME is told how to undo it, and Integrated Gradients that the mean is 0, for which the background
        has too few images.
        """
        if isinstance(configuration, IntegratedGradients):
            of_mean = self.modality == "image" and configuration.baseline == "mean"
            return replace(configuration, baseline="zero") if of_mean else configuration
        if not isinstance(configuration, LimeImage) or configuration.pixel_mean is not None:
            return configuration
        scale = self.dataset.standardisation
        mean, std = (tuple(part.flatten().double().tolist()) for part in (scale.mean, scale.std))
        return replace(configuration, pixel_mean=mean, pixel_std=std)


def _problem(material: Material, scorer: Scorer, rows: slice, machine: Machine, background: bool) -> Problem:
    return Problem(
        scorer,
        material.inputs[rows].to(machine.device),
        explained=material.explained,
        features="auto" if material.features is None else material.features,
        baselines=0.0 if material.baselines is None else material.baselines,
        names=material.dataset.feature_names if material.facts else None,
        categorical=material.codes,
        batch_size=machine.batch_size,
        device=machine.device,
        background=material.background.to(machine.device) if background else None,
        background_labels=material.labels if background else None,
    )


def explained_model(data: DataSpec, spec: ModelSpec, material: Material, saved: SavedModel) -> ExplainedModel:
    chosen, left_out = usable(data, spec, material, saved.module)
    return ExplainedModel(
        data,
        spec,
        material,
        saved.module.eval(),
        "values" if material.dataset.task == "regression" else "logits",
        NAMES[type(saved.architecture).__name__],
        _figures(saved.info.get("metrics")),
        chosen,
        left_out,
    )


def usable(
    data: DataSpec, spec: ModelSpec, material: Material, model: nn.Module | Adapter
) -> tuple[tuple[Attribution, ...], tuple[str, ...]]:
    """The configurations that fit a model and its task, and what is left out, with the reason."""
    sample = _problem(material, Scorer(model), slice(0, 1), _ANY, background=True)
    kept: list[Attribution] = []
    out: dict[str, list[str]] = {}
    for method in data.attributions.configurations(modality_of(material.dataset)):
        if reason := method.unsupported_reason(sample):
            out.setdefault(reason, []).append(method.label)
        else:
            kept.append(method)
    reasons = tuple(f"left out, because {why}: {', '.join(dict.fromkeys(names))}" for why, names in out.items())
    if not kept:
        raise ValueError(
            f"{spec.name}: no attribution is left; {'; '.join(reasons)}. Say removals = true, or list others."
        )
    return tuple(kept), reasons


def state_hash(module: nn.Module) -> str:
    state = sorted(module.state_dict().items())
    names = " ".join(name for name, _ in state)
    return hashlib.sha256((names + tensor_hash(*(tensor for _, tensor in state))).encode()).hexdigest()


def _figures(metrics: Any) -> dict[str, dict[str, float]]:
    """Figures by part of the data, as training writes them; the metrics of one's own model may be anything."""
    parts = metrics.items() if isinstance(metrics, dict) else ()
    return {
        part: {name: float(value) for name, value in figures.items() if isinstance(value, int | float)}
        for part, figures in parts
        if isinstance(figures, dict)
    }
