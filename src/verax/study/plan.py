"""The plan of a study: units of work, and what they will cost, told before anything starts."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from verax.attribution import Attribution, Family, Given, Place, Rows, families
from verax.features import feature_map
from verax.scoring import automatic_batch_size
from verax.study.explanations import Machine
from verax.study.keys import scores_key
from verax.study.spec import MetricsSpec
from verax.study.subjects import Subject
from verax.study.unit import metrics_of

MOST_INPUTS = 128
_UNIT_BYTES = 2 << 30  # attributions of all configurations are held at once, because they share model rows
_BYTES_PER_SCORE = 40  # a row of the table in compressed Parquet; measured on HELOC


@dataclass(frozen=True)
class Unit:
    """All configurations of one model on some inputs.

    Attributes:
        model: The model's name.
        rows: Which inputs of the subject.
        key: Hash of all that its result depends on.
    """

    model: str
    rows: slice
    key: str

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
        guided: For PC and DPC, before identical rows are left out.
        infidelity: For both Infidelities.
        unshared: The same work with every configuration and metric on its own; None where a family does not say.
    """

    attribution: Rows | None
    guided: int
    infidelity: int
    unshared: Rows | None

    @property
    def total(self) -> Rows | None:
        """All rows, before identical ones are left out."""
        if self.attribution is None:
            return None
        return self.attribution + Rows(self.guided + self.infidelity)

    def __add__(self, other: "Forecast") -> "Forecast":
        return Forecast(
            _sum(self.attribution, other.attribution),
            self.guided + other.guided,
            self.infidelity + other.infidelity,
            _sum(self.unshared, other.unshared),
        )


NOTHING = Forecast(Rows(0), 0, 0, Rows(0))


def units_of(subject: Subject, metrics: MetricsSpec) -> list[Unit]:
    """Cut the inputs of a subject into units, each with all configurations."""
    size = chunk_size(subject)
    starts = range(0, len(subject.inputs), size)
    pieces = [slice(start, min(start + size, len(subject.inputs))) for start in starts]
    return [Unit(subject.model.name, rows, scores_key(subject, rows, metrics)) for rows in pieces]


def chunk_size(subject: Subject) -> int:
    """Inputs per unit: as the spec says, or as many as keep all attributions of a unit within bounds."""
    if subject.data.chunk is not None:
        return subject.data.chunk
    each = 4 * subject.inputs[0].numel() * len(subject.configurations)
    return max(1, min(MOST_INPUTS, _UNIT_BYTES // each))


def forecast(subject: Subject, rows: slice, metrics: MetricsSpec, machine: Machine) -> Forecast:
    """Model rows of a unit, exactly; of PC and DPC before identical rows are left out."""
    place = _place(subject, machine)
    given = Given(subject.inputs[rows], subject.background, subject.labels)
    count = len(given.inputs)
    used = [subject.used(one) for one in subject.configurations]
    groups = families(used)
    attribution = _attribution_rows(groups, given, place)
    features = feature_map("auto", given.inputs).most
    curve = 2 * (min(metrics.steps, features) - 1)  # inner points of MoRF and LeRF
    experiments = len({metric.experiment for metric in metrics_of(metrics).values() if hasattr(metric, "experiment")})
    draws = 2 * metrics.samples if metrics.infidelity else 0
    # every call scores the unperturbed inputs, and PC and DPC the fully replaced ones
    alone = Rows(len(used) * count * (4 * (curve + 2) + (draws + 2 if draws else 0)))
    singly = [_attribution_rows({one.family: [one]}, given, place) for one in used]
    return Forecast(
        attribution,
        count * (2 + len(used) * experiments * curve),
        count * draws,
        None if None in singly else sum((one for one in singly if one is not None), alone),
    )


def calibrate(subject: Subject, machine: Machine) -> tuple[float, float]:
    """Seconds per model row, forward and backward, from a few batches."""
    scorer = subject.scorer(machine.compile)
    size = _place(subject, machine).batch_size
    inputs = subject.inputs[torch.arange(size) % len(subject.inputs)].to(machine.device)
    owner = torch.arange(size, device=machine.device)
    with scorer.session(inputs, "torch", "logit", size, machine.device, gradients=True) as session:
        target = session.class_scores(inputs).argmax(1)
        seconds = []
        for run in (session.target_scores, session.target_gradients):
            run(lambda start, stop: inputs[start:stop], owner, target)
            session.wait()
            began, times = time.perf_counter(), 0
            while times < 20 and time.perf_counter() - began < 0.5:
                run(lambda start, stop: inputs[start:stop], owner, target)
                session.wait()
                times += 1
            seconds.append((time.perf_counter() - began) / (times * size))
    return seconds[0], seconds[1]


def disk_bytes(subject: Subject) -> int:
    """Expected size of a subject's tables."""
    return _BYTES_PER_SCORE * len(subject.inputs) * len(subject.configurations)


def _place(subject: Subject, machine: Machine) -> Place:
    device = torch.device(machine.device)
    return Place(device, machine.batch_size or automatic_batch_size(subject.inputs[0].numel(), device))


def _attribution_rows(groups: dict[Family, list[Attribution]], given: Given, place: Place) -> Rows | None:
    total = Rows(len(given.inputs))  # the unperturbed inputs
    for family, members in groups.items():
        own = family.rows(members, given, place)
        if own is None:
            return None
        total += own
    return total


def _sum(one: Rows | None, other: Rows | None) -> Rows | None:
    return None if one is None or other is None else one + other


def total(forecasts: Sequence[Forecast]) -> Forecast:
    """The rows of several units."""
    return sum(forecasts, NOTHING)
