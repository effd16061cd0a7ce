"""What a study found: its files read into the tables that analysis and report work on."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from verax.attribution import Attribution, Rows
from verax.study.examples import choose, examples_stem, read_example
from verax.study.explained_models import ExplainedModel
from verax.study.machine import Machine
from verax.study.metrics import described
from verax.study.model_quality import measured_on, weak_models
from verax.study.own_models import is_own
from verax.study.scope import scope_of
from verax.study.store import read_facts, read_tables
from verax.study.study import Study
from verax.study.summary import configurations as summarise
from verax.study.summary import methods as summarise_methods
from verax.study.tables import (
    ALONE_SCHEMA,
    COSTS_SCHEMA,
    LEADING_DPC,
    LEADING_INFIDELITY,
    NORMALISED_INFIDELITY,
    UNCERTAINTY_SCHEMA,
    Example,
    MetricInfo,
    ModelInfo,
    Scale,
    Schema,
    Tables,
    empty,
    scores_schema,
)
from verax.study.trust import read_trust
from verax.study.uncertainty import uncertainty_tables
from verax.study.units import Unit, forecast, rows_alone
from verax.study.verify import read_verdict

RUNTIME = "runtime.json"  # a runtime table that the user put into the study's folder


@dataclass(frozen=True)
class Results:
    """Tables and examples of a study, with what is missing.

    Attributes:
        tables: What analyses work on.
        examples: For pictures, one per model.
        missing: Units that are not there.
    """

    tables: Tables
    examples: tuple[Example, ...]
    missing: tuple[Unit, ...]


def read_results(study: Study) -> Results:
    """Read everything that is finished and whole; damaged files count as missing."""
    stems = {unit.stem: unit for unit in study.units}
    files = study.store.contents("scores", study.stems).found
    scores = study.scores()
    metrics = metric_infos(study, scores)
    tables = Tables(
        scores=_with_all(scores, scores_schema(metrics)),
        uncertainty=_uncertainty(study),
        models=tuple(_info(study, model, scores) for model in study.models.values()),
        settings=_settings(study),
        costs=_costs(study, files),
        metrics=metrics,
        alone=_alone(study),
        trust=read_trust(study, scores),
        runtimes=tuple(path for path in (study.store.folder / RUNTIME,) if path.exists()),
    )
    missing = tuple(unit for stem, unit in stems.items() if stem not in files)
    return Results(tables, _examples(study, tables.scores), missing)


def _with_all(scores: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """All columns in their order, those that no finished unit has as null."""
    if not scores.width:
        return empty(schema)
    return scores.select(
        pl.col(name) if name in scores.columns else pl.lit(None, kind).alias(name) for name, kind in schema.items()
    )


def metric_infos(study: Study, scores: pl.DataFrame) -> tuple[MetricInfo, ...]:
    """What the columns of the scores are; those of random draws have a column for their error."""
    infos = {
        column: described(column, metric, f"{column}_se" in scores.columns) for column, metric in study.metrics.items()
    }
    if LEADING_INFIDELITY in infos and NORMALISED_INFIDELITY in infos:
        infos[NORMALISED_INFIDELITY] = replace(infos[NORMALISED_INFIDELITY], label="Infidelity, normalised")
    return tuple(infos.values())


def chosen_examples(study: Study, model: ExplainedModel, scores: pl.DataFrame) -> list[tuple[Attribution, str]]:
    """The best and worst configuration of each method of a model, by the mean of the study's leading metric."""
    metrics = {metric.column: metric for metric in metric_infos(study, scores)}
    leading = metrics.get(LEADING_DPC) or next(iter(metrics.values()))
    means = summarise(scores.filter(pl.col("model") == model.name), [leading])
    methods = summarise_methods(means, leading)
    best, worst = (
        dict(zip(methods["method"].to_list(), methods[name].to_list(), strict=True)) for name in ("best", "worst")
    )
    return choose(model, best, worst)


def _examples(study: Study, scores: pl.DataFrame) -> tuple[Example, ...]:
    examples = []
    for model in study.models.values():
        if scores.filter(pl.col("model") == model.name).is_empty():
            continue
        stem = examples_stem(model, study.spec, chosen_examples(study, model, scores))
        path = study.store.contents("examples", [stem]).found.get(stem)
        if path is not None:
            examples.append(read_example(path))
    return tuple(examples)


def _uncertainty(study: Study) -> pl.DataFrame:
    stems = list(uncertainty_tables(study))
    files = study.store.contents("uncertainty", stems).found
    table = read_tables([files[stem] for stem in stems if stem in files])
    return table if table.width else empty(UNCERTAINTY_SCHEMA)


def _info(study: Study, model: ExplainedModel, scores: pl.DataFrame) -> ModelInfo:
    label = model.data.label or (study.live.label if study.live else "")
    return ModelInfo(
        name=model.name,
        dataset=model.dataset.name,
        modality=model.modality,
        architecture=model.architecture,
        metrics=model.metrics,
        inputs=len(model.inputs),
        features=model.features.most,
        task=model.dataset.task,
        weakness=" ".join(weak_models([model])),
        measured_on=measured_on(model),
        scale=_scale(model),
        scope=scope_of(model, scores, label) if scores.width else {},
    )


def _scale(model: ExplainedModel) -> Scale | None:
    if model.material.facts:  # categories, which no mean and deviation standardises
        return None
    mean, std = (tuple(part.flatten().tolist()) for part in (model.material.scale.mean, model.material.scale.std))
    return Scale(mean, std, model.dataset.feature_names, wrapped=is_own(model.spec))


def _settings(study: Study) -> dict[str, Any]:
    """Metric settings, limits of single metrics, how draws were resampled, and whether the results were verified."""
    settings: dict[str, Any] = study.spec.metrics.model_dump(exclude={"listed"})
    settings["resampling"] = study.spec.uncertainty.model_dump(include={"samples", "with_replacement"})
    if study.metrics.limits:
        settings["limits"] = study.metrics.limits
    verdict = read_verdict(study.store)
    if verdict is not None:
        settings["verified"] = {name: verdict[name] for name in ("different", "bitwise")}
        settings["verified"]["compared"] = verdict["values"]
    return settings


def _alone(study: Study) -> pl.DataFrame:
    records = [
        (model.name, name, rows.forward, rows.backward)
        for model in study.models.values()
        for name, rows in rows_alone(model, Machine()).items()
    ]
    return pl.DataFrame(records, schema=dict(ALONE_SCHEMA), orient="row", strict=False)


def _costs(study: Study, files: dict[str, Path]) -> pl.DataFrame:
    records = []
    unshared: dict[tuple[object, ...], Rows | None] = {}
    for unit in study.units:
        if unit.stem not in files:
            continue
        model, facts, kind = study.models[unit.model], read_facts(files[unit.stem]), study.kind(unit)
        if kind not in unshared:
            unshared[kind] = forecast(unit.part.explained, unit.rows, unit.part.metrics, Machine()).unshared
        rows = unshared[kind]
        records.append(
            {
                "dataset": model.dataset.name,
                "model": unit.model,
                "unit": unit.stem,
                "inputs": unit.inputs,
                "configurations": len(unit.part.explained.configurations),
                "seconds": facts["seconds"],
                "model_seconds": facts["model_seconds"],
                "rows_forward": facts["rows_forward"],
                "rows_backward": facts["rows_backward"],
                "rows_forward_unshared": None if rows is None else rows.forward,
                "rows_backward_unshared": None if rows is None else rows.backward,
                "device": facts["device"],
            }
        )
    return pl.DataFrame(records, schema=dict(COSTS_SCHEMA), strict=False)
