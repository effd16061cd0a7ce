"""Metrics as people ask for them: by name, as a table of a file, or as objects."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from verax.core.registry import unknown
from verax.core.settings import made
from verax.metrics.base import CONTRACTS, METRICS, GuidedMetric, Metric, SampledMetric
from verax.metrics.infidelity import Infidelity
from verax.problem.problem import Problem

USUAL = ("pc", "dpc", "infidelity")
Metrics = Sequence[str | Metric] | Mapping[str, str | Metric]


def usual(problem: Problem) -> Metrics:
    """The metrics of a call that names none.

    Args:
        problem: Where all its values are categories, such as ids of tokens, there is no direction and no noise.
    """
    categorical = problem.given.codes
    if categorical is not None and bool(categorical.all()):
        return ("pc", Infidelity(perturbation="baseline"))
    return USUAL


def chosen(metrics: Any, fewest: int) -> dict[str, Metric]:
    """Read the argument ``metrics`` and find a key for each: its name, or its short form where several share a name.

    Args:
        metrics: Names, which stand for a metric's defaults, and objects, in a list, or in a dict that gives them names
            of its own.
        fewest: Features of the input that has fewest.
    """
    if isinstance(metrics, str) or not isinstance(metrics, Sequence | Mapping) or not metrics:
        raise ValueError(f"metrics: expected a list of metrics or a dict that names them, got {metrics!r}.")
    listed = [metric_of(metric, fewest) for metric in (metrics.values() if isinstance(metrics, Mapping) else metrics)]
    if isinstance(metrics, Mapping):
        return dict(zip(metrics, listed, strict=True))
    listed = list(dict.fromkeys(listed))
    names = [metric.name for metric in listed]
    return {metric.name if names.count(metric.name) == 1 else metric.short_form: metric for metric in listed}


def metric_of(metric: Any, fewest: int = 1 << 62, argument: str = "metrics") -> Metric:
    """One metric: an object as it is, or what a name stands for."""
    if isinstance(metric, GuidedMetric | SampledMetric):
        return metric
    if isinstance(metric, str) and metric in METRICS:
        return METRICS.get(metric).named({}, fewest)
    if isinstance(metric, str):
        raise ValueError(f"{argument}: {unknown(metric, [*METRICS, 'a metric object'])}")
    if isinstance(metric, type) and issubclass(metric, Metric):
        name = metric.__name__
        raise ValueError(f"{argument}: expected a metric object, found the class {name}; create one: {name}().")
    found = f"an object of {type(metric).__name__}" if isinstance(metric, Metric) else repr(metric)
    raise ValueError(
        f"{argument}: expected names of metrics or objects of classes that derive from {CONTRACTS}; found {found}."
    )


def metric_from(table: Mapping[str, Any], defaults: Mapping[str, Any]) -> Metric:
    """The metric that a table of a file describes: ``metric``, its name, and settings of it.

    Args:
        table: What the file says.
        defaults: Settings for whatever metric has them and does not say its own.

    Example:
        >>> metric_from({"metric": "dpc", "order": "signed"}, {"steps": 10, "samples": 320}).short_form
        "dpc(order='signed', steps=10)"
    """
    kind = METRICS.get(table.get("metric"), "metric")
    own = {field.name for field in fields(kind)}
    given = {name: value for name, value in table.items() if name != "metric"}
    found: Metric = made(kind, {name: value for name, value in defaults.items() if name in own} | given)
    return found
