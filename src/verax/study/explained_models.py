"""What a study explains: models, trained or copied, with the inputs and the background they are explained on."""

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor, nn

from verax.attribution import Attribution, IntegratedGradients, LimeImage
from verax.attribution.base import Modality
from verax.core.files import tensor_hash
from verax.core.shapes import Float, Int
from verax.data.base import Dataset
from verax.problem.features import FeatureMap, feature_map
from verax.problem.problem import Problem
from verax.scoring.adapters import Adapter, Returns
from verax.scoring.model_files.saved import SavedModel
from verax.scoring.scorer import Scorer
from verax.study.data_spec import DataSpec, ModelSpec
from verax.study.study_data import Machine, Material, modality_of

NAMES = {"Linear": "linear", "MLP": "mlp", "InceptionV1": "inception"}


@dataclass(frozen=True)
class ExplainedModel:
    """A model and what it is explained on."""

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
        """Row numbers of the inputs in the data set."""
        return self.material.rows

    @property
    def inputs(self) -> Float[Tensor, "n *shape"]:
        return self.material.inputs

    @property
    def background(self) -> Float[Tensor, "m *shape"]:
        return self.material.background

    @property
    def labels(self) -> Int[Tensor, " m"] | None:
        """Their classes; None for a regression."""
        return self.material.labels

    @property
    def modality(self) -> Modality:
        return modality_of(self.dataset)

    @property
    def features(self) -> FeatureMap:
        groups = self.material.features
        return feature_map("auto" if groups is None else groups, self.inputs)

    def problem(self, rows: slice) -> Problem:
        """The question about some inputs, for forecasts."""
        return self.material.problem(self.scorer(False), rows, Machine(), background=True)

    @cached_property
    def weights_hash(self) -> str:
        """Hash of the network's parameters and buffers, or of what a model of one's own computes."""
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
        other = dataclasses.replace(self, configurations=tuple(configurations))
        for name in ("_scorers", "weights_hash", "background_hash", "facts_hash"):
            vars(other)[name] = getattr(self, name)
        return other

    def used(self, configuration: Attribution) -> Attribution:
        """The configuration as it is computed, with what is known of the data set's standardisation.

        Of images, LIME is told how to undo it, and Integrated Gradients that the mean is 0, for which the background
        has too few images.
        """
        if self.modality == "image" and isinstance(configuration, IntegratedGradients):
            if configuration.baseline != "mean":
                return configuration
            return dataclasses.replace(configuration, baseline="zero")
        if not isinstance(configuration, LimeImage) or configuration.pixel_mean is not None:
            return configuration
        scale = self.dataset.standardisation
        mean, std = (tuple(part.flatten().double().tolist()) for part in (scale.mean, scale.std))
        return dataclasses.replace(configuration, pixel_mean=mean, pixel_std=std)


def explained_model(data: DataSpec, spec: ModelSpec, material: Material, saved: SavedModel) -> ExplainedModel:
    """Put a network and its data together."""
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
    sample = material.problem(Scorer(model), slice(0, 1), Machine(), background=True)
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
