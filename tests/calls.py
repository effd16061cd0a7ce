"""Problem and verb in one call, with settings of metrics beside them: for tests that vary many arguments at once."""

import contextlib
import importlib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any
from unittest import mock

import verax
from verax.metrics import METRICS, DirectedPredictionChange, Infidelity, InfidelityUncertainty, Metric, PredictionChange
from verax.metrics.choose import paper_metrics
from verax.problem.inputs import Inputs

auditing = importlib.import_module("verax.auditing.audit")
tuner = importlib.import_module("verax.tuning.tuner")
search_settings = importlib.import_module("verax.tuning.store")
_SETTINGS = ("steps", "tolerance", "sigma", "subset", "samples", "normalize", "perturbation", "effect", "seed")
_PAPER_STUDY = InfidelityUncertainty()


def problem(model: Any, inputs: Any, **settings: Any) -> verax.Problem:
    """A problem, from settings of which those of metrics were taken; methods explain the logit, as oracles do."""
    return verax.Problem(model, inputs, **{"explained": "logit", **settings})


def named(metrics: Any, about: verax.Problem, settings: Mapping[str, Any]) -> Any:
    """Metrics, of which those that are named have settings."""
    said = {name: value for name, value in settings.items() if value is not None}
    listed = list(paper_metrics(about).values()) if metrics is None else metrics
    if not said:
        return listed
    fewest = int(about.features.counts(slice(None)).min())

    def one(metric: Any) -> Any:
        if not isinstance(metric, str) or metric not in METRICS:
            return metric
        return METRICS.get(metric).named(said, fewest)

    if isinstance(listed, Mapping):
        return {name: one(metric) for name, metric in listed.items()}
    return [one(metric) for metric in listed] if isinstance(listed, list | tuple) else listed


def _split(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    return settings, {name: settings.pop(name) for name in _SETTINGS if name in settings}


def evaluate(model: Any, inputs: Any, attributions: Any, metrics: Any = None, **settings: Any) -> Any:
    """``verax.evaluate``."""
    limits, distance = settings.pop("limits", False), settings.pop("distance", False)
    settings, own = _split(settings)
    about = problem(model, inputs, **settings)
    evaluation = verax.evaluate(about, attributions, named(metrics, about, own))
    evaluation = evaluation.with_limits() if limits else evaluation
    return evaluation.with_distance() if distance else evaluation


def compare(model: Any, inputs: Any, attributions: Any, metrics: Any = None, **settings: Any) -> Any:
    """``verax.compare``."""
    limits, distance = settings.pop("limits", False), settings.pop("distance", False)
    verb = {name: settings.pop(name) for name in ("replacements", "level") if name in settings}
    settings, own = _split(settings)
    about = problem(model, inputs, **settings)
    comparison = verax.compare(about, attributions, named(metrics, about, own), **verb)
    comparison = comparison.with_limits() if limits else comparison
    return comparison.with_distance() if distance else comparison


def _metric(kind: type[Metric], settings: dict[str, Any]) -> Metric:
    names = {field.name for field in fields(kind)} - {"replacement"}
    return kind(**{name: settings.pop(name) for name in list(settings) if name in names})


def prediction_change(model: Any, inputs: Any, attributions: Any, **settings: Any) -> Any:
    """PC alone."""
    metric = _metric(PredictionChange, settings)
    return metric(problem(model, inputs, **settings), attributions)


def directed_prediction_change(model: Any, inputs: Any, attributions: Any, **settings: Any) -> Any:
    """DPC alone."""
    metric = _metric(DirectedPredictionChange, settings)
    return metric(problem(model, inputs, **settings), attributions)


def infidelity(model: Any, inputs: Any, attributions: Any, **settings: Any) -> Any:
    """Infidelity alone."""
    metric = _metric(Infidelity, settings)
    return metric(problem(model, inputs, **settings), attributions)


def infidelity_uncertainty(
    model: Any, inputs: Any, attributions: Any, study: InfidelityUncertainty = _PAPER_STUDY, **settings: Any
) -> Any:
    """The resampling study alone."""
    return study(problem(model, inputs, **settings), attributions)


def attribute(configurations: Any, model: Any, inputs: Any, **settings: Any) -> Any:
    """``verax.explain``."""
    return verax.explain(problem(model, inputs, **settings), configurations)


def explained(method: Any, model: Any, inputs: Any, **settings: Any) -> Any:
    """The attributions of one method."""
    return method(problem(model, inputs, **settings))


def limits(model: Any, inputs: Any, *, metrics: Any = ("pc", "dpc"), steps: Any = None, **settings: Any) -> Any:
    """``verax.limits``."""
    verb = {"rows": settings.pop("rows")} if "rows" in settings else {}
    about = problem(model, inputs, **settings)
    return verax.limits(about, named(metrics, about, {"steps": steps}), **verb)


def tune(model: Any, inputs: Any, methods: Any = None, **settings: Any) -> Any:
    """``verax.tune``, by DPC if nothing else is said; its tolerance and level are constants, which tests may change."""
    verb = ("question", "metric", "trials", "seconds", "seed", "store", "progress")
    own = {name: settings.pop(name) for name in verb if name in settings}
    own = own if "question" in own else {"metric": "dpc", **own}
    fixed = {name.upper(): settings.pop(name) for name in ("tolerance", "level") if name in settings}
    about = problem(model, inputs, **settings)
    with contextlib.ExitStack() as changed:
        for name, value in fixed.items():
            changed.enter_context(mock.patch.object(search_settings, name, value))
        if "progress" not in own:
            return verax.tune(about, methods, **own)
        store, tell = own.pop("store", None), own.pop("progress")
        search = {"trials": 200, "seconds": None, "seed": 0, "question": None, "metric": None, **own}
        return tuner.search(
            about, methods, search_settings.SearchSettings.checked(**search, problem=about), store, tell
        )


def audit(model: Any = None, inputs: Any = None, attributions: Any = None, **settings: Any) -> Any:
    """``verax.audit``; its level is a constant, which tests may change."""
    settings |= {"store": settings.pop("out")} if "out" in settings else {}
    verb = ("metrics", "replacements", "trials", "seed", "store", "progress")
    own = {name: settings.pop(name) for name in verb if name in settings}
    level = settings.pop("level", 0.95)
    sigma = settings.pop("sigma", None)
    with mock.patch.object(auditing, "LEVEL", level):
        if model is None:
            return verax.audit(settings.pop("cases", None), attributions, **own)
        about = problem(model, inputs, **settings)
        if sigma is not None:
            own["metrics"] = named(own["metrics"], about, {"sigma": sigma})
        return verax.audit(about, attributions, **own)


def stream(
    model: Any, batches: Any, attributions: Any = None, metrics: Any = None, *, like: Any = None, **settings: Any
) -> Any:
    """``verax.stream``; the problem is made of rows ``like`` those to come, by default of the first."""
    verb = ("by", "until", "stratify", "quantiles")
    own = {name: settings.pop(name) for name in verb if name in settings}
    settings, said = _split(settings)
    rows, batches = _first_rows(batches) if like is None else (like, batches)
    if isinstance(own.get("by"), str) and hasattr(rows, "columns"):
        rows = rows[[name for name in rows.columns if name != own["by"]]]
    about = problem(model, rows, **settings)
    return verax.stream(about, batches, attributions, named(metrics, about, said), **own)


def _first_rows(batches: Any) -> tuple[Any, Any]:
    if hasattr(batches, "shape") or isinstance(batches, Inputs) or not isinstance(batches, Iterable):
        return batches, batches
    rest = iter(batches)
    first = next(rest)
    rows = first["inputs"] if isinstance(first, Mapping) else first[0] if isinstance(first, tuple | list) else first
    return rows, itertools.chain([first], rest)
