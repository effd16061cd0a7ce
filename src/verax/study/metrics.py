"""The metrics of a study: what the table ``[metrics]`` of its spec means, and how it is written in full."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler  # pydantic itself names it from 2.11 on
from pydantic_core import InitErrorDetails, PydanticCustomError
from torch import Tensor

from verax.core.registry import to_dict
from verax.metrics import Infidelity
from verax.metrics.base import METRICS, GuidedMetric, Metric
from verax.metrics.choose import COLUMNS, metric_from
from verax.metrics.monte_carlo import EffectMetric
from verax.problem.replacement.base import needs_background
from verax.study.data_spec import UNKNOWN_NAME, Count, SpecTable, list_of, mistake, plain_name
from verax.study.tables import LEADING_DPC, LEADING_INFIDELITY, MetricInfo, scores_schema

_ENTRY_KEYS = ("as", "none", "limit")  # keys of an entry that are no settings of its metric
_SETTINGS = ("steps", "tolerance", "samples", "sigma", "subset", "seed")
_GUIDED: tuple[Any, ...] = (
    "pc",
    {"metric": "dpc", "order": "magnitude", "as": "dpc_magnitude"},
    {"metric": "dpc", "order": "signed", "as": "dpc_signed"},
    {"metric": "dpc", "order": "literal", "as": "dpc_literal"},
)
_SAMPLED: tuple[Any, ...] = (
    "infidelity",
    {"metric": "infidelity", "perturbation": "baseline", "as": "infidelity_baseline"},
)
_LABELS = {
    "dpc_magnitude": "DPC, magnitude order",
    "dpc_signed": "DPC, signed order",
    "dpc_literal": "DPC, literal",
    LEADING_DPC: "DPC",
    "dpc_coherent": "DPC, coherent",
    "dpc_coherent_morf": "DPC, coherent, MoRF alone",
    "lpc_0.1": "LPC, epsilon 0.1",
    "lpc_1": "LPC, epsilon 1",
    LEADING_INFIDELITY: "Infidelity, plain",
    "infidelity_baseline": "Infidelity, baseline-oriented",
}
_SUFFIXES = ("", "_se", "_error", "_mc_error")  # of columns that tables and their summaries have for a metric
_TAKEN = {*scores_schema(()), "inputs", "attribution_inputs", "guided_inputs", "sampled_inputs"}


class MetricsSpec(SpecTable):
    """How faithfulness is measured."""

    # the key ``list``: names of metrics, and tables with ``metric``, its name, ``as``, its column (else its name),
    # ``limit``, on how many inputs of each model, the first that were drawn, it is computed (else on all), and settings
    # of it; ``none`` names settings that are to be None, which TOML cannot write. Left out, it is PC, DPC in three
    # readings of the paper, normalised Infidelity, and the two effect correlations that decide which explanation the
    # report recommends, of 160 draws each.
    listed: Annotated[tuple[Any, ...] | None, list_of("names and tables of metrics", least=1)] = Field(
        default=None, alias="list"
    )
    # perturbation steps of PC and DPC, or ``"adaptive"``. This and the keys below are also for any other listed metric
    # that has such a setting and does not say its own, where the spec says them.
    steps: Count | Literal["adaptive"] = 20
    # with adaptive steps, the error of a score to stop at; the metrics' own where left out
    tolerance: Annotated[float, Field(gt=0)] | None = None
    infidelity: bool = True  # without a list: whether Infidelity, local and baseline-oriented, is measured as well
    samples: Count = 640  # Infidelity's draws per input
    sigma: Annotated[float, Field(gt=0)] = 0.2  # standard deviation of its Gaussian perturbation
    subset: Count | None = None  # features perturbed in each draw; all where left out
    seed: int = 0  # of its draws

    @field_validator("steps", mode="before")
    @classmethod
    def _steps_or_adaptive(cls, value: Any) -> Any:
        """One error, not one for each of the two kinds."""
        if value != "adaptive" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError("expected a whole number from 1 on or 'adaptive'")
        return value

    @model_validator(mode="wrap")
    @classmethod
    def _known(cls, content: Any, handler: ModelWrapValidatorHandler["MetricsSpec"]) -> "MetricsSpec":
        """Read the list with those other keys that are right, so that all mistakes are told at once."""
        try:
            spec = handler(content)
        except ValidationError as error:
            wrong = {line["loc"][0] for line in error.errors() if line["loc"]}
            table = content if isinstance(content, Mapping) else {}
            right = {key: value for key, value in table.items() if key not in wrong}
            _, lines = _read_list(right.get("list") or (), {key: right[key] for key in _SETTINGS if key in right})
            first = [
                InitErrorDetails(type=mistake(line["msg"], line["type"]), loc=line["loc"], input=line["input"])
                for line in error.errors()
            ]
            raise ValidationError.from_exception_data("spec", [*first, *lines]) from None
        metrics_of(spec)
        return spec


class StudyMetrics(dict[str, Metric]):
    """The metrics of a study, by their columns.

    Example:
        >>> some = StudyMetrics({"pc": METRICS.get("pc")(), "loss": Infidelity()}, {"loss": 100})
        >>> some.cut(slice(0, 64)), some.cut(slice(64, 128)), some.cut(slice(128, 192))
        ({}, {'loss': 36}, {'loss': 0})
        >>> list(some.on(slice(64, 128))), list(some.on(slice(128, 192)))
        (['pc', 'loss'], ['pc'])
    """

    def __init__(self, metrics: Mapping[str, Metric], limits: Mapping[str, int] = {}) -> None:
        super().__init__(metrics)
        self.limits = dict(limits)

    def cut(self, rows: slice) -> dict[str, int]:
        """Those that not all of these inputs have, and how many have them."""
        return {column: max(0, limit - rows.start) for column, limit in self.limits.items() if limit < rows.stop}

    def on(self, rows: slice) -> dict[str, Metric]:
        """Those that some of these inputs have."""
        cut = self.cut(rows)
        return {column: metric for column, metric in self.items() if cut.get(column, 1)}

    def only(self, columns: Collection[str]) -> "StudyMetrics":
        limits = {column: limit for column, limit in self.limits.items() if column in columns}
        return StudyMetrics({column: self[column] for column in columns}, limits)

    def on_data(self, rows: slice, background: Tensor) -> dict[str, Metric]:
        """Those that some of these inputs have, with training rows for replacements that take some."""
        metrics = self.on(rows)
        for column, metric in metrics.items():
            replacement = getattr(metric, "replacement", None)
            if replacement is not None and needs_background(replacement):
                filled = replace(replacement, background=background)
                metrics[column] = replace(metric, replacement=filled)  # type: ignore[call-arg]
        return metrics

    def form(self) -> list[dict[str, Any]]:
        """All of them in full, as the list of a spec."""
        limits = {column: {"limit": limit} for column, limit in self.limits.items()}
        return [written(column, metric) | limits.get(column, {}) for column, metric in self.items()]


def metrics_of(spec: MetricsSpec) -> StudyMetrics:
    """The metrics of a study, by their columns.

    Example:
        >>> spec = MetricsSpec(list=["pc", {"metric": "dpc", "order": "magnitude", "as": "dpc_magnitude"}], steps=10)
        >>> [(column, metric.short_form) for column, metric in metrics_of(spec).items()]
        [('pc', 'pc(steps=10)'), ('dpc_magnitude', "dpc(order='magnitude', steps=10)")]
    """
    deciding = (written(column, metric) for column, metric in COLUMNS.items())
    usual = (*_GUIDED, *(_SAMPLED if spec.infidelity else ()), *deciding)
    listed = usual if spec.listed is None else spec.listed
    settings = {key: getattr(spec, key) for key in spec.model_fields_set.intersection(_SETTINGS)}
    metrics, lines = _read_list(listed, settings)
    if lines:
        raise ValidationError.from_exception_data("spec", lines)
    return metrics


def written(column: str, metric: Metric) -> dict[str, Any]:
    """A metric in full, as an entry of the list: its identity in frozen specs and keys.

    Example:
        >>> written("loss", Infidelity(samples=5))["none"], written("loss", Infidelity(samples=5))["samples"]
        (['subset', 'effect'], 5)
    """
    settings = to_dict(metric)
    none = [field.name for field in fields(metric) if field.name not in settings]
    return {"metric": metric.name, "as": column, **settings} | ({"none": none} if none else {})


def described(column: str, metric: Metric, noisy: bool) -> MetricInfo:
    """What analysis and report need to know of a metric."""
    label = metric.label if column == metric.name else _LABELS.get(column) or metric.label_as(column)
    form = written("", metric)
    holder = form if "epsilon" in form else form.get("replacement", {})
    epsilon = holder.pop("epsilon", None)
    series = "" if epsilon is None else json.dumps(form, sort_keys=True)
    return MetricInfo(
        column,
        label,
        metric.higher_is_better,
        metric.kind,
        noisy,
        metric.chance,
        epsilon=epsilon,
        series=series,
        code=repr(metric),
        decides=metric.decides,
        known_limitations=metric.known_limitations,
    )


def is_drawn(metric: Metric) -> bool:
    """Whether scores have a Monte-Carlo error: of random draws, or of replacements that are drawn."""
    replacement = metric.experiment.replacement if isinstance(metric, GuidedMetric) else None
    return isinstance(metric, EffectMetric) or (replacement is not None and replacement.repeats > 1)


def local_infidelity(metrics: Mapping[str, Metric]) -> Infidelity | None:
    """The first local Infidelity of a study, whose own error can be studied."""
    infidelities = (metric for metric in metrics.values() if isinstance(metric, Infidelity))
    return next((metric for metric in infidelities if metric.kind == "local"), None)


@contextmanager
def _noted(lines: list[InitErrorDetails], *place: str | int) -> Iterator[None]:
    """Add what a check raises for, as a line of pydantic's error: by itself it takes one from each check."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = error if isinstance(error, PydanticCustomError) else mistake(error)
        lines.append(InitErrorDetails(type=kind, loc=place, input=None))


def _read_list(listed: Sequence[Any], settings: Mapping[str, Any]) -> tuple["StudyMetrics", list[InitErrorDetails]]:
    """The metrics of a list, with those settings of the whole table that they take, and all that is wrong."""
    defaults = {key: value for key, value in settings.items() if value is not None}
    metrics: dict[str, Metric] = {}
    limits: dict[str, int] = {}
    columns: list[str] = []  # also of metrics that are wrong otherwise, so that clashes are told at once
    lines: list[InitErrorDetails] = []
    for number, entry in enumerate(listed):
        table = {"metric": entry} if isinstance(entry, str) else entry
        with _noted(lines, "list", number):
            if not isinstance(table, Mapping):
                raise ValueError(f"expected the name of a metric or a table with metric, got {entry!r}")
            column = str(table.get("as", table.get("metric")))
            metrics[column] = _read(table, defaults)
        if not isinstance(table, Mapping):
            continue
        if "as" in table or column in METRICS:
            with _noted(lines, "list", number):
                _check_column(table.get("as", column), columns)
            columns.append(column)
        if "limit" in table:
            limit: Any = table["limit"]
            limits[column] = limit
            with _noted(lines, "list", number):
                if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
                    raise ValueError(f"limit: expected a number of inputs, at least 1, got {limit!r}")
    if len(metrics) == len(listed):
        with _noted(lines):
            _check_tolerance(metrics.values(), defaults)
    with _noted(lines, "list"):
        if limits and len(limits) == len(listed):
            raise ValueError("every metric has a limit; leave one without, and give the data a limit instead")
    return StudyMetrics(metrics, limits), lines


def _read(table: Mapping[str, Any], defaults: Mapping[str, Any]) -> Metric:
    try:
        METRICS.get(table.get("metric"), "metric")
    except ValueError as error:
        raise mistake(error, UNKNOWN_NAME) from None
    none = table.get("none", [])
    if not isinstance(none, list | tuple) or not all(isinstance(name, str) for name in none):
        raise ValueError(f"none: expected a list of settings, got {none!r}")
    settings = {key: value for key, value in table.items() if key not in _ENTRY_KEYS}
    return metric_from({**settings, **dict.fromkeys(none)}, defaults)


def _check_column(column: Any, others: Collection[str]) -> None:
    if not isinstance(column, str) or not column:
        raise ValueError(f"as: expected the name of a column, got {column!r}")
    try:
        plain_name(column)
    except ValueError as error:
        raise ValueError(f"as: {error}, got {column!r}") from None
    for suffix in _SUFFIXES:
        if f"{column}{suffix}" in _TAKEN:
            raise ValueError(f"as: {column}{suffix} is a column of the table already; choose another name")
        for other in others:
            if f"{column}{suffix}" == other or f"{other}{suffix}" == column:
                raise ValueError(f"as: {column!r} clashes with the column {other!r}; choose another name")


def _check_tolerance(metrics: Iterable[Metric], defaults: Mapping[str, Any]) -> None:
    """Raise for a tolerance that no metric would look at, because their steps are not adaptive."""
    steps = defaults.get("steps", "none")
    takers = (metric for metric in metrics if hasattr(metric, "tolerance"))
    if "tolerance" not in defaults or steps == "adaptive":
        return
    if not any(getattr(metric, "steps", "adaptive") == "adaptive" for metric in takers):
        raise ValueError(f"tolerance: it is where adaptive steps stop; expected steps adaptive beside it, got {steps}.")
