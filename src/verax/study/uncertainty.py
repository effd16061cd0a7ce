"""The resampling study of Infidelity for one model: how far its own error reaches at each number of draws."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl
import torch

from verax.attribution import Attribution
from verax.core.blocks import pieces
from verax.metrics import Infidelity, InfidelityUncertainty
from verax.metrics.infidelity_uncertainty import UncertaintyResult
from verax.study.compute import explain
from verax.study.data_spec import thinned
from verax.study.explained_models import ExplainedModel, Machine
from verax.study.metrics import local_infidelity
from verax.study.spec import UncertaintySpec
from verax.study.store import Cache, parquet
from verax.study.study import Study
from verax.study.tables import UNCERTAINTY_SCHEMA
from verax.study.units import chunk_size, other_key

_RESAMPLED_BYTES = 1 << 31  # of attributions, in float32


@dataclass(frozen=True)
class Resampling:
    """One of a study's tables: a model with some configurations, and how they are resampled."""

    model: ExplainedModel
    metric: Infidelity
    settings: UncertaintySpec


def uncertainty_tables(study: Study) -> dict[str, Resampling]:
    """All tables by the names of their files: one for each model, and another for methods that were added later."""
    metric, uncertainty = local_infidelity(study.metrics), study.spec.uncertainty
    if metric is None or not uncertainty.inputs:
        return {}
    tables = []
    for model in study.models.values():
        known: set[Attribution] = set()
        for stage in study.stages(model):
            chosen = thinned(stage.configurations, uncertainty.every)
            further = [method for method in chosen if method not in known]
            if local_infidelity(stage.metrics) == metric and further:
                # the first table is named by what is thinned, the others by what is left of it
                methods, every = (further, 1) if known else (stage.configurations, uncertainty.every)
                settings = uncertainty.model_copy(update={"every": every})
                tables.append(Resampling(model.explaining(methods), metric, settings))
                known.update(chosen)
    return {uncertainty_stem(table.model, table.metric, table.settings): table for table in tables}


def compute_uncertainty(study: Study, stem: str, machine: Machine) -> None:
    resampling = uncertainty_tables(study)[stem]
    cache = study.store.cache(study.spec.cache_gib)  # looked at anew: other workers have added attributions meanwhile
    table = uncertainty_table(resampling.model, resampling.metric, resampling.settings, machine, cache)
    study.store.put("uncertainty", stem, parquet(table, {"unit": stem}), ".parquet")


def uncertainty_stem(model: ExplainedModel, metric: Infidelity, settings: UncertaintySpec) -> str:
    configurations = thinned(model.configurations, settings.every)
    pool = {"infidelity": replace(metric, samples=settings.samples)}
    # tables without replacement keep the names that they had before there was a choice
    form = settings.model_dump(mode="json", exclude=set() if settings.with_replacement else {"with_replacement"})
    rows = slice(0, min(settings.inputs, len(model.inputs)))
    return f"{model.name}.{other_key('uncertainty', model, rows, configurations, pool, form)[:16]}"


def uncertainty_table(
    model: ExplainedModel, metric: Infidelity, settings: UncertaintySpec, machine: Machine, cache: Cache
) -> pl.DataFrame:
    configurations = thinned(model.configurations, settings.every)
    pool, sizes = replace(metric, samples=settings.samples), settings.sizes
    resampling = InfidelityUncertainty(
        pool, sizes, settings.resamples, settings.independent, with_replacement=settings.with_replacement
    )
    inputs, size = min(settings.inputs, len(model.inputs)), chunk_size(model)
    parts = []
    for start in range(0, inputs, size):  # as in the study's units, whose attributions fit into memory
        rows = slice(start, min(start + size, inputs))
        explained = explain(model, configurations, rows, machine, cache).values
        problem = model.problem(rows, machine, background=False)
        # a unit's attributions fit into a GPU's memory once, not the several times that resampling needs them
        at_once = max(1, _RESAMPLED_BYTES // (4 * problem.inputs[0].numel() * len(explained)))
        parts += [
            resampling(problem[part], {name: values[part] for name, values in explained.items()})
            for part in pieces(len(problem), at_once)
        ]
    result = joined(parts)
    # each is computed for all configurations at once
    means = (result.mean_value, result.mean_resampled, result.mean_analytic)
    independent = result.mean_independent or {method.canonical: [None] * len(sizes) for method in configurations}
    per_input = [
        {name: values.mean(0).tolist() for name, values in spread.items()}
        for spread in (result.resampled, result.analytic)
    ]
    columns = (*means, independent, *per_input)  # in the order of the schema
    names = model.dataset.name, model.name
    records = [
        (*names, type(method).__name__, name, draws, inputs, *(column[name][place] for column in columns))
        for method in configurations
        for name in (method.canonical,)
        for place, draws in enumerate(sizes)
    ]
    return pl.DataFrame(records, schema=dict(UNCERTAINTY_SCHEMA), orient="row")


def joined(parts: Sequence[UncertaintyResult]) -> UncertaintyResult:
    """Results of pieces of the inputs as that of all: means over inputs are weighted with their number."""
    first, inputs = parts[0], sum(part.scores.shape[1] for part in parts)
    repeated = [part.repetitions for part in parts if part.repetitions is not None]
    return replace(
        first,
        scores=torch.cat([part.scores for part in parts], dim=1),
        per_input=torch.cat([part.per_input for part in parts], dim=1),
        means=torch.stack([part.means * (part.scores.shape[1] / inputs) for part in parts]).sum(0),
        variance=torch.cat([part.variance for part in parts], dim=1),
        repetitions=torch.cat(repeated, dim=1) if repeated else None,
    )
