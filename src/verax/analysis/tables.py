"""The tables of a study, in memory: what every analysis and every figure is made from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import polars as pl

Array = npt.NDArray[Any]
Schema = Mapping[str, Any]  # from column to polars type

METRICS = ("pc", "dpc_magnitude", "dpc_signed", "dpc_literal", "infidelity", "infidelity_baseline")
LOWER_IS_BETTER = ("infidelity", "infidelity_baseline")
COST_COLUMNS = (
    "attribution_rows",
    "attribution_rows_backward",
    "attribution_seconds",
    "guided_rows",
    "guided_seconds",
    "infidelity_rows",
    "infidelity_seconds",
)
LIME_METHODS = ("LimeTabular", "LimeImage")
REFERENCE_METHODS = ("Random", "Edges")  # naive explanations that the paper compares with

_NAME = pl.Categorical()
SCORES_SCHEMA: Schema = {
    "dataset": _NAME,
    "model": _NAME,
    "modality": _NAME,
    "input": pl.Int64(),
    "input_id": pl.String(),
    "target": pl.Int64(),
    "method": _NAME,
    "configuration": _NAME,
    "local": pl.Boolean(),
    "pc": pl.Float32(),
    "dpc_magnitude": pl.Float32(),
    "dpc_signed": pl.Float32(),
    "dpc_literal": pl.Float32(),
    "infidelity": pl.Float64(),
    "infidelity_se": pl.Float32(),
    "infidelity_baseline": pl.Float64(),
    "infidelity_baseline_se": pl.Float32(),
    "attribution_norm": pl.Float32(),
    **dict.fromkeys(COST_COLUMNS, pl.Float32()),
}
UNCERTAINTY_SCHEMA: Schema = {
    "dataset": pl.String(),
    "model": pl.String(),
    "method": pl.String(),
    "configuration": pl.String(),
    "draws": pl.Int64(),
    "inputs": pl.Int64(),
    "value": pl.Float64(),
    "resampled_sd": pl.Float64(),
    "analytic_se": pl.Float64(),
    "independent_sd": pl.Float64(),
    "per_input_resampled": pl.Float64(),
    "per_input_analytic": pl.Float64(),
}
COSTS_SCHEMA: Schema = {
    "dataset": pl.String(),
    "model": pl.String(),
    "unit": pl.String(),
    "inputs": pl.Int64(),
    "configurations": pl.Int64(),
    "seconds": pl.Float64(),
    "model_seconds": pl.Float64(),
    "rows_forward": pl.Float64(),
    "rows_backward": pl.Float64(),
    "rows_forward_unshared": pl.Float64(),
    "rows_backward_unshared": pl.Float64(),
    "device": pl.String(),
}


@dataclass(frozen=True)
class ModelInfo:
    """A model of a study.

    Attributes:
        name: Unique in the study, e.g. ``"HELOC-MLP"``.
        dataset: The data set it was trained on.
        modality: ``"tabular"`` or ``"image"``.
        architecture: ``"linear"``, ``"mlp"``, ``"inception"`` or a name of the user's own.
        metrics: Figures by split, ``{"test": {"auroc": 0.8, "accuracy": 0.73}}``; empty when unknown.
        inputs: How many inputs were explained.
        features: How many features an input has.
    """

    name: str
    dataset: str
    modality: str
    architecture: str
    metrics: Mapping[str, Mapping[str, float]]
    inputs: int
    features: int


@dataclass(frozen=True)
class Tables:
    """Everything that a finished study measured.

    Attributes:
        scores: One row per model, configuration and input; columns as in ``SCORES_SCHEMA``, String or Categorical.
        uncertainty: One row per model, configuration and number of draws; may be empty.
        models: What was explained.
        settings: Settings of the metrics, e.g. ``{"steps": 20, "samples": 1280, "sigma": 0.2}``.
        costs: One row per unit of work; columns as in ``COSTS_SCHEMA``; may be empty.

    Example:
        >>> tables = Tables(empty(SCORES_SCHEMA), empty(UNCERTAINTY_SCHEMA), (), {}, empty(COSTS_SCHEMA))
        >>> tables.scores.height, tables.model("HELOC-MLP")
        (0, None)
    """

    scores: pl.DataFrame
    uncertainty: pl.DataFrame
    models: tuple[ModelInfo, ...]
    settings: Mapping[str, Any]
    costs: pl.DataFrame

    def model(self, name: str) -> ModelInfo | None:
        """The model of that name, or None where the study has no such model."""
        return next((model for model in self.models if model.name == name), None)


@dataclass(frozen=True)
class Example:
    """A few explained inputs of one model, for pictures.

    Attributes:
        model: Name of the model.
        dataset: Name of its data set.
        modality: ``"tabular"`` or ``"image"``.
        class_names: One per class.
        feature_names: One per feature of a table; empty for images.
        inputs: ``(E, ...)`` in raw units: values of a table, or pixels ``(E, C, H, W)`` between 0 and 1.
        input_ids: One per input.
        targets: ``(E,)``, the class that was explained.
        probabilities: ``(E,)``, the model's probability of that class.
        configurations: ``C`` canonical forms.
        methods: The method of each configuration.
        roles: ``"best"`` or ``"worst"`` of its method by mean DPC.
        attributions: ``(C, E, ...)``, shaped like the inputs.
        pc_morf: ``(C, E, steps + 1)`` class scores while features are removed, most relevant first.
        pc_lerf: The same, least relevant first.
        dpc_morf: ``(C, E, steps + 1)`` directed curves, most relevant first.
        dpc_lerf: The same, least relevant first.
        dpc: ``(C, E)`` weighted area between the directed curves, by magnitude.
        pc: ``(C, E)`` weighted area between the plain curves.
    """

    model: str
    dataset: str
    modality: str
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    inputs: Array
    input_ids: tuple[str, ...]
    targets: Array
    probabilities: Array
    configurations: tuple[str, ...]
    methods: tuple[str, ...]
    roles: tuple[str, ...]
    attributions: Array
    pc_morf: Array
    pc_lerf: Array
    dpc_morf: Array
    dpc_lerf: Array
    dpc: Array
    pc: Array


def empty(schema: Schema) -> pl.DataFrame:
    """A table of these columns without rows.

    Example:
        >>> empty(COSTS_SCHEMA).columns[:3]
        ['dataset', 'model', 'unit']
    """
    return pl.DataFrame(schema=dict(schema))


def higher_is_better(metric: str) -> bool:
    """Whether more of this metric is better: True for PC and DPC, False for Infidelity.

    Example:
        >>> higher_is_better("dpc_magnitude"), higher_is_better("infidelity")
        (True, False)
    """
    if metric not in METRICS:
        raise ValueError(f"metric: expected one of {', '.join(METRICS)}, found {metric!r}.")
    return metric not in LOWER_IS_BETTER
