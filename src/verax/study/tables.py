"""The tables of a study, in memory: what every analysis and every figure is made from."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy.typing as npt
import polars as pl

from verax.auditing.result import Audit
from verax.core.registry import unknown
from verax.metrics.base import Kind
from verax.study.matrices import Matrix, matrix

Array = npt.NDArray[Any]
Schema = Mapping[str, Any]  # from column to polars type

# The columns that reports show first.
LEADING_PC = "pc"
LEADING_DPC = "dpc_signed"
LEADING_ORDER: Literal["magnitude", "signed", "literal"] = "signed"  # of that DPC
LEADING_INFIDELITY = "infidelity_plain"  # the paper's equation, in which the scale of an attribution counts
NORMALISED_INFIDELITY = "infidelity"

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
BEST_BY = "the best by "  # before the metric's column: what an explanation is called in an audit
DISTANCE_SCHEMA: Mapping[str, Any] = {
    **dict.fromkeys(("model", "metric", "replacement", "configuration", "space"), pl.String()),
    **dict.fromkeys(("ratio", "beyond", "low", "high"), pl.Float64()),
    "inputs": pl.Int64(),
}
LIMITS_SCHEMA: Mapping[str, Any] = {
    **dict.fromkeys(("model", "metric", "configuration"), pl.String()),
    **dict.fromkeys(("score", "possible", "share", "low", "high"), pl.Float64()),
    "exact": pl.Boolean(),
    "found_by": pl.String(),
    "inputs": pl.Int64(),
}


@dataclass(frozen=True)
class MetricInfo:
    """A metric of a study."""

    column: str  # its column in the scores
    label: str  # what people read
    higher_is_better: bool
    kind: str  # what it rates, ``"local"`` or ``"baseline"`` attributions
    noisy: bool  # whether it rests on random draws: its Monte-Carlo error is in the column ``<column>_se``
    chance: float | None = None  # what attributions that know nothing get on average; None where no number is known
    epsilon: float | None = None  # how far its perturbations reach, where that is a setting of it; None where it is not
    series: str = ""  # all that it is apart from epsilon, the same text for metrics that differ in nothing else
    code: str = ""  # what makes it in Python, with the names of ``verax.metrics``; empty where that is not known
    decides: bool = False  # whether verdicts may rest on it
    known_limitations: str = ""  # what it is blind to, a sentence; empty where nothing is known


@dataclass(frozen=True)
class Scale:
    """How the rows of a study were standardised: its settings belong to such rows."""

    # mean, std: of the training rows, one number for each column, or for each channel of an image
    mean: tuple[float, ...]
    std: tuple[float, ...]
    columns: tuple[str, ...]  # names of the columns; empty for images
    wrapped: bool  # whether the model takes rows in their own units, so that it has to be wrapped


@dataclass(frozen=True)
class ModelInfo:
    """A model of a study."""

    name: str  # unique in the study, e.g. ``"HELOC-MLP"``.
    dataset: str
    modality: str  # ``"tabular"`` or ``"image"``
    architecture: str  # ``"linear"``, ``"mlp"``, ``"inception"`` or a name of the user's own
    # figures by split, ``{"test": {"auroc": 0.8, "accuracy": 0.73}}``; empty when unknown
    metrics: Mapping[str, Mapping[str, float]]
    # inputs, features: how many inputs were explained, and how many features each has
    inputs: int
    features: int
    # ``"classification"`` (scores are probabilities) or ``"regression"`` (scores are in the target's unit)
    task: str = "classification"
    # why the model is no better than its base rate; empty where it is better, or where that is not known
    weakness: str = ""
    measured_on: str = "test split"  # the rows that ``metrics`` are from, in words
    # how its rows were standardised; None where one formula does not say it, as with categories
    scale: Scale | None = None
    # of which score, baseline and rows the numbers are, by name, in words
    scope: Mapping[str, str] = field(default_factory=dict)
    # the questions that have no answer for it, each with the reason
    unanswered: Mapping[Kind, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Trust:
    """What a study asked beside its scores, on a few inputs of each model."""

    inputs: int  # how many of each model were to be looked at
    # how far perturbed rows lie from the training rows: one row per model, space and metric, under the metric's best
    # configuration; ``metric`` is empty for the inputs as they are. Columns as in ``DISTANCE_SCHEMA``.
    distance: pl.DataFrame
    # of each model and metric whose limits are known: what its best configuration scores on these inputs, what the best
    # possible attribution would, and the first as a share of the second, on a scale where 0 is chance. Columns as in
    # ``LIMITS_SCHEMA``.
    limits: pl.DataFrame
    audits: Mapping[str, Audit]  # by model: which metrics tell its best explanations from worse ones
    left_out: Mapping[str, tuple[str, ...]]  # sentences, by model: what was not asked, and why


@dataclass(frozen=True)
class Tables:
    """Everything that a finished study measured."""

    # one row per model, configuration and input; columns as in ``scores_schema``, String or Categorical
    scores: pl.DataFrame
    uncertainty: pl.DataFrame  # one row per model, configuration and number of draws; may be empty
    models: tuple[ModelInfo, ...]
    settings: Mapping[str, Any]  # settings of the metrics, e.g. ``{"steps": 20, "samples": 1280, "sigma": 0.2}``
    costs: pl.DataFrame  # one row per unit of work; columns as in ``COSTS_SCHEMA``; may be empty
    metrics: tuple[MetricInfo, ...]  # what was measured, in the order of the columns
    # model rows per input that each configuration needs where it shares none with others; columns as in
    # ``ALONE_SCHEMA``; without those of which it is not known
    alone: pl.DataFrame = field(default_factory=lambda: empty(ALONE_SCHEMA))
    trust: Trust | None = None  # how far all this can be trusted; None where the study did not ask
    runtimes: tuple[Any, ...] = ()  # runtime tables (what one attribution alone takes), or their files
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
    """A few explained inputs of one model, for pictures: ``E`` inputs under ``C`` configurations."""

    model: str
    dataset: str
    modality: str  # ``"tabular"`` or ``"image"``
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...]  # one per feature of a table; empty for images
    inputs: Array  # ``(E, ...)`` in raw units: values of a table, or pixels ``(E, C, H, W)`` between 0 and 1
    input_ids: tuple[str, ...]
    # targets, probabilities: ``(E,)``, the class that was explained, and the model's probability of it
    targets: Array
    probabilities: Array
    configurations: tuple[str, ...]
    methods: tuple[str, ...]
    roles: tuple[str, ...]  # ``"best"`` or ``"worst"`` of its method by mean DPC
    attributions: Array  # ``(C, E, ...)``, shaped like the inputs
    # pc_morf, pc_lerf: ``(C, E, steps + 1)`` class scores while features are removed, most or least relevant first
    pc_morf: Array
    pc_lerf: Array
    # dpc_morf, dpc_lerf: the same for the directed curves
    dpc_morf: Array
    dpc_lerf: Array
    # dpc, pc: ``(C, E)`` weighted area between the curves; DPC in the reading that is taken for the paper's
    dpc: Array
    pc: Array
    # what each input has for each feature of a table, in words, where numbers do not do: categories and gaps
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
    return pl.DataFrame(schema=dict(schema))


def joined(several: Sequence[Tables]) -> Tables:
    """The models of several studies with the metrics that all of them measured; settings and costs are left out."""
    first, *others = several
    names = Counter(model.name for tables in several for model in tables.models)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise ValueError(f"studies: models need different names to be shown together, got twice: {', '.join(twice)}.")
    shared = {metric.column for metric in first.metrics}.intersection(
        *({metric.column for metric in tables.metrics} for tables in others)
    )
    columns = [name for name in first.scores.columns if all(name in tables.scores.columns for tables in several)]
    return Tables(
        scores=pl.concat([tables.scores.select(columns) for tables in several]),
        uncertainty=pl.concat([tables.uncertainty for tables in several]),
        models=tuple(model for tables in several for model in tables.models),
        settings={},
        costs=first.costs.clear(),
        metrics=tuple(metric for metric in first.metrics if metric.column in shared),
    )
