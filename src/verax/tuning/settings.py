"""What ``verax.tune`` is asked: its arguments, checked before any work, and what makes two searches the same one."""

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from verax.attribution import Place
from verax.core import noise
from verax.core.arguments import checked_count, checked_level, checked_positive, checked_seed
from verax.core.arrays import as_tensor
from verax.core.hashing import digest, tensor_hash
from verax.core.registry import unknown
from verax.core.shapes import Float
from verax.metrics.base import METRICS, Metric, SampledMetric, all_draws
from verax.metrics.choose import chosen, metric_of
from verax.problem.background import checked_background
from verax.problem.checked_inputs import CheckedInputs, checked_inputs
from verax.problem.features import Groups, feature_map
from verax.problem.inputs import Inputs
from verax.problem.targets import checked_target
from verax.scoring.class_scores import Output
from verax.scoring.frames import column_order
from verax.scoring.scorer import Scorer
from verax.scoring.targets import Target
from verax.tuning.measure import Subject
from verax.tuning.race import Rule
from verax.tuning.space import Space

COST = "cost"  # the objective that is no metric


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search."""

    trials: int  # at most
    seconds: float  # after which no further round starts; infinity for no limit
    seed: int  # of the order of the inputs and of the proposals
    metrics: dict[str, Metric]  # by the names of the table's columns
    rule: Rule
    std: bool  # whether noise is that of each column of the background

    @classmethod
    def checked(
        cls, trials: Any, seconds: Any, seed: Any, tolerance: Any, level: Any, metric: Any, sigma: Any, asked: Inputs
    ) -> "SearchSettings":
        """Read the settings, or say what is wrong with them; the inputs have as many features as a metric may use."""
        features = feature_map(asked.features, as_tensor("inputs", asked.values))
        metrics, cost = _objectives(metric, {"sigma": sigma}, int(features.counts(slice(None)).min()))
        if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < 1:
            raise ValueError(f"tolerance: expected a share from 0 to 1, such as 0.02, found {tolerance!r}.")
        checked_level(level)
        signs = tuple(1 if metric.higher_is_better else -1 for metric in metrics.values())
        limit = math.inf if seconds is None else checked_positive("seconds", seconds)
        rule = Rule(signs, cost, float(tolerance), level)
        own = [draws.sigma for one in metrics.values() if isinstance(one, SampledMetric) for draws in all_draws(one)]
        std = any(isinstance(one, str) and one == "std" for one in (sigma, *own))
        return cls(checked_count("trials", trials), limit, checked_seed(seed), metrics, rule, std)


def _objectives(metric: Any, said: Mapping[str, Any], fewest: int) -> tuple[dict[str, Metric], bool]:
    """The metrics by the names of their columns, and whether the cost counts as well."""
    known = (*METRICS, COST)
    listed = list(metric) if isinstance(metric, Iterable) and not isinstance(metric, str) else [metric]
    for entry in listed:
        if isinstance(entry, str) and entry not in known:
            raise ValueError(f"metric: {unknown(entry, (*known, 'a metric object'))}")
    metrics = [metric_of(entry, said, fewest, "metric") for entry in listed or [metric] if entry != COST]
    if not metrics:
        raise ValueError("metric: cost alone is no aim; name what it is weighed against, such as ('dpc', 'cost').")
    return chosen(metrics, {}, fewest), COST in listed


def subject_of(
    scorer: Scorer,
    asked: Inputs,
    background: Any,
    labels: Any,
    target: Any,
    seed: int,
    output: Output,
    batch_size: Any,
    device: Any,
) -> tuple[Subject, Float[Tensor, " n"], Place]:
    """Check the data, put the inputs into a random order, and ask the model for their classes."""
    order_of = column_order(scorer.feature_names, asked.values)
    asked, background = asked.ordered(order_of), order_of("background", background)
    checked = checked_inputs(asked, background, scorer.takes_missing)
    x = checked.values
    rows, classes = checked_background(background, labels, x, missing=checked.missing or scorer.takes_missing)
    wanted = checked_target(target, len(x))
    key = noise.input_keys(torch.zeros(1, 1), seed, "tune")
    order = noise.words(key, 0, len(x))[0].argsort(stable=True)
    with scorer.session(x, checked.kind, output, batch_size, device, companions=checked.companions) as session:
        place = Place(session.device, session.batch_size)
        explained, clean = session.begin(x, wanted)
    removed = checked.baselines if checked.baselines.stride(0) else checked.baselines[0]  # one for all stays so
    ordered = replace(asked, baselines=removed)[order.numpy()]
    explained = explained.clone()[order.to(explained.device)].to(x.device)
    subject = Subject(scorer, ordered, checked.at(order), explained, rows, classes, output, batch_size, device)
    return subject, clean.double().cpu().clone()[order], place


def facts_of(settings: SearchSettings, subject: Subject, space: Space, target: Any) -> dict[str, str]:
    """What a search depends on, but for the model, by the name of the argument."""
    baselines = subject.checked.baselines
    background = [rows for rows in (subject.background, subject.labels) if rows is not None]
    metrics = [(name, repr(metric), metric.version) for name, metric in settings.metrics.items()]
    return {
        "inputs": _inputs_fact(subject.checked),
        "background": tensor_hash(*background),
        "target": _target_fact(checked_target(target, len(subject.inputs))),
        "baselines": tensor_hash(baselines if baselines.stride(0) else baselines[:1]),
        "methods": digest(configurations=[(one.canonical, one.family.version) for one in space.configurations]),
        "metric": repr((metrics, settings.rule.cost, *_replaced(subject))),
        "seed": str(settings.seed),
        "tolerance": str(settings.rule.tolerance),
        "level": str(settings.rule.level),
        "output": subject.output,
    }


def _inputs_fact(inputs: CheckedInputs) -> str:
    beside = {} if inputs.companions is None else inputs.companions.alongside
    groups = [inputs.features.numbers()] if isinstance(inputs.features, Groups) else []
    return tensor_hash(inputs.values, *groups, *(beside[name] for name in sorted(beside)))


def _replaced(subject: Subject) -> tuple[str, ...]:
    """What removed features become, where it is not their baselines: said, and what it has of rows of its own."""
    if subject.replacement is None:
        return ()
    own = getattr(subject.replacement, "background", None)
    return (repr(subject.replacement), *([] if own is None else [tensor_hash(own)]))


def _target_fact(target: Target) -> str:
    if target is None:
        return "predicted"
    return tensor_hash(torch.as_tensor(target)) if isinstance(target, int | Tensor) else digest(labels=target)


def checked_store(store: Any) -> Path | None:
    """Refuse a path that cannot hold the trials."""
    if store is None:
        return None
    if not isinstance(store, str | os.PathLike):
        raise TypeError(f"store: expected a path of a .parquet file, found {type(store).__name__}.")
    path = Path(store)
    if path.suffix != ".parquet" or path.is_dir():
        raise ValueError(f"store: expected a path of a .parquet file, found {str(path)!r}.")
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise ValueError(f"store: {path} cannot be written, {parent} is no folder that can be written to.")
    return path
