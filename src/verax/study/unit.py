"""One unit of work: all configurations of one model on some inputs, explained and measured, as a table."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch

import verax
from verax.analysis.tables import SCORES_SCHEMA
from verax.engine import Evaluation, Metric
from verax.metrics import DirectedPredictionChange, Infidelity, PredictionChange
from verax.study.cache import Cache
from verax.study.explanations import Explanations, Machine, Tell, explain
from verax.study.spec import MetricsSpec
from verax.study.subjects import Subject


@dataclass(frozen=True)
class UnitResult:
    """The table of a unit and what it cost."""

    table: pl.DataFrame
    costs: dict[str, Any]


def metrics_of(metrics: MetricsSpec) -> dict[str, Metric]:
    """The metrics of a study, by their column."""
    found: dict[str, Metric] = {
        "pc": PredictionChange(steps=metrics.steps),
        "dpc_magnitude": DirectedPredictionChange("magnitude", metrics.steps),
        "dpc_signed": DirectedPredictionChange("signed", metrics.steps),
        "dpc_literal": DirectedPredictionChange("literal", metrics.steps),
    }
    if metrics.infidelity:
        local = Infidelity(metrics.sigma, metrics.subset, metrics.samples, seed=metrics.seed)
        found["infidelity"] = local
        found["infidelity_baseline"] = Infidelity(
            metrics.sigma, metrics.subset, metrics.samples, seed=metrics.seed, perturbation="baseline"
        )
    return found


def compute(
    subject: Subject,
    rows: slice,
    metrics: MetricsSpec,
    machine: Machine,
    cache: Cache,
    tell: Tell = lambda family: None,
) -> UnitResult:
    """Explain some inputs by every configuration of the subject and measure every metric of the study."""
    began = time.perf_counter()
    scorer = subject.scorer(machine.compile)
    at_first = scorer.model_seconds
    explanations = explain(subject, subject.configurations, rows, scorer, machine, cache, tell)
    tell("metrics")
    inputs = subject.inputs[rows].to(machine.device)
    before, spared = scorer.model_seconds, scorer.rows_spared
    settings = {"batch_size": machine.batch_size, "device": machine.device}
    evaluation = verax.evaluate(scorer, inputs, explanations.values, metrics_of(metrics), **settings)  # type: ignore[arg-type]
    table = _table(subject, rows, explanations, evaluation)
    costs = {
        "seconds": time.perf_counter() - began,
        "model_seconds": scorer.model_seconds - at_first if machine.device == "cpu" else None,
        "metric_model_seconds": scorer.model_seconds - before if machine.device == "cpu" else None,
        "attribution_seconds": explanations.total.seconds,
        "guided_seconds": evaluation["pc"].seconds,
        "infidelity_seconds": evaluation.seconds - evaluation["pc"].seconds if metrics.infidelity else 0.0,
        "rows_forward": explanations.total.rows.forward + evaluation.rows,
        "rows_backward": explanations.total.rows.backward,
        "rows_spared": scorer.rows_spared - spared,
        "attribution_rows": explanations.total.rows.forward,
        "guided_rows": evaluation["pc"].rows,
        "infidelity_rows": evaluation.rows - evaluation["pc"].rows,
        "device": machine.name,
    }
    return UnitResult(table, costs)


def _table(subject: Subject, rows: slice, explanations: Explanations, evaluation: Evaluation) -> pl.DataFrame:
    """One row per configuration and input, configurations first."""
    names = _names(subject, rows, evaluation)
    measured = _scores(explanations, evaluation) | _shares(subject, rows.stop - rows.start, explanations, evaluation)
    whole = names.with_columns(pl.Series(name, values, SCORES_SCHEMA[name]) for name, values in measured.items())
    return whole.select(pl.col(name).cast(kind) for name, kind in SCORES_SCHEMA.items())


def _names(subject: Subject, rows: slice, evaluation: Evaluation) -> pl.DataFrame:
    """What each row of the table is about."""
    numbers = subject.rows[rows].tolist()
    inputs = pl.DataFrame(
        {
            "dataset": subject.dataset.name,
            "model": subject.model.name,
            "modality": subject.modality,
            "input": numbers,
            "input_id": [subject.dataset.ids[row] for row in numbers],
            "target": evaluation["pc"].target.tolist(),
        }
    )
    configurations = pl.DataFrame(
        {
            "method": [type(one).__name__ for one in subject.configurations],
            "configuration": [one.canonical for one in subject.configurations],
            "local": [one.local for one in subject.configurations],
        }
    )
    return configurations.join(inputs, how="cross", maintain_order="left_right")


def _scores(explanations: Explanations, evaluation: Evaluation) -> dict[str, Any]:
    """Metrics, with nulls for those that were left out, and the length of each attribution."""
    norms = [
        torch.linalg.vector_norm(one.flatten(1), dim=1, dtype=torch.float64) for one in explanations.values.values()
    ]
    columns: dict[str, Any] = {"attribution_norm": torch.stack(norms).flatten().cpu().numpy()}
    for name in ("pc", "dpc_magnitude", "dpc_signed", "dpc_literal"):
        columns[name] = evaluation[name].scores.flatten().cpu().numpy()
    for name in ("infidelity", "infidelity_baseline"):
        found = evaluation.get(name)
        nulls = [None] * len(columns["pc"])
        columns[name] = nulls if found is None else found.scores.flatten().cpu().numpy()
        columns[f"{name}_se"] = nulls if found is None else found.errors.flatten().cpu().numpy()
    return columns


def _shares(subject: Subject, n: int, explanations: Explanations, evaluation: Evaluation) -> dict[str, Any]:
    """Even shares of what families and metrics cost, so that sums over the table are totals."""
    each = [explanations.spent[one.canonical] for one in subject.configurations]
    columns: dict[str, Any] = {}
    for place, name in enumerate(("attribution_rows", "attribution_rows_backward", "attribution_seconds")):
        columns[name] = np.repeat([one[place] / n for one in each], n)
    guided, measured = evaluation["pc"], "infidelity" in evaluation
    totals = {
        "guided_rows": guided.rows,
        "guided_seconds": guided.seconds,
        "infidelity_rows": evaluation.rows - guided.rows if measured else 0,
        "infidelity_seconds": evaluation.seconds - guided.seconds if measured else 0.0,
    }
    count = len(each) * n
    return columns | {name: np.full(count, value / count) for name, value in totals.items()}
