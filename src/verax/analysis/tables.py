"""The tables of a study, in memory: what every analysis and every figure is made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt
import polars as pl

from verax.analysis.matrices import Matrix, matrix
from verax.analysis.runtime import Runtime
from verax.analysis.trust import Trust
from verax.core.registry import unknown

Array = npt.NDArray[Any]
Schema = Mapping[str, Any]  # from column to polars type

COST_COLUMNS = (
    "attribution_rows",
    "attribution_rows_backward",
    "attribution_seconds",
    "guided_rows",
    "guided_seconds",
    "sampled_rows",
    "sampled_seconds",
)

_NAME = pl.Categorical()
_SCORED: Schema = {
    "dataset": _NAME,
    "model": _NAME,
    "modality": _NAME,
    "input": pl.Int64(),
    "input_id": pl.String(),
    "target": pl.Int64(),
    "method": _NAME,
    "configuration": _NAME,
    "local": pl.Boolean(),
}
_DEVIATIONS = ("resampled_sd", "analytic_se", "independent_sd", "per_input_resampled", "per_input_analytic")
_ROWS = ("rows_forward", "rows_backward", "rows_forward_unshared", "rows_backward_unshared")
UNCERTAINTY_SCHEMA: Schema = {
    **dict.fromkeys(("dataset", "model", "method", "configuration"), pl.String()),
    **dict.fromkeys(("draws", "inputs"), pl.Int64()),
    **dict.fromkeys(("value", *_DEVIATIONS), pl.Float64()),
}
ALONE_SCHEMA: Schema = {
    **dict.fromkeys(("model", "configuration"), pl.String()),
    **dict.fromkeys(("rows_forward", "rows_backward"), pl.Float64()),
}
COSTS_SCHEMA: Schema = {
    **dict.fromkeys(("dataset", "model", "unit"), pl.String()),
    **dict.fromkeys(("inputs", "configurations"), pl.Int64()),
    **dict.fromkeys(("seconds", "model_seconds", *_ROWS), pl.Float64()),
    "device": pl.String(),
}


@dataclass(frozen=True)
class MetricInfo:
    """A metric of a study.

    Attributes:
        column: Its column in the scores.
        label: What people read.
        kind: What it rates, ``"local"`` or ``"baseline"`` attributions.
        noisy: Whether it rests on random draws: its Monte-Carlo error is in the column ``<column>_se``.
        chance: What attributions that know nothing get on average; None where no number is known.
        epsilon: How far its perturbations reach, where that is a setting of it; None where it is not.
        series: All that it is apart from epsilon, the same text for metrics that differ in nothing else.
        code: What makes it in Python, with the names of ``verax.metrics``; empty where that is not known.
    """

    column: str
    label: str
    higher_is_better: bool
    kind: str
    noisy: bool
    chance: float | None = None
    epsilon: float | None = None
    series: str = ""
    code: str = ""


@dataclass(frozen=True)
class Scale:
    """How the rows of a study were standardised: its settings belong to such rows.

    Attributes:
        mean, std: Of the training rows, one number for each column, or for each channel of an image.
        columns: Names of the columns; empty for images.
        wrapped: Whether the model takes rows in their own units, so that it has to be wrapped.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    columns: tuple[str, ...]
    wrapped: bool


@dataclass(frozen=True)
class ModelInfo:
    """A model of a study.

    Attributes:
        name: Unique in the study, e.g. ``"HELOC-MLP"``.
        modality: ``"tabular"`` or ``"image"``.
        architecture: ``"linear"``, ``"mlp"``, ``"inception"`` or a name of the user's own.
        metrics: Figures by split, ``{"test": {"auroc": 0.8, "accuracy": 0.73}}``; empty when unknown.
        inputs, features: How many inputs were explained, and how many features each has.
        task: ``"classification"`` (scores are probabilities) or ``"regression"`` (scores are in the target's unit).
        weakness: Why the model is no better than its base rate; empty where it is better, or where that is not known.
        scope: Of which score, baseline and rows the numbers are, by name, in words.
        measured_on: The rows that ``metrics`` are from, in words.
        scale: How its rows were standardised; None where one formula does not say it, as with categories.
    """

    name: str
    dataset: str
    modality: str
    architecture: str
    metrics: Mapping[str, Mapping[str, float]]
    inputs: int
    features: int
    task: str = "classification"
    weakness: str = ""
    measured_on: str = "test split"
    scale: Scale | None = None
    scope: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Tables:
    """Everything that a finished study measured.

    Attributes:
        scores: One row per model, configuration and input; columns as in ``scores_schema``, String or Categorical.
        uncertainty: One row per model, configuration and number of draws; may be empty.
        settings: Settings of the metrics, e.g. ``{"steps": 20, "samples": 1280, "sigma": 0.2}``.
        costs: One row per unit of work; columns as in ``COSTS_SCHEMA``; may be empty.
        metrics: What was measured, in the order of the columns.
        alone: Model rows per input that each configuration needs where it shares none with others; columns as in
            ``ALONE_SCHEMA``; without those of which it is not known.
        trust: How far all this can be trusted; None where the study did not ask.
        runtimes: What the metrics take for one attribution alone, where that was timed.
    """

    scores: pl.DataFrame
    uncertainty: pl.DataFrame
    models: tuple[ModelInfo, ...]
    settings: Mapping[str, Any]
    costs: pl.DataFrame
    metrics: tuple[MetricInfo, ...]
    alone: pl.DataFrame = field(default_factory=lambda: empty(ALONE_SCHEMA))
    trust: Trust | None = None
    runtimes: tuple[Runtime, ...] = ()
    _matrices: dict[tuple[str, str], Matrix] = field(default_factory=dict, init=False, repr=False, compare=False)

    def matrix(self, model: str, metric: str) -> Matrix:
        """The scores of one model under one metric, made once, when they are first asked for."""
        if (model, metric) not in self._matrices:
            self._matrices[model, metric] = matrix(self.scores, model, metric)
        return self._matrices[model, metric]

    def metric(self, column: str) -> MetricInfo:
        """The metric of that column, or what there is instead."""
        known = {metric.column: metric for metric in self.metrics}
        if column not in known:
            raise ValueError(f"metric: {unknown(column, known or ['a study with metrics'])}")
        return known[column]


@dataclass(frozen=True)
class Example:
    """A few explained inputs of one model, for pictures: ``E`` inputs under ``C`` configurations.

    Attributes:
        modality: ``"tabular"`` or ``"image"``.
        feature_names: One per feature of a table; empty for images.
        inputs: ``(E, ...)`` in raw units: values of a table, or pixels ``(E, C, H, W)`` between 0 and 1.
        targets, probabilities: ``(E,)``, the class that was explained, and the model's probability of it.
        roles: ``"best"`` or ``"worst"`` of its method by mean DPC.
        attributions: ``(C, E, ...)``, shaped like the inputs.
        pc_morf, pc_lerf: ``(C, E, steps + 1)`` class scores while features are removed, most or least relevant first.
        dpc_morf, dpc_lerf: The same for the directed curves.
        dpc, pc: ``(C, E)`` weighted area between the curves; DPC in the reading that is taken for the paper's.
        texts: What each input has for each feature of a table, in words, where numbers do not do: categories and gaps.
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
    texts: tuple[tuple[str, ...], ...] = ()


def scores_schema(metrics: Sequence[MetricInfo]) -> Schema:
    """The columns of the scores of a study that measured these metrics."""
    schema = dict(_SCORED)
    for metric in metrics:
        schema[metric.column] = pl.Float64() if metric.noisy else pl.Float32()
        if metric.noisy:
            schema[f"{metric.column}_se"] = pl.Float32()
    return schema | dict.fromkeys(("attribution_norm", *COST_COLUMNS), pl.Float32())


def empty(schema: Schema) -> pl.DataFrame:
    """A table of these columns without rows."""
    return pl.DataFrame(schema=dict(schema))
