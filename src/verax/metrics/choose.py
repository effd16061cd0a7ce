"""Metrics by name, as a table of a file or as objects; and those that decide the two questions."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, Literal, Protocol, runtime_checkable

from verax.attribution.tree_shap import made_of_trees
from verax.core.registry import from_dict, unknown
from verax.metrics.base import CONTRACTS, METRICS, AttributionMetric, GuidedMetric, Kind, Metric, SampledMetric
from verax.metrics.effect_correlation import EffectCorrelation
from verax.metrics.infidelity import Infidelity
from verax.perturbation.sampled import all_categories
from verax.problem.problem import Problem

QUESTIONS: dict[Kind, str] = {
    "local": "what would a small change of the input do",
    "baseline": "what made the score what it is",
}
_PAPER = {name: name for name in ("pc", "dpc", "infidelity")}
SAMPLES = 160  # draws: 161 model rows per input and question for any number of attributions
COLUMNS: dict[str, Metric] = {
    "effect_correlation": EffectCorrelation(samples=SAMPLES),
    "effect_correlation_baseline": EffectCorrelation(perturbation="baseline", samples=SAMPLES),
}


def deciding_metrics(problem: Problem) -> dict[str, Metric]:
    """The metrics that decide the questions that a problem has, by their columns."""
    unanswered = why_not(problem)
    return {column: metric for column, metric in COLUMNS.items() if metric.kind not in unanswered}


def paper_metrics(problem: Problem) -> dict[str, Metric | str]:
    """The metrics of the paper, as far as a problem has directions and small changes."""
    if all_categories(problem.given):
        return {"pc": "pc", "infidelity": Infidelity(perturbation="baseline")}
    return {**_PAPER}


def why_not(problem: Problem) -> dict[Kind, str]:
    """The questions that have no metric to decide them, each with the reason."""
    return why_no_answer(problem.scorer.adapter, all_categories(problem.given))


def why_no_answer(adapter: Any, categories_alone: bool) -> dict[Kind, str]:
    """The questions that have no answer for a model and such values, each with the reason."""
    if categories_alone:
        return {"local": "all values are categories, such as ids of tokens, and a category has no small change"}
    if adapter.module is None and made_of_trees(adapter):
        return {"local": "the model is made of trees, whose score is flat around almost every input"}
    return {}


@runtime_checkable
class Decides(Protocol):
    """What is known of a metric before it decides a question."""

    @property
    def kind(self) -> str: ...
    @property
    def decides(self) -> bool: ...
    @property
    def known_limitations(self) -> str: ...


def decider(metrics: Mapping[str, Decides], kind: str) -> str | None:
    """Which of the metrics that were measured answers a question; None where none is about it.

    The first that may decide; where there is none, the first that is about the question.
    """
    about = [name for name, metric in metrics.items() if metric.kind == kind]
    return next((name for name in about if metrics[name].decides), about[0] if about else None)


def doubt(metric: Decides, label: str) -> str:
    """What is known against a metric that decided a question, a sentence or two; empty for one that may."""
    if metric.decides:
        return ""
    known = metric.known_limitations or "It was not shown to know the truth."
    return f"Decided by {label}, which verdicts should not rest on: {known}"


Metrics = Sequence[str | Metric] | Mapping[str, str | Metric] | Literal["paper", "all"]


def metrics_for(problem: Problem, metrics: Metrics | None) -> dict[str, Metric]:
    """The metrics that a call names for a problem, by their columns."""
    return _by_column(metrics, problem, fewest_features(problem))


def metrics_for_numbers(features: int, metrics: Metrics | None) -> dict[str, Metric]:
    """The metrics that a call names for models that take so many numbers, by their columns."""
    return _by_column(metrics, None, features)


def _by_column(metrics: Metrics | None, problem: Problem | None, fewest: int) -> dict[str, Metric]:
    if metrics is not None and not (isinstance(metrics, str) and metrics in ("paper", "all")):
        return chosen(metrics, fewest)
    paper = chosen(_PAPER if problem is None else paper_metrics(problem), fewest)
    if metrics == "paper":
        return paper
    listed = (COLUMNS if problem is None else deciding_metrics(problem)) | paper
    for name in METRICS if metrics == "all" else ():
        kind = METRICS.get(name)  # with its defaults; one that has none for some setting is left out
        if name not in listed and not any(field.default is field.default_factory is MISSING for field in fields(kind)):
            listed[name] = kind.named({}, fewest)
    return listed


def fewest_features(problem: Problem) -> int:
    """Features of the row that has fewest."""
    return int(problem.features.counts(slice(None)).min())


def chosen(metrics: Any, fewest: int) -> dict[str, Metric]:
    """Read the argument ``metrics`` and find a key for each: its name, or its short form where several share a name."""
    if isinstance(metrics, str) or not isinstance(metrics, Sequence | Mapping) or not metrics:
        raise ValueError(
            f'metrics: expected a list of metrics, a dict that names them, "paper" or "all", got {metrics!r}.'
        )
    listed = [metric_of(metric, fewest) for metric in (metrics.values() if isinstance(metrics, Mapping) else metrics)]
    if isinstance(metrics, Mapping):
        return dict(zip(metrics, listed, strict=True))
    listed = list(dict.fromkeys(listed))
    names = [metric.name for metric in listed]
    return {metric.name if names.count(metric.name) == 1 else metric.short_form: metric for metric in listed}


def metric_of(metric: Any, fewest: int = 1 << 62, argument: str = "metrics") -> Metric:
    """One metric: an object as it is, or what a name stands for."""
    if isinstance(metric, GuidedMetric | SampledMetric | AttributionMetric):
        return metric
    if isinstance(metric, str) and metric in METRICS:
        return METRICS.get(metric).named({}, fewest)
    if isinstance(metric, str):
        raise ValueError(f"{argument}: {unknown(metric, [*METRICS, 'a metric object'])}")
    if isinstance(metric, type) and issubclass(metric, Metric):
        name = metric.__name__
        raise ValueError(f"{argument}: expected a metric object, got the class {name}; create one: {name}().")
    raise ValueError(
        f"{argument}: expected names of metrics or objects of classes that derive from {CONTRACTS}; got {metric!r}."
    )


def metric_from(table: Mapping[str, Any], defaults: Mapping[str, Any]) -> Metric:
    """The metric that a table of a file describes: ``metric``, its name, and settings of it.

    Example:
        >>> metric_from({"metric": "dpc", "order": "magnitude"}, {"steps": 10, "samples": 320}).short_form
        "dpc(order='magnitude', steps=10)"
    """
    kind = METRICS.get(table.get("metric"), "metric")
    allowed = {field.name for field in fields(kind)}
    settings = {name: value for name, value in table.items() if name != "metric"}
    metric: Metric = from_dict(kind, {name: value for name, value in defaults.items() if name in allowed} | settings)
    return metric
