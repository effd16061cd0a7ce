"""The plan of a study, in words and as numbers, told before it starts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from verax.attribution import Rows
from verax.core.display import counted
from verax.study.cache import Cache
from verax.study.compute import compute
from verax.study.explained_models import ExplainedModel
from verax.study.machine import Machine
from verax.study.progress import duration
from verax.study.study import Study
from verax.study.trust import to_ask
from verax.study.units import Part, Unit, calibrate, disk_bytes, forecast, total

_OUTSIDE = 1.5  # time in all over time in the model, where a whole input would take too long to try
_TRIAL_SECONDS = 3.0


@dataclass(frozen=True)
class ModelPlan:
    """What is left to compute for one model.

    Attributes:
        name: The model.
        configurations: How many.
        inputs: How many are left.
        rows_at_most: Model rows, before identical ones are left out; None where a family does not say.
        rows_without_sharing: The same work with every configuration and metric on its own.
        seconds: Expected on one core; None where the rows are not known.
    """

    name: str
    configurations: int
    inputs: int
    rows_at_most: Rows | None
    rows_without_sharing: Rows | None
    seconds: float | None


@dataclass(frozen=True)
class Plan:
    """What a study has left to compute, and what that will cost.

    Attributes:
        study: Its name.
        units: Of the whole study.
        to_compute: Of them.
        models: The share of each model.
        trust_questions: To ask then: whether the numbers can be trusted.
        workers: Processes that compute at once.
        table_bytes: Expected size of all tables.
        attribution_bytes_at_most: Room for attributions on disk.
    """

    study: str
    units: int
    to_compute: int
    models: tuple[ModelPlan, ...]
    trust_questions: int
    workers: int
    table_bytes: int
    attribution_bytes_at_most: int

    @property
    def seconds(self) -> float:
        """Expected for all models whose rows are known."""
        return sum(model.seconds or 0.0 for model in self.models) / max(1, min(self.workers, self.to_compute))

    def quicker_than(self, seconds: float) -> bool:
        """Whether all is known and will be done in so many seconds."""
        return self.seconds < seconds and all(model.seconds is not None for model in self.models)

    def facts(self) -> dict[str, Any]:
        """The plan as JSON can hold it."""
        return asdict(self) | {"seconds": self.seconds}

    def lines(self) -> list[str]:
        """The plan in words."""
        lines = [f"{self.study}: {self.to_compute} of {self.units} units to compute"]
        for model in self.models:
            if model.inputs:
                lines.append(f"  {model.name}: {model.configurations:,} configurations x {model.inputs:,} inputs")
                lines.append(f"    {_rows(model)}")
        if self.trust_questions:
            asked = counted(self.trust_questions, "question")
            lines.append(f"  then {asked} whether the numbers can be trusted, not in the time below")
        room = self.attribution_bytes_at_most / 2**30
        lines.append(f"  expected: about {duration(self.seconds)}, and identical rows of an input are left out")
        lines.append(
            f"  disk: about {self.table_bytes / 2**20:.0f} MiB of tables, at most {room:g} GiB of attributions"
        )
        return lines


def plan_of(study: Study, todo: Sequence[Unit], machine: Machine, workers: int = 1) -> Plan:
    """Units, rows with and without sharing, time and disk."""
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
        sum(disk_bytes(model) for model in study.models.values()),
        round(study.spec.cache_gib * 2**30),
    )


def _model(study: Study, model: ExplainedModel, todo: Sequence[Unit], machine: Machine) -> ModelPlan:
    kinds = {study.kind(unit): unit for unit in todo}
    each = {kind: forecast(unit.part.explained, unit.rows, unit.part.metrics, machine) for kind, unit in kinds.items()}
    rows = total([each[study.kind(unit)] for unit in todo])
    seconds = 0.0 if rows.total is not None else None
    for part in dict.fromkeys(unit.part for unit in todo):
        own = [unit for unit in todo if unit.part is part]
        needed, inputs = total([each[study.kind(unit)] for unit in own]).total, sum(unit.inputs for unit in own)
        if seconds is not None and needed is not None:
            seconds += inputs * _seconds_per_input(study, part, needed, inputs, machine)
    left = {place for unit in todo for place in range(unit.rows.start, unit.rows.stop)}
    methods = {method for unit in todo for method in unit.part.explained.configurations}
    return ModelPlan(model.name, len(methods), len(left), rows.total, rows.unshared, seconds)


def _rows(plan: ModelPlan) -> str:
    shared, unshared = plan.rows_at_most, plan.rows_without_sharing
    if shared is None or unshared is None:
        return "model rows not known: a family does not say how many it needs"
    return (
        f"at most {shared.forward:,} rows forward, {shared.backward:,} of them backward "
        f"(without sharing {unshared.forward:,} and {unshared.backward:,})"
    )


def _seconds_per_input(study: Study, part: Part, rows: Rows, inputs: int, machine: Machine) -> float:
    """From a trial of a few inputs where that is quick, otherwise from the speed of the model alone.

    The trial knows how many rows are identical, which nothing else does.
    """
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
