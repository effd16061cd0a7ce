"""Units of work: what is computed together, also after the spec has grown, and the keys that name results."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import polars as pl

from verax.attribution import Attribution, Family
from verax.core.files import digest, tensor_hash
from verax.metrics.base import Metric
from verax.study.explained_models import ExplainedModel
from verax.study.metrics import StudyMetrics, written
from verax.study.tables import COST_COLUMNS

TABLE_FORMAT = 2


def attributions_key(model: ExplainedModel, rows: slice, family: Family, members: Sequence[Attribution]) -> str:
    """Of a family's attributions of some inputs."""
    return digest(
        weights=model.weights_hash,
        precision=model.spec.precision,
        background=model.background_hash,
        inputs=tensor_hash(model.inputs[rows]),
        **model.facts_hash,
        family=type(family).__name__,
        version=family.version,
        members=[method.canonical for method in members],
    )


def scores_key(model: ExplainedModel, rows: slice, metrics: StudyMetrics) -> str:
    """Of the table of some inputs; a limit matters where it ends before them or among them."""
    return other_key("scores", model, rows, model.configurations, metrics.on(rows), metrics.cut(rows))


def other_key(
    kind: str,
    model: ExplainedModel,
    rows: slice,
    configurations: Sequence[Attribution],
    metrics: Mapping[str, Metric],
    settings: Mapping[str, Any],
) -> str:
    """Of a result of any kind, from some inputs, configurations, metrics and further settings."""
    return digest(
        format=TABLE_FORMAT,
        kind=kind,
        metrics=[(written(column, metric), metric.version) for column, metric in metrics.items()],
        settings=dict(settings),
        dataset=model.dataset.name,
        model=model.name,
        weights=model.weights_hash,
        precision=model.spec.precision,
        background=model.background_hash,
        inputs=tensor_hash(model.inputs[rows]),
        **model.facts_hash,
        ids=[model.dataset.ids[row] for row in model.rows[rows]],
        configurations=[
            (method.canonical, model.used(method).canonical, method.family.version) for method in configurations
        ],
    )


MOST_INPUTS = 128
_UNIT_BYTES = 2 << 30  # attributions of all configurations are held at once, because they share model rows


@dataclass(frozen=True, eq=False)
class Part:
    """What is computed together for a model: all of a study that never grew, or what was added to it at a time."""

    explained: ExplainedModel  # the model, with the configurations that are computed
    metrics: StudyMetrics  # what is measured
    start: int = 0  # the first input
    again: bool = False  # whether another part has explained the inputs by these configurations before

    @property
    def stop(self) -> int:
        count = len(self.explained.inputs)
        return min(count, max(self.metrics.limits.get(column, count) for column in self.metrics))


@dataclass(frozen=True)
class Unit:
    model: str  # the model's name
    rows: slice  # which inputs of the model
    key: str  # hash of all that its result depends on
    part: Part = field(compare=False, repr=False)  # what is computed

    @property
    def stem(self) -> str:
        return f"{self.model}.{self.rows.start:06d}-{self.rows.stop:06d}.{self.key[:16]}"

    @property
    def inputs(self) -> int:
        return int(self.rows.stop - self.rows.start)


def units_of(part: Part) -> list[Unit]:
    model, size = part.explained, chunk_size(part.explained)
    pieces = [slice(start, min(start + size, len(model.inputs))) for start in range(part.start, part.stop, size)]
    return [Unit(model.name, rows, scores_key(model, rows, part.metrics), part) for rows in pieces]


def chunk_size(model: ExplainedModel) -> int:
    """Inputs per unit: as the spec says, or as many as keep all attributions of a unit within bounds."""
    if model.data.chunk is not None:
        return model.data.chunk
    each = 4 * model.inputs[0].numel() * len(model.configurations)
    return max(1, min(MOST_INPUTS, _UNIT_BYTES // each))


_KEYS = ("model", "configuration", "input")


@dataclass(frozen=True)
class Stage:
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
    columns = {_identity(column, stage.metrics) for column in stage.metrics}
    return not columns.isdisjoint(_identity(column, part.metrics) for column in part.metrics)


def one_table(table: pl.DataFrame, models: Mapping[str, ExplainedModel], metrics: StudyMetrics) -> pl.DataFrame:
    """The scores of all parts, a row for each configuration and input, as in a study that was begun as it is now."""
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
