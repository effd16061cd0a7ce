"""Metrics as people ask for them: by name, with the settings of a call or of a file, or as objects."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from verax.core.registry import unknown
from verax.core.settings import made
from verax.metrics.base import CONTRACTS, METRICS, GuidedMetric, Metric, SampledMetric
from verax.metrics.weighted_area import Steps
from verax.perturbation.draws import Effect, Perturbation

USUAL = ("pc", "dpc", "infidelity")
Metrics = Sequence[str | Metric] | Mapping[str, str | Metric]


@dataclass(frozen=True)
class CallSettings:
    """What a call says to the metrics that it names; None leaves a setting to the metric. ``evaluate`` explains them.

    Example:
        >>> CallSettings(steps=10, seed=0).said
        {'steps': 10, 'seed': 0}
    """

    steps: Steps | None = None
    tolerance: float | None = None
    sigma: Any = None
    subset: int | None = None
    samples: int | None = None
    normalize: bool | None = None
    perturbation: Perturbation | None = None
    effect: Effect | None = None
    seed: int | None = None

    @property
    def said(self) -> dict[str, Any]:
        """Those that are not left to the metrics."""
        return {name: value for name, value in vars(self).items() if value is not None}


def usual(settings: Mapping[str, Any], coded: bool) -> tuple[Metrics, Mapping[str, Any]]:
    """The metrics of a call that names none, with its settings.

    Args:
        settings: Of the call.
        coded: Whether all inputs are codes, such as ids of tokens: these have no direction, and no noise is added.

    Example:
        >>> usual({"seed": 1}, coded=True)
        (('pc', 'infidelity'), {'perturbation': 'baseline', 'seed': 1})
    """
    return (("pc", "infidelity"), {"perturbation": "baseline", **settings}) if coded else (USUAL, settings)


def chosen(metrics: Any, settings: Mapping[str, Any], fewest: int) -> dict[str, Metric]:
    """Read the argument ``metrics`` and find a key for each: its name, or its short form where several share a name.

    Args:
        metrics: Names and objects, in a list, or in a dict that gives them names of its own.
        settings: Of the call, for metrics that are named; objects bring their own. None stands for a metric's default.
        fewest: Features of the input that has fewest.
    """
    if isinstance(metrics, str) or not isinstance(metrics, Sequence | Mapping) or not metrics:
        raise ValueError(f"metrics: expected a list of metrics or a dict that names them, found {metrics!r}.")
    named = metrics.values() if isinstance(metrics, Mapping) else metrics
    listed = [metric_of(metric, settings, fewest) for metric in named]
    check_tolerance(listed, settings)
    if isinstance(metrics, Mapping):
        return dict(zip(metrics, listed, strict=True))
    listed = list(dict.fromkeys(listed))
    names = [metric.name for metric in listed]
    return {metric.name if names.count(metric.name) == 1 else metric.short_form: metric for metric in listed}


def metric_of(
    metric: Any, settings: Mapping[str, Any] = {}, fewest: int = 1 << 62, argument: str = "metrics"
) -> Metric:
    """One metric: an object as it is, or what a name stands for in a call with these settings."""
    if isinstance(metric, GuidedMetric | SampledMetric):
        return metric
    if isinstance(metric, str) and metric in METRICS:
        given = {name: value for name, value in settings.items() if value is not None}
        return METRICS.get(metric).named(given, fewest)
    if isinstance(metric, str):
        raise ValueError(f"{argument}: {unknown(metric, [*METRICS, 'a metric object'])}")
    if isinstance(metric, type) and issubclass(metric, Metric):
        name = metric.__name__
        raise ValueError(f"{argument}: expected a metric object, found the class {name}; create one: {name}().")
    found = f"an object of {type(metric).__name__}" if isinstance(metric, Metric) else repr(metric)
    raise ValueError(
        f"{argument}: expected names of metrics or objects of classes that derive from {CONTRACTS}; found {found}."
    )


def check_tolerance(metrics: Iterable[Metric], settings: Mapping[str, Any]) -> None:
    """Refuse a tolerance that no metric would look at, because their steps are not adaptive.

    Args:
        metrics: Those that were chosen.
        settings: What was said to them; metrics of one's own may have a tolerance without any steps.
    """
    steps = settings.get("steps")
    if settings.get("tolerance") is None or steps == "adaptive":
        return
    takers = [metric for metric in metrics if hasattr(metric, "tolerance")]
    if not any(getattr(metric, "steps", "adaptive") == "adaptive" for metric in takers):
        found = "none" if steps is None else steps
        raise ValueError(
            f"tolerance: it is where adaptive steps stop; expected steps adaptive beside it, found {found}."
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
