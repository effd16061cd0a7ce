"""The tables of a study, in memory: what every analysis and every figure is made from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor

from verax.auditing.result import Audit
from verax.core.registry import unknown
from verax.metrics.base import Kind
from verax.statistics.intervals import Estimate, means_of, resampled_columns, resampled_estimate, times_drawn
from verax.statistics.ranks import ranks, tied

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Matrix:
    """Scores of one model under one metric, ``(C, N)``: canonical forms, as they first appear, by ascending inputs."""

    configurations: tuple[str, ...]
    inputs: npt.NDArray[np.int64]
    values: Floats
    _drawn: dict[int, Floats] = field(default_factory=dict, init=False, repr=False, compare=False)
    _ranked: dict[int, Floats] = field(default_factory=dict, init=False, repr=False, compare=False)
    _parts: dict[bytes, "Matrix"] = field(default_factory=dict, init=False, repr=False, compare=False)

    def places(self, configurations: Sequence[str]) -> Places:
        row = {name: place for place, name in enumerate(self.configurations)}
        return np.array([row[name] for name in configurations], dtype=np.intp)

    def resampled(self, resamples: int, seed: int) -> Floats:
        """Means over resampled inputs, ``(resamples, C)``; drawn once, for whoever asks for as many or fewer."""
        if len(self._drawn.get(seed, ())) < resamples:
            self._drawn[seed] = resampled_means(self.values, resamples, seed)
        return self._drawn[seed][:resamples]

    def resampled_ranks(self, resamples: int, seed: int) -> Floats:
        """The ``ranks`` of configurations by those means, equal ones ``tied``; ranked once for all comparisons."""
        if len(self._ranked.get(seed, ())) < resamples:
            self._ranked[seed] = ranks(tied(self.resampled(resamples, seed)))
        return self._ranked[seed][:resamples]

    def part(self, places: Places) -> "Matrix":
        """Some of the configurations, the same object at each call, which keeps what was drawn of it."""
        key = places.tobytes()
        if key not in self._parts:
            names = tuple(self.configurations[place] for place in places)
            self._parts[key] = Matrix(names, self.inputs, self.values[places])
        return self._parts[key]

    def negated(self) -> "Matrix":
        """The same with every score, and what was drawn of them, negated."""
        negated = Matrix(self.configurations, self.inputs, -self.values)
        negated._drawn.update((seed, -drawn) for seed, drawn in self._drawn.items())
        return negated


def matrix(scores: pl.DataFrame, model: str, metric: str) -> Matrix:
    """The scores of one model under one metric, without configurations and inputs that the metric was left out for."""
    columns = scores.select("model", "configuration", "input", pl.col(metric).alias("score"))
    rows = columns.filter(pl.col("model") == model, pl.col("score").is_not_null())
    names = rows["configuration"].cast(pl.Categorical)
    configurations = names.unique(maintain_order=True)
    numbers = rows["input"].to_numpy()
    present = np.bincount(numbers) > 0
    inputs = np.flatnonzero(present)
    shape = (len(configurations), len(inputs))
    # each score is put in its place, which takes a fraction of the time that it would to sort them
    codes, ordered = (each.to_physical().to_numpy() for each in (names, configurations))
    place = np.zeros(ordered.max(initial=0) + 1, dtype=np.intp)
    place[ordered] = np.arange(len(ordered))
    at = place[codes] * len(inputs) + (np.cumsum(present) - 1)[numbers]
    if rows.height != shape[0] * shape[1] or (np.bincount(at, minlength=rows.height) != 1).any():
        raise ValueError(f"scores: the configurations of model {model!r} do not all have the same inputs once.")
    values = np.empty(rows.height)
    values[at] = rows["score"].to_numpy()
    return Matrix(tuple(configurations.cast(pl.String)), inputs, values.reshape(shape))


def common(first: Matrix, second: Matrix) -> tuple[Matrix, Matrix]:
    """Both matrices reduced to the configurations and inputs that they share; as they are, where those are all."""
    if first.configurations == second.configurations and np.array_equal(first.inputs, second.inputs):
        return first, second
    shared = set(second.configurations)
    names = tuple(name for name in first.configurations if name in shared)
    inputs, columns, other = np.intersect1d(first.inputs, second.inputs, assume_unique=True, return_indices=True)
    return (
        Matrix(names, inputs, first.values[np.ix_(first.places(names), columns)]),
        Matrix(names, inputs, second.values[np.ix_(second.places(names), other)]),
    )


def resampled_means(values: Floats, resamples: int, seed: int) -> Floats:
    means: Floats = means_of(torch.tensor(values), _drawn(values.shape[1], resamples, seed)).numpy()
    return means


@lru_cache(maxsize=1)
def _drawn(inputs: int, resamples: int, seed: int) -> tuple[Tensor, ...]:
    """The draws of all matrices of a study, in less room than one of them takes."""
    return tuple(times_drawn(inputs, resamples, seed))


def redrawn(means: Floats, places: Places, seed: int) -> Floats:
    """The means, with those of some configurations, which are draws themselves, drawn anew in each resample."""
    drawn = means.copy()
    drawn[:, places] = resampled_columns(torch.tensor(means[:, places]), seed).numpy()
    return drawn


def estimate(statistic: Callable[..., Any], *means: tuple[Floats, Floats]) -> Estimate:
    """A figure ``(...)`` made from means over inputs ``(..., C)``, with its interval."""
    return interval(statistic(*(measured for measured, _ in means)), statistic(*(drawn for _, drawn in means)))


def interval(figure: Any, resampled: Any) -> Estimate:
    return resampled_estimate(float(figure), torch.tensor(np.asarray(resampled, dtype=np.float64)))


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
    schema = dict(_SCORED)
    for metric in metrics:
        schema[metric.column] = pl.Float64() if metric.noisy else pl.Float32()
        if metric.noisy:
            schema[f"{metric.column}_se"] = pl.Float32()
    return schema | dict.fromkeys(("attribution_norm", *COST_COLUMNS), pl.Float32())


def empty(schema: Schema) -> pl.DataFrame:
    return pl.DataFrame(schema=dict(schema))
