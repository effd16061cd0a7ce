"""Examples for pictures: a few inputs of a model, explained by the best and the worst configuration of each method."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import save as save_arrays

import verax
from verax.attribution import Attribution
from verax.data.base import as_numbers
from verax.data.columns import MISSING
from verax.metrics import DirectedPredictionChange, PredictionChange
from verax.metrics.base import Metric
from verax.study.compute import explain
from verax.study.explained_models import ExplainedModel, Machine, known_warnings_silenced
from verax.study.spec import StudySpec
from verax.study.store import Cache, words
from verax.study.tables import LEADING_ORDER, Example
from verax.study.units import other_key

Chosen = Sequence[tuple[Attribution, str]]  # with its role, "best" or "worst"
_CURVES = ("pc_morf", "pc_lerf", "dpc_morf", "dpc_lerf")
_ARRAYS = ("inputs", "targets", "probabilities", "attributions", *_CURVES, "dpc", "pc")
_NAMES = ("class_names", "feature_names", "input_ids", "configurations", "methods", "roles")


def examples_stem(model: ExplainedModel, spec: StudySpec, chosen: Chosen) -> str:
    methods, settings = [method for method, _ in chosen], {"roles": [role for _, role in chosen]}
    key = other_key("examples", model, _rows(model, spec), methods, _metrics(spec), settings)
    return f"{model.name}.{key[:16]}"


def make_examples(model: ExplainedModel, spec: StudySpec, chosen: Chosen, machine: Machine, cache: Cache) -> bytes:
    """Explain the inputs and follow their curves; the content of a safetensors file."""
    rows, metrics = _rows(model, spec), _metrics(spec)
    configurations = [method for method, _ in chosen]
    explanations = explain(model, configurations, rows, machine, cache)
    with known_warnings_silenced():
        problem = model.problem(rows, machine, background=False)
        evaluation = verax.evaluate(problem, explanations.values, metrics)
    order = [method.canonical for method in configurations]
    curves = {}
    for curve in _CURVES:
        name, way = curve.split("_")
        curves[curve] = _stacked(getattr(evaluation[name], f"directed_{way}"), order)
    columns, numbers = model.dataset.columns, model.rows[rows]  # inputs are shown in their own units
    arrays = {
        "inputs": as_numbers(model.dataset.inputs[numbers]).numpy()
        if columns is None
        else columns.values[numbers].astype(np.float32),
        "targets": evaluation["pc"].target.cpu().numpy(),
        "probabilities": evaluation["pc"].morf[order[0]][:, 0].cpu().numpy(),
        "attributions": _by_feature(model, _stacked(explanations.values, order)),
        **curves,
        "dpc": _stacked(evaluation["dpc"].value, order),
        "pc": _stacked(evaluation["pc"].value, order),
    }
    facts = {
        "unit": examples_stem(model, spec, chosen),
        "model": model.name,
        "dataset": model.dataset.name,
        "modality": model.modality,
        "class_names": model.dataset.class_names,
        "feature_names": model.dataset.feature_names,
        "input_ids": [model.dataset.ids[row] for row in model.rows[rows]],
        "configurations": order,
        "methods": [type(method).__name__ for method in configurations],
        "roles": [role for _, role in chosen],
        "texts": _texts(model, rows),
    }
    plain = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    return save_arrays(plain, words(facts))


def read_example(path: Any) -> Example:
    with safe_open(path, framework="np") as file:
        facts = json.loads(file.metadata()["verax"])
        arrays = {name: file.get_tensor(name) for name in _ARRAYS}
    names: dict[str, Any] = {name: tuple(facts[name]) for name in _NAMES}
    words = tuple(tuple(row) for row in facts.get("texts", ()))
    return Example(
        model=facts["model"], dataset=facts["dataset"], modality=facts["modality"], texts=words, **names, **arrays
    )


def _by_feature(model: ExplainedModel, values: Any) -> Any:
    """Attributions of elements, summed where several are one feature."""
    features = model.material.features
    if features is None:
        return values
    return np.stack(
        [values[..., (features == number).numpy()].sum(-1) for number in range(int(features.max()) + 1)], -1
    )


def _texts(model: ExplainedModel, rows: slice) -> list[list[str]]:
    """What a table with categories or gaps has in each cell; nothing for one of numbers alone."""
    columns = model.dataset.columns
    if columns is None:
        return []

    def text(value: float, words: tuple[str, ...] | None) -> str:
        return MISSING if np.isnan(value) else f"{value:.4g}" if words is None else words[int(value)]

    return [
        [text(value, words) for value, words in zip(columns.values[row], columns.categories, strict=True)]
        for row in model.rows[rows]
    ]


def _metrics(spec: StudySpec) -> dict[str, Metric]:
    steps = spec.metrics.steps
    return {
        "pc": PredictionChange(steps=steps),
        "dpc": DirectedPredictionChange(order=LEADING_ORDER, steps=steps),
    }


def _stacked(values: dict[str, torch.Tensor], order: Sequence[str]) -> Any:
    return torch.stack([values[name] for name in order]).cpu().numpy()


def _rows(model: ExplainedModel, spec: StudySpec) -> slice:
    return slice(0, min(spec.examples, len(model.inputs)))
