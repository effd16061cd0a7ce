"""The resampling study of Infidelity for one model: how far its own error reaches at each number of draws."""

import polars as pl

import verax
from verax.metrics import Infidelity, InfidelityUncertainty
from verax.scoring import Scorer
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
    scorer = Scorer(subject.module, returns="logits")
    configurations = thinned(subject.configurations, asked.every)
    explanations = explain(subject, configurations, rows, scorer, machine, cache)
    pool = Infidelity(spec.metrics.sigma, spec.metrics.subset, asked.samples, seed=spec.metrics.seed)
    study = InfidelityUncertainty(pool, asked.sizes, asked.resamples, asked.independent)
    inputs = subject.inputs[rows].to(machine.device)
    found = verax.infidelity_uncertainty(
        scorer, inputs, explanations.values, study, batch_size=machine.batch_size, device=machine.device
    )
    records = []
    for one in configurations:
        name = one.canonical
        independent = found.mean_independent[name] if asked.independent else [None] * len(asked.sizes)
        for place, draws in enumerate(asked.sizes):
            records.append(
                {
                    "dataset": subject.dataset.name,
                    "model": subject.model.name,
                    "method": type(one).__name__,
                    "configuration": name,
                    "draws": draws,
                    "inputs": len(inputs),
                    "value": found.mean_value[name][place],
                    "resampled_sd": found.mean_resampled[name][place],
                    "analytic_se": found.mean_analytic[name][place],
                    "independent_sd": independent[place],
                    "per_input_resampled": float(found.resampled[name][:, place].mean()),
                    "per_input_analytic": float(found.analytic[name][:, place].mean()),
                }
            )
    return pl.DataFrame(records, schema_overrides={"independent_sd": pl.Float64})


def _rows(subject: Subject, spec: StudySpec) -> slice:
    return slice(0, min(spec.uncertainty.inputs, len(subject.inputs)))
