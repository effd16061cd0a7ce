"""What a study found: its files read into the tables that analysis and report work on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from verax.analysis.summary import configurations as summarise
from verax.analysis.summary import methods as summarise_methods
from verax.analysis.tables import COSTS_SCHEMA, SCORES_SCHEMA, UNCERTAINTY_SCHEMA, Example, ModelInfo, Tables
from verax.features import feature_map
from verax.study.examples import choose, examples_stem, read_example
from verax.study.explanations import Machine
from verax.study.plan import Unit, forecast
from verax.study.store import read_facts, read_tables
from verax.study.study import Study
from verax.study.subjects import Subject
from verax.study.uncertainty import uncertainty_stem
from verax.study.verify import read_verdict


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
    scores = study.store.contents("scores", stems).found
    ordered = [scores[stem] for stem in stems if stem in scores]
    wanted = [uncertainty_stem(one, study.spec) for one in study.subjects.values()]
    uncertain = study.store.contents("uncertainty", wanted).found
    tables = Tables(
        scores=_with_schema(read_tables(ordered), SCORES_SCHEMA),
        uncertainty=_with_schema(
            read_tables([uncertain[one] for one in wanted if one in uncertain]), UNCERTAINTY_SCHEMA
        ),
        models=tuple(_info(one) for one in study.subjects.values()),
        settings=_settings(study),
        costs=_costs(study, scores),
    )
    missing = tuple(unit for stem, unit in stems.items() if stem not in scores)
    return Results(tables, _examples(study, tables.scores), missing)


def chosen_examples(subject: Subject, scores: pl.DataFrame) -> list[tuple[Any, str]]:
    """The best and worst configuration of each method of a model, by mean DPC."""
    own = scores.filter(pl.col("model") == subject.model.name)
    found = summarise_methods(summarise(own), "dpc_magnitude")
    best, worst = (
        dict(zip(found["method"].to_list(), found[name].to_list(), strict=True)) for name in ("best", "worst")
    )
    return choose(subject, best, worst)


def _examples(study: Study, scores: pl.DataFrame) -> tuple[Example, ...]:
    found = []
    for subject in study.subjects.values():
        if scores.filter(pl.col("model") == subject.model.name).is_empty():
            continue
        stem = examples_stem(subject, study.spec, chosen_examples(subject, scores))
        path = study.store.contents("examples", [stem]).found.get(stem)
        if path is not None:
            found.append(read_example(path))
    return tuple(found)


def _info(subject: Subject) -> ModelInfo:
    return ModelInfo(
        name=subject.model.name,
        dataset=subject.dataset.name,
        modality=subject.modality,
        architecture=subject.architecture,
        metrics=subject.metrics,
        inputs=len(subject.inputs),
        features=feature_map("auto", subject.inputs).most,
    )


def _settings(study: Study) -> dict[str, Any]:
    """Metric settings, the seeds of all data sets, and whether the results were verified."""
    settings: dict[str, Any] = study.spec.metrics.model_dump()
    verdict = read_verdict(study.store)
    if verdict is not None:
        settings["verified"] = {"compared": verdict["values"], "different": len(verdict["different"])}
    return settings


def _costs(study: Study, scores: dict[str, Path]) -> pl.DataFrame:
    records = []
    for unit in study.units:
        if unit.stem not in scores:
            continue
        subject, facts = study.subjects[unit.model], read_facts(scores[unit.stem])
        unshared = forecast(subject, unit.rows, study.spec.metrics, Machine()).unshared
        records.append(
            {
                "dataset": subject.dataset.name,
                "model": unit.model,
                "unit": unit.stem,
                "inputs": unit.inputs,
                "configurations": len(subject.configurations),
                "seconds": facts["seconds"],
                "model_seconds": facts["model_seconds"],
                "rows_forward": facts["rows_forward"],
                "rows_backward": facts["rows_backward"],
                "rows_forward_unshared": None if unshared is None else unshared.forward,
                "rows_backward_unshared": None if unshared is None else unshared.backward,
                "device": facts["device"],
            }
        )
    return pl.DataFrame(records, schema=dict(COSTS_SCHEMA), strict=False)


def _with_schema(table: pl.DataFrame, schema: Any) -> pl.DataFrame:
    return table if table.width else pl.DataFrame(schema=dict(schema))
