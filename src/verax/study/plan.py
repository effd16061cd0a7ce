"""The plan of a study, in words and as numbers, told before it starts."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from verax.attribution import Attribution, Family, Place, Rows, families
from verax.core.arrays import wait_for
from verax.core.display import counted
from verax.metrics.base import GuidedMetric, Metric, SampledMetric, all_draws
from verax.problem.problem import Problem
from verax.scoring.scorer import automatic_batch_size
from verax.study.compute import compute
from verax.study.explained_models import ExplainedModel, Machine
from verax.study.metrics import StudyMetrics
from verax.study.store import Cache
from verax.study.study import Study
from verax.study.trust import to_ask
from verax.study.units import Part, Unit

_OUTSIDE = 1.5  # time in all over time in the model, where a whole input would take too long to try
_TRIAL_SECONDS = 3.0
_BYTES_PER_SCORE = 40  # a row of the table in compressed Parquet; measured on HELOC


@dataclass(frozen=True)
class ModelPlan:
    name: str  # the model
    configurations: int  # how many
    inputs: int  # how many are left
    rows_at_most: Rows | None  # model rows, before identical ones are left out; None where a family does not say
    rows_without_sharing: Rows | None  # the same work with every configuration and metric on its own
    seconds: float | None  # expected on one core; None where the rows are not known

    def rows_in_words(self) -> str:
        shared, unshared = self.rows_at_most, self.rows_without_sharing
        if shared is None or unshared is None:
            return "model rows not known: a family does not say how many it needs"
        return (
            f"at most {shared.forward:,} rows forward, {shared.backward:,} of them backward "
            f"(without sharing {unshared.forward:,} and {unshared.backward:,})"
        )


@dataclass(frozen=True)
class Plan:
    """What a study has left to compute, and what that will cost."""

    study: str  # its name
    units: int  # of the whole study
    to_compute: int  # of them
    models: tuple[ModelPlan, ...]  # the share of each model
    trust_questions: int  # to ask then: whether the numbers can be trusted
    workers: int  # processes that compute at once
    table_bytes: int  # expected size of all tables
    attribution_bytes_at_most: int  # room for attributions on disk

    @property
    def seconds(self) -> float:
        return sum(model.seconds or 0.0 for model in self.models) / max(1, min(self.workers, self.to_compute))

    def quicker_than(self, seconds: float) -> bool:
        return self.seconds < seconds and all(model.seconds is not None for model in self.models)

    def facts(self) -> dict[str, Any]:
        return asdict(self) | {"seconds": self.seconds}

    def lines(self) -> list[str]:
        lines = [f"{self.study}: {self.to_compute} of {self.units} units to compute"]
        for model in self.models:
            if model.inputs:
                lines.append(f"  {model.name}: {model.configurations:,} configurations x {model.inputs:,} inputs")
                lines.append(f"    {model.rows_in_words()}")
        if self.trust_questions:
            questions = counted(self.trust_questions, "question")
            lines.append(f"  then {questions} whether the numbers can be trusted, not in the time below")
        tables, room = self.table_bytes / 2**20, self.attribution_bytes_at_most / 2**30
        return [
            *lines,
            f"  expected: about {duration(self.seconds)}, and identical rows of an input are left out",
            f"  disk: about {tables:.0f} MiB of tables, at most {room:g} GiB of attributions",
        ]


def plan_of(study: Study, todo: Sequence[Unit], machine: Machine, workers: int = 1) -> Plan:
    return Plan(
        study.spec.name,
        len(study.units),
        len(todo),
        tuple(
            _model(study, model, [unit for unit in todo if unit.model == name], machine)
            for name, model in study.models.items()
        ),
        to_ask(study, unfinished=bool(todo)),
        workers,
        sum(_BYTES_PER_SCORE * len(model.inputs) * len(model.configurations) for model in study.models.values()),
        round(study.spec.cache_gib * 2**30),
    )


def _model(study: Study, model: ExplainedModel, todo: Sequence[Unit], machine: Machine) -> ModelPlan:
    kinds, nothing = {study.kind(unit): unit for unit in todo}, Forecast(Rows(0), 0, 0, Rows(0))
    each = {kind: forecast(unit.part.explained, unit.rows, unit.part.metrics, machine) for kind, unit in kinds.items()}
    rows = sum((each[study.kind(unit)] for unit in todo), nothing)
    seconds = 0.0 if rows.total is not None else None
    for part in dict.fromkeys(unit.part for unit in todo):
        units = [unit for unit in todo if unit.part is part]
        needed = sum((each[study.kind(unit)] for unit in units), nothing).total
        inputs = sum(unit.inputs for unit in units)
        if seconds is not None and needed is not None:
            seconds += inputs * _seconds_per_input(study, part, needed, inputs, machine)
    left = {place for unit in todo for place in range(unit.rows.start, unit.rows.stop)}
    methods = {method for unit in todo for method in unit.part.explained.configurations}
    return ModelPlan(model.name, len(methods), len(left), rows.total, rows.unshared, seconds)


def _seconds_per_input(study: Study, part: Part, rows: Rows, inputs: int, machine: Machine) -> float:
    """From a trial of a few inputs, which knows identical rows, where that is quick; else from the model's speed."""
    model = part.explained
    forward, backward = calibrate(model, machine)
    estimate = _OUTSIDE * (rows.backward * backward + (rows.forward - rows.backward) * forward) / inputs
    if estimate > _TRIAL_SECONDS:
        return estimate

    def seconds(count: int) -> float:
        nothing = Cache(study.store.folder, 0)
        return float(compute(model, slice(0, count), part.metrics, machine, nothing).costs["seconds"])

    first = seconds(1)  # with whatever happens at the first call only
    count = min(len(model.inputs), 4, int(_TRIAL_SECONDS / first))
    return seconds(count) / count if count else first


@dataclass(frozen=True)
class Forecast:
    """Model rows of some units."""

    attribution: Rows | None  # for all explanations; None where a family does not say
    guided: int  # for guided metrics, before identical rows are left out
    sampled: int  # for metrics of random draws
    # the same work with every configuration and metric on its own; None where a family does not say
    unshared: Rows | None

    @property
    def total(self) -> Rows | None:
        if self.attribution is None:
            return None
        return self.attribution + Rows(self.guided + self.sampled)

    def __add__(self, other: "Forecast") -> "Forecast":
        return Forecast(
            _sum([self.attribution, other.attribution]),
            self.guided + other.guided,
            self.sampled + other.sampled,
            _sum([self.unshared, other.unshared]),
        )


def forecast(model: ExplainedModel, rows: slice, metrics: StudyMetrics, machine: Machine) -> Forecast:
    """Model rows of a unit, exactly; of guided metrics before identical rows are left out."""
    place = _place(model, machine)
    problem = model.problem(rows)
    count = len(problem)
    used = [model.used(method) for method in model.configurations]
    features = problem.features.most
    measured = list(metrics.on(rows).values())  # whoever has some of the inputs is computed on all of a unit's
    guided, sampled = _rows_per_input(measured, len(used), features)
    alone = sum(sum(_rows_per_input([metric], 1, features)) for metric in measured)
    singly = [_attribution_rows({method.family: [method]}, problem, place) for method in used]
    return Forecast(
        _attribution_rows(families(used), problem, place),
        count * guided,
        count * sampled,
        _sum([Rows(len(used) * count * alone), *singly]),
    )


def rows_alone(model: ExplainedModel, machine: Machine) -> dict[str, Rows]:
    """Model rows per input of each configuration that shares none with others, where they are known."""
    problem, place = model.problem(slice(0, 1)), _place(model, machine)
    used = {method.canonical: model.used(method) for method in model.configurations}
    rows = {name: _attribution_rows({method.family: [method]}, problem, place) for name, method in used.items()}
    return {name: count for name, count in rows.items() if count is not None}


def calibrate(model: ExplainedModel, machine: Machine) -> tuple[float, float]:
    scorer = model.scorer(machine.compile)
    size = _place(model, machine).batch_size
    inputs = model.inputs[torch.arange(size) % len(model.inputs)].to(machine.device)
    owner = torch.arange(size, device=machine.device)
    gradients = scorer.differentiable
    with scorer.session(inputs, "torch", "logit", size, machine.device, gradients=gradients) as session:
        target = session.class_scores(inputs).argmax(1)
        seconds = []
        for run in (session.target_scores, session.target_gradients if gradients else session.target_scores):
            run(lambda start, stop: inputs[start:stop], owner, target)
            wait_for(session.device)
            began, times = time.perf_counter(), 0
            while times < 20 and time.perf_counter() - began < 0.1:
                run(lambda start, stop: inputs[start:stop], owner, target)
                wait_for(session.device)
                times += 1
            seconds.append((time.perf_counter() - began) / (times * size))
    return seconds[0], seconds[1]


def _place(model: ExplainedModel, machine: Machine) -> Place:
    device = torch.device(machine.device)
    return Place(device, machine.batch_size or automatic_batch_size(model.inputs[0].numel(), device))


def _rows_per_input(metrics: Sequence[Metric], attributions: int, features: int) -> tuple[int, int]:
    """Rows of the guided pass and of all distinct draws; whichever comes first scores the unperturbed input, too."""
    experiments = {metric.experiment for metric in metrics if isinstance(metric, GuidedMetric)}
    draws = {draws for metric in metrics if isinstance(metric, SampledMetric) for draws in all_draws(metric)}
    sampled = sum(each.samples for each in draws)
    if not experiments:
        return 0, 1 + sampled
    drawn = {each.replacement: each.replacement.repeats if each.replacement else 1 for each in experiments}
    ends = 1 + sum(drawn.values())  # unperturbed, and all replaced in each way
    inner = sum(
        drawn[each.replacement] * each.curves * (each.points * min(each.steps, features) - 1) for each in experiments
    )
    return ends + attributions * inner, sampled


def _attribution_rows(groups: dict[Family, list[Attribution]], problem: Problem, place: Place) -> Rows | None:
    clean = Rows(len(problem))  # the unperturbed inputs
    return _sum([clean, *(family.rows(members, problem, place) for family, members in groups.items())])


def _sum(parts: Sequence[Rows | None]) -> Rows | None:
    known = [rows for rows in parts if rows is not None]
    return sum(known, Rows(0)) if len(known) == len(parts) else None


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
