"""What an audit is about where nothing is said: every metric, every replacement, every trial."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from typing import Any

from verax.attribution import Gradient, IntegratedGradients, KernelShap, LimeTabular
from verax.attribution.base import Attribution
from verax.auditing.known_truth import cases as all_cases
from verax.auditing.known_truth.base import Case
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
from verax.problem.replacement.words import replacement_from

METHODS: dict[Kind, Attribution] = {"local": Gradient(), "baseline": IntegratedGradients()}
_READINGS: tuple[Metric, ...] = (
    DirectedPredictionChange(order="signed"),
    DirectedPredictionChange(area="morf"),
    Infidelity(perturbation="baseline"),
    EffectCorrelation(perturbation="baseline"),
)
_SAME_SCORE = {"infidelity_uncertainty"}  # its score is Infidelity's own
_EXAMPLES: tuple[Replacement, ...] = (BASELINE, Toward(0.5), Nudge(0.1), Blur(1.0), Marginal(draws=4))
_OF_ROWS: tuple[Replacement, ...] = (Marginal(draws=4), Conditional())


def seeded(metrics: dict[str, Metric], asked: Any, seed: int) -> dict[str, Metric]:
    """Metrics with the seed of the audit, but for those that were given as objects, which bring their own."""
    listed = asked.values() if isinstance(asked, Mapping) else asked
    given = [one for one in listed if isinstance(one, Metric) and one not in _READINGS]
    return {
        name: replace(one, seed=seed) if hasattr(one, "seed") and one not in given else one  # type: ignore[call-arg]
        for name, one in metrics.items()
    }


def metrics_asked(metrics: Any) -> Any:
    """What was asked for, or all registered metrics and the readings of them that behave differently."""
    if metrics is not None:
        chosen(metrics, 1 << 62)  # refuses what is none, before any work
        return metrics
    known = [
        name
        for name, kind in ((name, METRICS.get(name)) for name in METRICS)
        if name not in _SAME_SCORE and _complete(kind)
    ]
    return [*known, *_READINGS]


def replacements_asked(replacements: Any, background: bool, own_model: bool) -> tuple[Replacement, ...]:
    """What was asked for; or all replacements for cases, and for one's own model those that cost little."""
    if replacements is not None:
        alone = isinstance(replacements, str | Replacement) or callable(replacements)
        listed = [replacements] if alone else replacements
        found = [replacement_from(one) if isinstance(one, str) else checked_replacement(one) for one in listed]
        return tuple(one for one in found if one is not None) or (BASELINE,)
    if own_model:
        return (BASELINE, *(_OF_ROWS if background else ()))
    examples = {type(one): one for one in _EXAMPLES}
    more = [kind() for kind in REPLACEMENTS.values() if kind not in (*examples, Own) and _complete(kind)]
    return (*_EXAMPLES, *more)


def trials_asked(trials: Any, own_model: bool) -> tuple[Trial, ...]:
    """What was asked for, by name or as objects; by default all that can be made."""
    if trials is None:
        other = True if own_model else None  # what can never be made here
        return tuple(kind() for kind in TRIALS.values() if kind.needs_truth is not other)
    if isinstance(trials, str | Trial) or not isinstance(trials, Iterable):
        trials = [trials]
    found = tuple(one if isinstance(one, Trial) else TRIALS.get(one, "trials")() for one in trials)
    if not found:
        raise ValueError("trials: expected at least one, got none.")
    return found


def cases_asked(cases: Any, seed: int) -> tuple[Case, ...]:
    """What was asked for, by name or as objects; all that come with Verax by default."""
    if cases is None:
        return all_cases(seed=seed)
    listed: Sequence[Any] = [cases] if isinstance(cases, str | Case) else list(cases)
    if not listed:
        raise ValueError("cases: expected at least one, got none.")
    known = {one.name: one for one in all_cases(seed=seed)} if any(isinstance(one, str) for one in listed) else {}
    for one in listed:
        if not isinstance(one, Case) and one not in known:
            raise ValueError(f"cases: {unknown(one, known or ['a verax.auditing.Case'])}")
    return tuple(one if isinstance(one, Case) else known[one] for one in listed)


def methods_for(inputs: CheckedInputs, slopes: bool, background: bool) -> dict[str, Attribution]:
    """Explanations for a model whose user brings none: a local and a baseline-oriented one, where that is possible."""
    if slopes:
        return {"gradient": METHODS["local"], "integrated gradients": METHODS["baseline"]}
    found: dict[str, Attribution] = {"kernel shap": KernelShap(samples=256)}
    amounts = inputs.values.is_floating_point() and inputs.codes is None and not inputs.missing
    if amounts and inputs.values.ndim == 2 and isinstance(inputs.features, Grid):
        sigma: Any = "std" if background else 0.5
        found["lime"] = LimeTabular(sigma=sigma, scale_kernel=True, samples=256)
    return found


def _complete(kind: type) -> bool:
    """Whether all settings have a default."""
    return all(one.default is not MISSING or one.default_factory is not MISSING for one in fields(kind))
