"""The plan of a study in words, told before it starts."""

from collections.abc import Sequence

from verax.attribution import Rows
from verax.study.cache import Cache
from verax.study.explanations import Machine
from verax.study.plan import Unit, calibrate, disk_bytes, forecast, total
from verax.study.progress import duration
from verax.study.study import Study
from verax.study.subjects import Subject
from verax.study.unit import compute

_OUTSIDE = 1.5  # time in all over time in the model, where a whole input would take too long to try
_TRIAL_SECONDS = 3.0


def plan_lines(study: Study, todo: Sequence[Unit], machine: Machine) -> list[str]:
    """Units, rows with and without sharing, time and disk."""
    lines = [f"{study.spec.name}: {len(todo)} of {len(study.units)} units to compute"]
    seconds = 0.0
    for name, subject in study.subjects.items():
        own = [unit for unit in todo if unit.model == name]
        if not own:
            continue
        sizes = {unit.inputs: unit for unit in own}
        each = {size: forecast(subject, unit.rows, study.spec.metrics, machine) for size, unit in sizes.items()}
        rows = total([each[unit.inputs] for unit in own])
        inputs = sum(unit.inputs for unit in own)
        lines.append(f"  {name}: {len(subject.configurations):,} configurations x {inputs:,} inputs")
        if rows.total is None or rows.unshared is None:
            lines.append("    model rows not known: a family does not say how many it needs")
            continue
        lines.append(
            f"    at most {rows.total.forward:,} rows forward, {rows.total.backward:,} of them backward "
            f"(without sharing {rows.unshared.forward:,} and {rows.unshared.backward:,})"
        )
        seconds += inputs * _seconds_per_input(study, subject, rows.total, inputs, machine)
    disk = sum(disk_bytes(subject) for subject in study.subjects.values())
    lines.append(f"  expected: about {duration(seconds)}, and identical rows of an input are left out")
    lines.append(
        f"  disk: about {disk / 2**20:.0f} MiB of tables, at most {study.spec.cache_gib:g} GiB of attributions"
    )
    return lines


def _seconds_per_input(study: Study, subject: Subject, rows: Rows, inputs: int, machine: Machine) -> float:
    """From a trial of a few inputs where that is quick, otherwise from the speed of the model alone.

    The trial knows how many rows are identical, which nothing else does.
    """
    forward, backward = calibrate(subject, machine)
    estimate = _OUTSIDE * (rows.backward * backward + (rows.forward - rows.backward) * forward) / inputs
    if estimate > _TRIAL_SECONDS:
        return estimate

    def seconds(count: int) -> float:
        nothing = Cache(study.store.folder, 0)
        return float(compute(subject, slice(0, count), study.spec.metrics, machine, nothing).costs["seconds"])

    first = seconds(1)  # with whatever happens at the first call only
    count = min(len(subject.inputs), 8, int(_TRIAL_SECONDS / first))
    return seconds(count) / count if count else first
