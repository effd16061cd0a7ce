"""Units of work, and the model rows that they will need, told before anything starts."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from verax.attribution import Attribution, Family, Given, Place, Rows, families
from verax.core.arrays import wait_for
from verax.metrics.base import GuidedMetric, Metric, SampledMetric, all_draws
from verax.scoring.scorer import automatic_batch_size
from verax.study.explained_models import ExplainedModel
from verax.study.keys import scores_key
from verax.study.machine import Machine
from verax.study.metrics import StudyMetrics

MOST_INPUTS = 128
_UNIT_BYTES = 2 << 30  # attributions of all configurations are held at once, because they share model rows
_BYTES_PER_SCORE = 40  # a row of the table in compressed Parquet; measured on HELOC


@dataclass(frozen=True, eq=False)
class Part:
    """What is computed together for a model: the whole of a study that never grew, or what was added to it at a time.

    Attributes:
        explained: The model, with the configurations that are computed.
        metrics: What is measured.
        start: The first input.
        again: Whether another part has explained the inputs by these configurations before.
    """

    explained: ExplainedModel
    metrics: StudyMetrics
    start: int = 0
    again: bool = False

    @property
    def stop(self) -> int:
        """The end of the inputs that some of the metrics are for."""
        count = len(self.explained.inputs)
        return min(count, max(self.metrics.limits.get(column, count) for column in self.metrics))


@dataclass(frozen=True)
class Unit:
    """All configurations of a part on some inputs.

    Attributes:
        model: The model's name.
        rows: Which inputs of the model.
        key: Hash of all that its result depends on.
        part: What is computed.
    """

    model: str
    rows: slice
    key: str
    part: Part = field(compare=False, repr=False)

    @property
    def stem(self) -> str:
        """Its name in the store."""
        return f"{self.model}.{self.rows.start:06d}-{self.rows.stop:06d}.{self.key[:16]}"

    @property
    def inputs(self) -> int:
        """How many."""
        return int(self.rows.stop - self.rows.start)


@dataclass(frozen=True)
class Forecast:
    """Model rows of some units.

    Attributes:
        attribution: For all explanations; None where a family does not say.
        guided: For guided metrics, before identical rows are left out.
        sampled: For metrics of random draws.
        unshared: The same work with every configuration and metric on its own; None where a family does not say.
    """

    attribution: Rows | None
    guided: int
    sampled: int
    unshared: Rows | None

    @property
    def total(self) -> Rows | None:
        """All rows, before identical ones are left out."""
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


NOTHING = Forecast(Rows(0), 0, 0, Rows(0))


def units_of(part: Part) -> list[Unit]:
    """Cut the inputs of a part into units, each with all its configurations."""
    model, size = part.explained, chunk_size(part.explained)
    pieces = [slice(start, min(start + size, len(model.inputs))) for start in range(part.start, part.stop, size)]
    return [Unit(model.name, rows, scores_key(model, rows, part.metrics), part) for rows in pieces]


def chunk_size(model: ExplainedModel) -> int:
    """Inputs per unit: as the spec says, or as many as keep all attributions of a unit within bounds."""
    if model.data.chunk is not None:
        return model.data.chunk
    each = 4 * model.inputs[0].numel() * len(model.configurations)
    return max(1, min(MOST_INPUTS, _UNIT_BYTES // each))


def forecast(model: ExplainedModel, rows: slice, metrics: StudyMetrics, machine: Machine) -> Forecast:
    """Model rows of a unit, exactly; of guided metrics before identical rows are left out."""
    place = _place(model, machine)
    given = model.given(rows)
    count = len(given.inputs)
    used = [model.used(method) for method in model.configurations]
    features = given.features.most
    here = list(metrics.on(rows).values())  # whoever has some of the inputs is computed on all of a unit's
    guided, sampled = _rows_per_input(here, len(used), features)
    alone = sum(sum(_rows_per_input([metric], 1, features)) for metric in here)
    singly = [_attribution_rows({method.family: [method]}, given, place) for method in used]
    return Forecast(
        _attribution_rows(families(used), given, place),
        count * guided,
        count * sampled,
        _sum([Rows(len(used) * count * alone), *singly]),
    )


def rows_alone(model: ExplainedModel, machine: Machine) -> dict[str, Rows]:
    """Model rows per input of each configuration that shares none with others, where they are known."""
    given, place = model.given(slice(0, 1)), _place(model, machine)
    used = {method.canonical: model.used(method) for method in model.configurations}
    rows = {name: _attribution_rows({method.family: [method]}, given, place) for name, method in used.items()}
    return {name: found for name, found in rows.items() if found is not None}


def calibrate(model: ExplainedModel, machine: Machine) -> tuple[float, float]:
    """Seconds per model row, forward and backward, from a few batches."""
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


def disk_bytes(model: ExplainedModel) -> int:
    """Expected size of a model's tables."""
    return _BYTES_PER_SCORE * len(model.inputs) * len(model.configurations)


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


def _attribution_rows(groups: dict[Family, list[Attribution]], given: Given, place: Place) -> Rows | None:
    clean = Rows(len(given.inputs))  # the unperturbed inputs
    return _sum([clean, *(family.rows(members, given, place) for family, members in groups.items())])


def _sum(parts: Sequence[Rows | None]) -> Rows | None:
    known = [rows for rows in parts if rows is not None]
    return sum(known, Rows(0)) if len(known) == len(parts) else None


def total(forecasts: Sequence[Forecast]) -> Forecast:
    """The rows of several units."""
    return sum(forecasts, NOTHING)
