"""Examples for pictures: a few inputs of a model, explained by the best and the worst configuration of each method."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import save as save_arrays

import verax
from verax.analysis.tables import Example
from verax.attribution import Attribution
from verax.datasets.base import as_numbers
from verax.engine import Metric
from verax.metrics import DirectedPredictionChange, PredictionChange
from verax.study.cache import Cache
from verax.study.explanations import Machine, explain
from verax.study.keys import other_key
from verax.study.spec import StudySpec
from verax.study.subjects import Subject

Chosen = Sequence[tuple[Attribution, str]]  # with its role, "best" or "worst"
_ARRAYS = (
    "inputs",
    "targets",
    "probabilities",
    "attributions",
    "pc_morf",
    "pc_lerf",
    "dpc_morf",
    "dpc_lerf",
    "dpc",
    "pc",
)
_NAMES = ("class_names", "feature_names", "input_ids", "configurations", "methods", "roles")


def choose(subject: Subject, best: dict[str, str], worst: dict[str, str]) -> list[tuple[Attribution, str]]:
    """Configurations by their names, with their role; a method with one configuration has no worst."""
    by_name = {one.canonical: one for one in subject.configurations}
    found = [(by_name[best[method]], "best") for method in best]
    return found + [(by_name[worst[method]], "worst") for method in worst if worst[method] != best.get(method)]


def examples_stem(subject: Subject, spec: StudySpec, chosen: Chosen) -> str:
    """The name of their file in the store."""
    roles = [role for _, role in chosen]
    settings = {"steps": spec.metrics.steps, "roles": roles}
    key = other_key("examples", subject, _rows(subject, spec), [one for one, _ in chosen], settings)
    return f"{subject.model.name}.{key[:16]}"


def make_examples(subject: Subject, spec: StudySpec, chosen: Chosen, machine: Machine, cache: Cache) -> bytes:
    """Explain the inputs and follow their curves; the content of a safetensors file."""
    rows = _rows(subject, spec)
    scorer = subject.scorer(machine.compile)
    configurations = [one for one, _ in chosen]
    explanations = explain(subject, configurations, rows, scorer, machine, cache)
    inputs = subject.inputs[rows].to(machine.device)
    steps = spec.metrics.steps
    metrics: dict[str, Metric] = {"pc": PredictionChange(steps=steps), "dpc": DirectedPredictionChange(steps=steps)}
    found = verax.evaluate(
        scorer, inputs, explanations.values, metrics, batch_size=machine.batch_size, device=machine.device
    )
    order = [one.canonical for one in configurations]
    curves = {
        f"{name}_{way}": _stacked(getattr(found[name], f"directed_{way}"), order)
        for name in metrics
        for way in ("morf", "lerf")
    }
    arrays = {
        "inputs": as_numbers(subject.dataset.inputs[subject.rows[rows]]).numpy(),
        "targets": found["pc"].target.cpu().numpy(),
        "probabilities": found["pc"].morf[order[0]][:, 0].cpu().numpy(),
        "attributions": _stacked(explanations.values, order),
        **curves,
        "dpc": _stacked(found["dpc"].value, order),
        "pc": _stacked(found["pc"].value, order),
    }
    words = {
        "model": subject.model.name,
        "dataset": subject.dataset.name,
        "modality": subject.modality,
        "class_names": subject.dataset.class_names,
        "feature_names": subject.dataset.feature_names,
        "input_ids": [subject.dataset.ids[row] for row in subject.rows[rows]],
        "configurations": order,
        "methods": [type(one).__name__ for one in configurations],
        "roles": [role for _, role in chosen],
    }
    plain = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    return save_arrays(plain, {"verax": json.dumps(words)})


def read_example(path: Any) -> Example:
    """Read what ``make_examples`` made."""
    with safe_open(path, framework="np") as file:
        words = json.loads(file.metadata()["verax"])
        arrays = {name: file.get_tensor(name) for name in _ARRAYS}
    names: dict[str, Any] = {name: tuple(words[name]) for name in _NAMES}
    return Example(model=words["model"], dataset=words["dataset"], modality=words["modality"], **names, **arrays)


def _stacked(values: dict[str, torch.Tensor], order: Sequence[str]) -> Any:
    return torch.stack([values[name] for name in order]).cpu().numpy()


def _rows(subject: Subject, spec: StudySpec) -> slice:
    return slice(0, min(spec.examples, len(subject.inputs)))
