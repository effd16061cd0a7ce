"""How a study grows: what was added to its spec later is computed beside what is stored, and read as one table.

A study begins with one part for each model: all configurations and all metrics. Each time its spec gets further
metrics, methods or higher limits of metrics, the scores that no part has yet become further parts, with units of their
own. So no score is computed twice, and ``verax verify`` can compute every unit again as it was computed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import polars as pl

from verax.attribution import Attribution
from verax.study.explained_models import ExplainedModel
from verax.study.metrics import StudyMetrics, written
from verax.study.tables import COST_COLUMNS
from verax.study.units import Part, chunk_size

_KEYS = ("model", "configuration", "input")


@dataclass(frozen=True)
class Stage:
    """What a spec asked of a model, the current one or one of those before it."""

    configurations: tuple[Attribution, ...]
    metrics: StudyMetrics


def parts_of(model: ExplainedModel, stages: Sequence[Stage]) -> list[Part]:
    """What is computed together for a model: all of the first stage, and of each later one what it adds."""
    scored: dict[tuple[Attribution, str], float] = {}  # inputs that have a score
    explained: set[Attribution] = set()
    parts = []
    for stage in stages:
        groups: dict[tuple[int, tuple[str, ...], bool], list[Attribution]] = {}
        identities = {column: _identity(column, stage.metrics) for column in stage.metrics}
        for method in stage.configurations:
            lacking: dict[int, list[str]] = {}
            for column, identity in identities.items():
                most, begin = stage.metrics.limits.get(column, inf), scored.get((method, identity), 0)
                if begin < most:
                    lacking.setdefault(int(begin), []).append(column)
                    scored[method, identity] = most
            for begin, columns in lacking.items():
                groups.setdefault((begin, tuple(columns), method in explained), []).append(method)
        explained.update(stage.configurations)
        parts += [
            Part(model.explaining(methods), stage.metrics.only(columns), begin, again)
            for (begin, columns, again), methods in groups.items()
        ]
    return parts


def is_needed(part: Part, stage: Stage) -> bool:
    """Whether a stage has some of a part's scores."""
    columns = {_identity(column, stage.metrics) for column in stage.metrics}
    return not columns.isdisjoint(_identity(column, part.metrics) for column in part.metrics)


def one_table(table: pl.DataFrame, models: Mapping[str, ExplainedModel], metrics: StudyMetrics) -> pl.DataFrame:
    """The scores of all parts, with a row for each configuration and input, as in a study that was begun as it is now.

    Args:
        table: The tables of all parts, one below the other.
        models: The models of the study.
        metrics: What it measures.
    """
    once = [name for name in table.columns if name not in (*_KEYS, *COST_COLUMNS[3:])]
    spent = [name for name in COST_COLUMNS[3:] if name in table.columns]
    whole = table.group_by(_KEYS, maintain_order=True).agg(
        *(pl.col(name).drop_nulls().first() for name in once),
        *(pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in spent),
    )
    places = _places(models).cast({name: table.schema[name] for name in _KEYS})
    ordered = whole.join(places, on=list(_KEYS), how="inner").sort("_model", "_chunk", "_method", "_place")
    return ordered.with_columns(
        pl.when(pl.col("_place") < limit).then(pl.col(name)).alias(name)
        for column, limit in metrics.limits.items()
        for name in (column, f"{column}_se")
        if name in ordered.columns
    ).select(table.columns)


def _places(models: Mapping[str, ExplainedModel]) -> pl.DataFrame:
    """Where each configuration and input of each model stands."""
    frames = []
    for number, model in enumerate(models.values()):
        inputs = pl.DataFrame({"input": model.rows.tolist()}).with_row_index("_place")
        methods = pl.DataFrame({"configuration": [method.canonical for method in model.configurations]})
        frames.append(
            methods.with_row_index("_method")
            .join(inputs, how="cross")
            .with_columns(
                pl.lit(model.name).alias("model"),
                pl.lit(number).alias("_model"),
                (pl.col("_place") // chunk_size(model)).alias("_chunk"),
            )
        )
    return pl.concat(frames)


def _identity(column: str, metrics: StudyMetrics) -> str:
    return json.dumps(written(column, metrics[column]), sort_keys=True)
