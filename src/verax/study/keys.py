"""Keys: what makes a result the same result. What matters is hashed; batch size, engine and order do not matter."""

from collections.abc import Mapping, Sequence
from typing import Any

from verax.attribution import Attribution, Family
from verax.core.hashing import digest, tensor_hash
from verax.metrics.base import Metric
from verax.study.explained_models import ExplainedModel
from verax.study.metrics import StudyMetrics, written

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
