"""What an audit tries: cases, metrics, replacements and trials, by default all."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any

from verax.attribution import Gradient, IntegratedGradients, KernelShap, LimeTabular
from verax.attribution.base import Attribution
from verax.auditing.known_truth import Case, cases
from verax.auditing.trials.base import TRIALS, Trial
from verax.core.registry import unknown
from verax.metrics import METRICS, DirectedPredictionChange, EffectCorrelation, Infidelity, Metric
from verax.metrics.base import Kind
from verax.metrics.choose import chosen
from verax.problem.features import Grid
from verax.problem.inputs import CheckedInputs
from verax.problem.replacement import (
    BASELINE,
    REPLACEMENTS,
    Blur,
    Conditional,
    Marginal,
    Nudge,
    Own,
    Replacement,
    Toward,
    checked_replacement,
)
from verax.problem.replacement.base import replacement_from

METHODS: dict[Kind, Attribution] = {"local": Gradient(), "baseline": IntegratedGradients()}
_READINGS: tuple[Metric, ...] = (
    DirectedPredictionChange(order="magnitude"),
    DirectedPredictionChange(order="magnitude", area="morf"),
    Infidelity(perturbation="baseline"),
    EffectCorrelation(perturbation="baseline"),
)
_SAME_SCORE = {"infidelity_uncertainty"}  # its score is Infidelity's own
_EXAMPLES: tuple[Replacement, ...] = (BASELINE, Toward(0.5), Nudge(0.1), Blur(1.0), Marginal(draws=4))
_OF_ROWS: tuple[Replacement, ...] = (Marginal(draws=4), Conditional())


def seeded(metrics: dict[str, Metric], metrics_or_names: Any, seed: int) -> dict[str, Metric]:
    """Metrics with the seed of the audit, but for those that were given as objects, which bring their own."""
    listed = metrics_or_names.values() if isinstance(metrics_or_names, Mapping) else metrics_or_names
    objects = [metric for metric in listed if isinstance(metric, Metric) and metric not in _READINGS]
    return {
        name: replace(metric, seed=seed) if hasattr(metric, "seed") and metric not in objects else metric  # type: ignore[call-arg]
        for name, metric in metrics.items()
    }


def chosen_metrics(metrics: Any) -> Any:
    """The metrics of a call, by default all that are registered and the readings of them that behave differently."""
    if metrics is not None:
        chosen(metrics, 1 << 62)  # raises for what is none, before any work
        return metrics
    return [*(name for name in METRICS if name not in _SAME_SCORE and _complete(METRICS.get(name))), *_READINGS]


def chosen_replacements(replacements: Any, background: bool, own_model: bool) -> tuple[Replacement, ...]:
    """The replacements of a call; by default all for cases, and for a user's model those that cost little."""
    if replacements is not None:
        alone = isinstance(replacements, str | Replacement) or callable(replacements)
        listed = [replacements] if alone else replacements
        read = [replacement_from(entry) if isinstance(entry, str) else checked_replacement(entry) for entry in listed]
        return tuple(entry for entry in read if entry is not None) or (BASELINE,)
    if own_model:
        return (BASELINE, *(_OF_ROWS if background else ()))
    known = (*map(type, _EXAMPLES), Own)
    return (*_EXAMPLES, *(kind() for kind in REPLACEMENTS.values() if kind not in known and _complete(kind)))


def chosen_trials(trials: Any, own_model: bool) -> tuple[Trial, ...]:
    """The trials of a call, by name or as objects; by default all that can be made."""
    if trials is None:
        other = True if own_model else None  # what can never be made on such a problem
        return tuple(kind() for kind in TRIALS.values() if kind.needs_truth is not other)
    if isinstance(trials, str | Trial) or not isinstance(trials, Iterable):
        trials = [trials]
    made = tuple(trial if isinstance(trial, Trial) else TRIALS.get(trial, "trials")() for trial in trials)
    if not made:
        raise ValueError("trials: expected at least one, got none.")
    return made


def chosen_cases(listed: Any, seed: int) -> tuple[Case, ...]:
    """The cases of a call, by name or as objects; by default all that come with Verax."""
    if listed is None:
        return cases(seed=seed)
    listed = [listed] if isinstance(listed, str | Case) else list(listed)
    if not listed:
        raise ValueError("cases: expected at least one, got none.")
    named = any(isinstance(entry, str) for entry in listed)
    known = {case.name: case for case in cases(seed=seed)} if named else {}
    for entry in listed:
        if not isinstance(entry, Case) and entry not in known:
            raise ValueError(f"cases: {unknown(entry, known or ['a verax.auditing.Case'])}")
    return tuple(entry if isinstance(entry, Case) else known[entry] for entry in listed)


def methods_for(inputs: CheckedInputs, slopes: bool, background: bool) -> dict[str, Attribution]:
    """Explanations for a model whose user brings none: a local and a baseline-oriented one, where that is possible."""
    if slopes:
        return {"gradient": METHODS["local"], "integrated gradients": METHODS["baseline"]}
    methods: dict[str, Attribution] = {"kernel shap": KernelShap(samples=256)}
    amounts = inputs.values.is_floating_point() and inputs.codes is None and not inputs.missing
    if amounts and inputs.values.ndim == 2 and isinstance(inputs.features, Grid):
        sigma: Any = "std" if background else 0.5
        methods["lime"] = LimeTabular(sigma=sigma, scale_kernel=True, samples=256)
    return methods


def _complete(kind: type) -> bool:
    return all(field.default is not MISSING or field.default_factory is not MISSING for field in fields(kind))
