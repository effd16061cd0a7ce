"""The resampling study of Infidelity for one model: how far its own error reaches at each number of draws."""

from dataclasses import replace

import polars as pl

import verax
from verax.metrics import Infidelity, InfidelityUncertainty
from verax.study.cache import Cache
from verax.study.configurations import thinned
from verax.study.explained_models import ExplainedModel
from verax.study.explanations import explain
from verax.study.keys import other_key
from verax.study.machine import Machine
from verax.study.spec import UncertaintySpec


def uncertainty_stem(model: ExplainedModel, metric: Infidelity, asked: UncertaintySpec) -> str:
    """The name of its file in the store."""
    configurations = thinned(model.configurations, asked.every)
    pool = {"infidelity": replace(metric, samples=asked.samples)}
    settings = asked.model_dump(mode="json")
    key = other_key("uncertainty", model, _rows(model, asked), configurations, pool, settings)
    return f"{model.name}.{key[:16]}"


def uncertainty_table(
    model: ExplainedModel, metric: Infidelity, asked: UncertaintySpec, machine: Machine, cache: Cache
) -> pl.DataFrame:
    """One row for each configuration and number of draws."""
    rows = _rows(model, asked)
    configurations = thinned(model.configurations, asked.every)
    explanations = explain(model, configurations, rows, machine, cache)
    pool = replace(metric, samples=asked.samples)
    study = InfidelityUncertainty(pool, asked.sizes, asked.resamples, asked.independent)
    inputs, scorer = model.material.given(rows, machine.device), model.scorer(machine.compile)
    result = verax.infidelity_uncertainty(
        scorer, inputs, explanations.values, study, batch_size=machine.batch_size, device=machine.device
    )
    # each is computed for all configurations when it is asked for
    values, resampled, analytic = result.mean_value, result.mean_resampled, result.mean_analytic
    independent = result.mean_independent or {method.canonical: [None] * len(asked.sizes) for method in configurations}
    per_input = {name: values.mean(0).tolist() for name, values in result.resampled.items()}
    per_input_analytic = {name: values.mean(0).tolist() for name, values in result.analytic.items()}
    records = [
        {
            "dataset": model.dataset.name,
            "model": model.name,
            "method": type(method).__name__,
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
        for method in configurations
        for name in (method.canonical,)
        for place, draws in enumerate(asked.sizes)
    ]
    return pl.DataFrame(records, schema_overrides={"independent_sd": pl.Float64})


def _rows(model: ExplainedModel, asked: UncertaintySpec) -> slice:
    return slice(0, min(asked.inputs, len(model.inputs)))
