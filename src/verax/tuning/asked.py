"""What ``verax.tune`` is asked: its arguments, checked before any work, and what makes two searches the same one."""

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from verax import adapters
from verax.arguments import (
    checked_background,
    checked_count,
    checked_inputs,
    checked_positive,
    checked_seed,
    checked_target,
    resolve_target,
)
from verax.arrays import kind_of
from verax.attribution import Place
from verax.engine import Metric
from verax.perturbation import noise
from verax.perturbation.baselines import baseline_tensor
from verax.scoring import Scorer, automatic_batch_size, checked_batch_size, checked_device
from verax.shapes import Float
from verax.study.keys import digest
from verax.study.subjects import tensor_hash
from verax.tuning.measure import Subject
from verax.tuning.race import Rule
from verax.tuning.space import Space

DIRECTIONS = {"dpc": 1, "pc": 1, "infidelity": -1}


@dataclass(frozen=True)
class Plan:
    """Settings of a search.

    Attributes:
        trials: How many at most.
        seconds: After how long no further round starts; infinity for no limit.
        seed: Of the order of the inputs and of the proposals.
        metrics: What is measured, by name.
        rule: When a candidate is dropped.
    """

    trials: int
    seconds: float
    seed: int
    metrics: dict[str, str | Metric]
    rule: Rule

    @classmethod
    def checked(cls, trials: Any, seconds: Any, seed: Any, tolerance: Any, level: Any, metric: Any) -> "Plan":
        """Read the settings, or say what is wrong with them."""
        several = [metric] if isinstance(metric, str | Metric) else metric
        if not isinstance(several, Iterable) or not (named := list(several)):
            raise ValueError(f"metric: expected one of {_choices()}, or several, found {metric!r}.")
        metrics: dict[str, str | Metric] = {}
        for one in named:
            if not isinstance(one, Metric) and one not in (*DIRECTIONS, "cost"):
                raise ValueError(f"metric: expected one of {_choices()} or a metric object, found {one!r}.")
            if one != "cost":
                metrics[one if isinstance(one, str) else one.name] = one
        if not metrics:
            raise ValueError("metric: cost alone is no aim; name what it is weighed against, such as ('dpc', 'cost').")
        if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < 1:
            raise ValueError(f"tolerance: expected a share from 0 to 1, such as 0.02, found {tolerance!r}.")
        if isinstance(level, bool) or not isinstance(level, float) or not 0 < level < 1:
            raise ValueError(f"level: expected a number between 0 and 1, found {level!r}.")
        signs = tuple(
            DIRECTIONS[one] if isinstance(one, str) else (1 if one.higher_is_better else -1) for one in metrics.values()
        )
        return cls(
            checked_count("trials", trials),
            math.inf if seconds is None else checked_positive("seconds", seconds),
            checked_seed(seed),
            metrics,
            Rule(signs, "cost" in named, float(tolerance), level),
        )


def _choices() -> str:
    return ", ".join(map(repr, (*DIRECTIONS, "cost")))


def subject_of(
    model: Any,
    inputs: Any,
    background: Any,
    labels: Any,
    target: Any,
    baselines: Any,
    seed: int,
    batch_size: Any,
    device: Any,
) -> tuple[Subject, Float[Tensor, " n"], Place]:
    """Check the data, put the inputs into a random order, and ask the model for their classes."""
    x = checked_inputs(inputs)
    kind = kind_of(inputs)
    rows, classes = checked_background(background, labels, x)
    wanted = checked_target(target, len(x))
    removed = baseline_tensor(baselines, x)
    checked_batch_size(batch_size)
    scorer = model if isinstance(model, Scorer) else Scorer(model)
    key = noise.input_keys(torch.zeros(1, 1), seed, "tune")
    order = noise.words(key, 0, len(x))[0].argsort(stable=True).to(x.device)
    with scorer.session(x, kind, "probability", batch_size, device) as session:
        scores = session.class_scores(x)
        chosen = resolve_target(wanted, scores)
        clean = scores.gather(1, chosen[:, None])[:, 0].double().cpu()
    own = x[order]
    here = order.to(chosen.device)
    subject = Subject(
        scorer,
        own,
        own.numpy() if kind == "numpy" else own,
        chosen.clone()[here].to(x.device),
        rows,
        classes,
        removed[order] if removed.stride(0) else removed,  # one for all inputs stays a view
        batch_size,
        device,
    )
    where = checked_device(device) or scorer.device or adapters.home(scorer.adapter, fallback=x.device)
    place = Place(where, batch_size or scorer.batch_size or automatic_batch_size(x[0].numel(), where))
    return subject, clean.clone()[order.cpu()], place


def facts_of(plan: Plan, subject: Subject, space: Space, target: Any) -> dict[str, str]:
    """What a search depends on, but for the model, by the name of the argument."""
    background = [one for one in (subject.background, subject.labels) if one is not None]
    return {
        "inputs": tensor_hash(subject.inputs),
        "background": tensor_hash(*background),
        "target": "predicted" if target is None else tensor_hash(torch.as_tensor(target)),
        "baselines": tensor_hash(subject.baselines if subject.baselines.stride(0) else subject.baselines[:1]),
        "methods": digest(configurations=[(one.canonical, one.family.version) for one in space.configurations]),
        "metric": repr((plan.metrics, plan.rule.cost)),
        "seed": str(plan.seed),
        "tolerance": str(plan.rule.tolerance),
        "level": str(plan.rule.level),
    }


def checked_store(store: Any) -> Path | None:
    """Refuse a path that cannot hold the trials."""
    if store is None:
        return None
    if not isinstance(store, str | os.PathLike):
        raise TypeError(f"store: expected a path of a .parquet file, found {type(store).__name__}.")
    path = Path(store)
    if path.suffix != ".parquet" or path.is_dir():
        raise ValueError(f"store: expected a path of a .parquet file, found {str(path)!r}.")
    there = next(one for one in path.absolute().parents if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise ValueError(f"store: {path} cannot be written, {there} is no folder that can be written to.")
    return path
