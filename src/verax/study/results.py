"""The results of a study: its files read into the tables that reports work on, with the facts about each model."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from verax.attribution import Attribution, Rows
from verax.core.display import counted
from verax.core.shapes import Int
from verax.data.base import Part
from verax.metrics.choose import why_no_answer
from verax.scoring.adapters import labels_of
from verax.study.examples import examples_stem, read_example
from verax.study.explained_models import ExplainedModel, Machine
from verax.study.metrics import described
from verax.study.models import is_own
from verax.study.plan import forecast, rows_alone
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
    Tables,
    empty,
    scores_schema,
)
from verax.study.trust import read_trust
from verax.study.uncertainty import uncertainty_tables
from verax.study.units import Unit
from verax.study.verify import read_verdict

_ERRORS = 1.64  # of 20 models that know nothing, one is luckier
LEARNT = "rows that it may have learnt from"


def measured_on(model: ExplainedModel) -> str:
    """The rows that a model's figures are from: only a model of the study, or a named split, has rows new to it."""
    if not is_own(model.spec):
        return "test split"
    return "held-out rows" if model.dataset.split.named else LEARNT


def weak_models(models: Iterable[ExplainedModel]) -> list[str]:
    """A sentence for each model that is no better than its base rate or than the mean, as far as that is known."""
    return [line for model in models if (line := _weakness(model))]


def _weakness(model: ExplainedModel) -> str:
    """AUROC decides where it is known: for a rare class, a good model may be right less often than a constant one."""
    names = ("r2",) if model.dataset.task == "regression" else ("auroc", "accuracy")
    parts: tuple[Part, ...] = ("test", "validation")
    known = ((part, name) for part in parts for name in names if name in model.metrics.get(part, {}))
    part, name = next(known, ("test", ""))
    if not name:
        return ""
    value, rows = model.metrics[part][name], LEARNT if measured_on(model) == LEARNT else f"the {part} rows"
    if name == "r2":
        chance, finding = 0.0, f"worse than predicting the mean: R^2 {value:.3f} on {rows}"
    else:
        counts = np.unique(model.dataset.labels[model.dataset.split.rows(part)], return_counts=True)[1]
        chance = 0.5 + _ERRORS * _error(counts) if name == "auroc" else float(counts.max() / counts.sum())
        label = "AUROC" if name == "auroc" else name
        base = f"no better than its base rate: {label} {value:.3f} on {rows}"
        finding = f"{base}, where chance alone reaches {chance:.3f}"
    advice = "What explains it best says nothing about a model that works; train it longer, or on other data."
    return "" if value > chance else f"{model.name} is {finding}. {advice}"


def _error(counts: Int[np.ndarray, " classes"]) -> float:
    """Standard error of the AUROC of a model that knows nothing (Mann and Whitney); of several classes at most."""
    if len(counts) < 2:
        return 0.5
    total = int(counts.sum())
    each = [math.sqrt((total + 1) / (12 * ones * (total - ones))) for ones in counts.tolist()]
    return sum(each) / len(each)


_CLASSES = 6  # that are named before the rest is counted


def scope_of(model: ExplainedModel, scores: pl.DataFrame, label: str) -> dict[str, str]:
    """Names and sentences that a report needs to say of which model, class, baseline and rows its numbers are."""
    if model.modality == "image":
        baseline = "a removed pixel becomes the mean colour of the training images"
    else:
        words = ", a category the most frequent one" if model.material.categories else ""
        rows = counted(len(model.background), "training row")
        baseline = f"a removed number becomes its mean over the training rows{words} ({rows} in the background)"
    scope = {"Explained": _tracked(model, scores, label), "Baseline": baseline, "Rows": _rows(model)}
    if model.dataset.task == "regression":
        return scope
    classes = model.dataset.class_names  # rows that have none of them included
    counts = np.bincount(model.dataset.labels[model.rows], minlength=len(classes)).tolist()
    names = [*classes, *map(str, range(len(classes), len(counts)))]
    labels = ", ".join(f"{name}: {count:,}" for name, count in zip(names, counts, strict=True))
    return scope | {"Classes": f"labels of the explained rows: {labels}"}


def _tracked(model: ExplainedModel, scores: pl.DataFrame, label: str) -> str:
    if model.dataset.task == "regression":
        return f"the predicted value of {label}" if label else "the predicted value"
    inputs = scores.filter(pl.col("model") == model.name).select("input", "target").unique()
    counts = inputs.group_by("target").len().sort("len", "target", descending=[True, False]).rows()
    names = _class_names(model)
    words = [f"{names.get(number, str(number))} ({many:,})" for number, many in counts]
    rest = [f"{len(words) - _CLASSES} other classes"] if len(words) > _CLASSES else []
    column = f"; {label}" if label else ""
    return f"the probability of the predicted class of each input{column}: {', '.join([*words[:_CLASSES], *rest])}"


def _class_names(model: ExplainedModel) -> dict[int, str]:
    labels: list[Any] = list(labels_of(model.scorer(False).adapter) or ())
    names = list(model.dataset.class_names)
    if len(labels) != len(names) or {str(label) for label in labels} == set(names):
        return {number: str(name) for number, name in enumerate(labels or names)}
    return dict(enumerate(names))  # numbers, or other words, in the order of the data's


def _rows(model: ExplainedModel) -> str:
    split, seed = model.dataset.split, model.data.seed
    part = split.rows(model.data.part)
    many = f"all {len(part):,}"
    if len(model.rows) != len(part):
        many = f"{len(model.rows):,} rows drawn at random with seed {seed} from {len(part):,}"
    how = "the rows that were named as held out" if split.named else f"a random split with seed {split.seed}"
    return f"{many} {model.data.part} rows of {how}, {len(model.dataset):,} rows in all"


RUNTIME = "runtime.json"  # a runtime table that the user put into the study's folder


@dataclass(frozen=True)
class Results:
    tables: Tables  # what analyses work on
    examples: tuple[Example, ...]  # for pictures, one per model
    missing: tuple[Unit, ...]  # units that are not there


def read_results(study: Study) -> Results:
    """Read everything that is finished and whole; damaged files count as missing."""
    stems = {unit.stem: unit for unit in study.units}
    files = study.store.contents("scores", study.stems).files
    measured = study.scores()
    metrics = metric_infos(study, measured)
    schema = scores_schema(metrics)
    scores = empty(schema)
    if measured.width:  # all columns in their order, those that no finished unit has as null
        scores = measured.select(
            pl.col(name) if name in measured.columns else pl.lit(None, kind).alias(name)
            for name, kind in schema.items()
        )
    resampled = list(uncertainty_tables(study))
    stored = study.store.contents("uncertainty", resampled).files
    uncertainty = read_tables([stored[stem] for stem in resampled if stem in stored])
    tables = Tables(
        scores=scores,
        uncertainty=uncertainty if uncertainty.width else empty(UNCERTAINTY_SCHEMA),
        models=tuple(_info(study, model, measured) for model in study.models.values()),
        settings=_settings(study),
        costs=_costs(study, files),
        metrics=metrics,
        alone=_alone(study),
        trust=read_trust(study, measured),
        runtimes=tuple(path for path in (study.store.folder / RUNTIME,) if path.exists()),
    )
    missing = tuple(unit for stem, unit in stems.items() if stem not in files)
    return Results(tables, _examples(study, scores), missing)


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
    rows = summarise_methods(means, leading).select("best", "worst").rows()
    known = {method.canonical: method for method in model.configurations}
    worst = [(known[worst], "worst") for best, worst in rows if worst != best]  # a method with one has no worst
    return [(known[best], "best") for best, _ in rows] + worst


def _examples(study: Study, scores: pl.DataFrame) -> tuple[Example, ...]:
    examples = []
    for model in study.models.values():
        if scores.filter(pl.col("model") == model.name).is_empty():
            continue
        stem = examples_stem(model, study.spec, chosen_examples(study, model, scores))
        path = study.store.contents("examples", [stem]).files.get(stem)
        if path is not None:
            examples.append(read_example(path))
    return tuple(examples)


def _info(study: Study, model: ExplainedModel, scores: pl.DataFrame) -> ModelInfo:
    label = model.data.label or (study.live.label if study.live else "")
    moments, codes = model.material.scale, model.material.codes
    mean, std = (tuple(part.flatten().tolist()) for part in (moments.mean, moments.std))
    scale = Scale(mean, std, model.dataset.feature_names, wrapped=is_own(model.spec))
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
        scale=None if model.material.facts else scale,  # categories, which no mean and deviation standardises
        scope=scope_of(model, scores, label) if scores.width else {},
        unanswered=why_no_answer(model.scorer(False).adapter, codes is not None and bool(codes.all())),
    )


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


_COSTS = ("seconds", "model_seconds", "rows_forward", "rows_backward", "device")  # as a unit's file says


def _costs(study: Study, files: dict[str, Path]) -> pl.DataFrame:
    records = []
    unshared: dict[tuple[object, ...], Rows | None] = {}
    for unit in study.units:
        if unit.stem not in files:
            continue
        explained, facts, kind = unit.part.explained, read_facts(files[unit.stem]), study.kind(unit)
        if kind not in unshared:
            unshared[kind] = forecast(explained, unit.rows, unit.part.metrics, Machine()).unshared
        rows = unshared[kind]
        records.append(
            {
                "dataset": explained.dataset.name,
                "model": unit.model,
                "unit": unit.stem,
                "inputs": unit.inputs,
                "configurations": len(explained.configurations),
                "rows_forward_unshared": None if rows is None else rows.forward,
                "rows_backward_unshared": None if rows is None else rows.backward,
                **{name: facts[name] for name in _COSTS},
            }
        )
    return pl.DataFrame(records, schema=dict(COSTS_SCHEMA), strict=False)
