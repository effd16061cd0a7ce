"""The plan of a study in words, told before it starts."""

from collections.abc import Sequence

from verax.study.explanations import Machine
from verax.study.plan import Unit, calibrate, disk_bytes, forecast, total
from verax.study.progress import duration
from verax.study.study import Study

_OUTSIDE = 1.5  # time in all over time in the model, when that time is not measured yet


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
        forward, backward = calibrate(subject, machine)
        seconds += rows.total.backward * backward + (rows.total.forward - rows.total.backward) * forward
    disk = sum(disk_bytes(subject) for subject in study.subjects.values())
    cache = study.spec.cache_gib
    lines.append(f"  expected: at most about {duration(_OUTSIDE * seconds)}; identical rows are left out")
    lines.append(f"  disk: about {disk / 2**20:.0f} MiB of tables, at most {cache:g} GiB of attributions")
    return lines
