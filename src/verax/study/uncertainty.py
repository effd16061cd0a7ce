"""The resampling study of Infidelity for one model: how far its own error reaches at each number of draws."""

import polars as pl

import verax
from verax.metrics import Infidelity, InfidelityUncertainty
from verax.study.cache import Cache
from verax.study.configurations import thinned
from verax.study.explanations import Machine, explain
from verax.study.keys import other_key
from verax.study.spec import StudySpec
from verax.study.subjects import Subject


def uncertainty_stem(subject: Subject, spec: StudySpec) -> str:
    """The name of its file in the store."""
    rows = _rows(subject, spec)
    settings = spec.uncertainty.model_dump(mode="json") | {"sigma": spec.metrics.sigma, "seed": spec.metrics.seed}
    configurations = thinned(subject.configurations, spec.uncertainty.every)
    key = other_key("uncertainty", subject, rows, configurations, settings | {"subset": spec.metrics.subset})
    return f"{subject.model.name}.{key[:16]}"


def uncertainty_table(subject: Subject, spec: StudySpec, machine: Machine, cache: Cache) -> pl.DataFrame:
    """One row for each configuration and number of draws."""
    rows, asked = _rows(subject, spec), spec.uncertainty
    scorer = subject.scorer(machine.compile)
    configurations = thinned(subject.configurations, asked.every)
    explanations = explain(subject, configurations, rows, scorer, machine, cache)
    pool = Infidelity(spec.metrics.sigma, spec.metrics.subset, asked.samples, seed=spec.metrics.seed)
    study = InfidelityUncertainty(pool, asked.sizes, asked.resamples, asked.independent)
    inputs = subject.inputs[rows].to(machine.device)
    found = verax.infidelity_uncertainty(
        scorer, inputs, explanations.values, study, batch_size=machine.batch_size, device=machine.device
    )
    # each is computed for all configurations when it is asked for
    values, resampled, analytic = found.mean_value, found.mean_resampled, found.mean_analytic
    independent = found.mean_independent or {one.canonical: [None] * len(asked.sizes) for one in configurations}
    per_input = {name: values.mean(0).tolist() for name, values in found.resampled.items()}
    per_input_analytic = {name: values.mean(0).tolist() for name, values in found.analytic.items()}
    records = [
        {
            "dataset": subject.dataset.name,
            "model": subject.model.name,
            "method": type(one).__name__,
            "configuration": name,
            "draws": draws,
            "inputs": len(inputs),
            "value": values[name][place],
            "resampled_sd": resampled[name][place],
            "analytic_se": analytic[name][place],
            "independent_sd": independent[name][place],
            "per_input_resampled": per_input[name][place],
            "per_input_analytic": per_input_analytic[name][place],
        }
        for one in configurations
        for name in (one.canonical,)
        for place, draws in enumerate(asked.sizes)
    ]
    return pl.DataFrame(records, schema_overrides={"independent_sd": pl.Float64})


def _rows(subject: Subject, spec: StudySpec) -> slice:
    return slice(0, min(spec.uncertainty.inputs, len(subject.inputs)))
