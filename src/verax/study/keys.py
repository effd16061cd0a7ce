"""Keys: what makes a result the same result. What matters is hashed; batch size, engine and order do not matter."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from verax.attribution import Attribution, Family
from verax.study.spec import MetricsSpec
from verax.study.subjects import Subject, tensor_hash

TABLE_FORMAT = 1
METRICS_VERSION = 1  # raise it when PC, DPC or Infidelity give other values than before


def digest(**parts: Any) -> str:
    """Hash named values that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, allow_nan=False).encode()).hexdigest()


def attributions_key(subject: Subject, rows: slice, family: Family, members: Sequence[Attribution]) -> str:
    """Of a family's attributions of some inputs."""
    return digest(
        weights=subject.weights_hash,
        precision=subject.model.precision,
        background=subject.background_hash,
        inputs=tensor_hash(subject.inputs[rows]),
        family=type(family).__name__,
        version=family.version,
        members=[one.canonical for one in members],
    )


def scores_key(subject: Subject, rows: slice, metrics: MetricsSpec) -> str:
    """Of the table of some inputs."""
    return digest(
        format=TABLE_FORMAT,
        version=METRICS_VERSION,
        metrics=metrics.model_dump(mode="json"),
        subject=_subject(subject, rows, subject.configurations),
    )


def other_key(
    kind: str, subject: Subject, rows: slice, configurations: Sequence[Attribution], settings: dict[str, Any]
) -> str:
    """Of a result of another kind, from some inputs, configurations and settings."""
    return digest(
        format=TABLE_FORMAT,
        version=METRICS_VERSION,
        kind=kind,
        settings=settings,
        subject=_subject(subject, rows, configurations),
    )


def _subject(subject: Subject, rows: slice, configurations: Sequence[Attribution]) -> dict[str, Any]:
    return {
        "dataset": subject.dataset.name,
        "model": subject.model.name,
        "weights": subject.weights_hash,
        "precision": subject.model.precision,
        "background": subject.background_hash,
        "inputs": tensor_hash(subject.inputs[rows]),
        "ids": [subject.dataset.ids[row] for row in subject.rows[rows]],
        "configurations": [(one.canonical, subject.used(one).canonical, one.family.version) for one in configurations],
    }
