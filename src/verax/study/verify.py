"""Verification: recompute a random sample of a finished study and compare it with what is stored."""

import math
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from verax.core.blocks import one_thread_on_cpu
from verax.core.files import read_sealed_json, sealed_json, write_atomically
from verax.core.warn import warn
from verax.study.compute import compute
from verax.study.explained_models import Machine
from verax.study.store import Cache, Store, StoreError, read_facts
from verax.study.study import Study, versions
from verax.study.tables import COST_COLUMNS
from verax.study.units import Unit

NAMES = ("dataset", "model", "modality", "method", "configuration", "local", "input_id")
TOLERANCE = 1e-4  # of the spread of a column's values, where device or versions differ


@dataclass(frozen=True)
class Verdict:
    units: int  # units of the study
    sampled: int  # units computed again
    values: int  # numbers compared
    bitwise: bool  # whether device and versions are those of the study, so that every bit had to be the same
    different: tuple[str, ...]  # lines that name what differs; none is a pass

    @property
    def passed(self) -> bool:
        return not self.different


def verify(
    study: Study, share: float, machine: Machine, seed: int = 0, tell: Callable[[str], None] = lambda line: None
) -> Verdict:
    """Recompute a share of the units, at least one, without the cache, and compare."""
    stored = study.store.contents("scores", study.stems)
    strange = stored.strange + [
        file for kind in ("uncertainty", "trust", "examples") for file in study.store.contents(kind).strange
    ]
    different = [f"{path.parent.name}/{path.name}: {reason}" for path, reason in strange]
    finished = [unit for unit in study.units if unit.stem in stored.files]
    if not finished:
        raise StoreError(f"{study.store.folder}: no finished unit to verify.")
    missing = len(study.units) - len(finished)
    if missing:
        different.append(f"{missing} of {len(study.units)} units are missing; run the study to the end.")
    sample = random.Random(seed).sample(finished, max(1, math.ceil(share * len(finished))))  # noqa: S311  # no secret
    values, bitwise = 0, True
    for unit in sorted(sample, key=lambda unit: unit.stem):
        tell(unit.stem)
        path = stored.files[unit.stem]
        facts, nothing = read_facts(path), Cache(path.parent, 0)
        with one_thread_on_cpu(machine.device):
            same = facts["versions"] == versions() and facts["device"] == machine.name
            again = compute(unit.part.explained, unit.rows, unit.part.metrics, machine, nothing).table
        bitwise &= same
        then = pl.read_parquet(path)
        different += _differences(unit, then, again, exact=same)
        values += again.height * len(compared(again))
    return Verdict(len(study.units), len(sample), values, bitwise, tuple(different))


def write_verdict(store: Store, verdict: Verdict) -> None:
    """Keep the verdict with the study, sealed, and with the state of the scores that it is about."""
    content = asdict(verdict) | {"passed": verdict.passed, "state": store.state()}
    write_atomically(_verdict_file(store), sealed_json(content))


def read_verdict(store: Store) -> dict[str, Any] | None:
    """The last verdict, if it is whole and the scores are still those that were verified."""
    path = _verdict_file(store)
    try:
        verdict = read_sealed_json(path.read_bytes())
    except FileNotFoundError:
        return None
    if verdict is None:
        reason = "damaged, or written by another version of Verax, and ignored"
        warn(f"{path}: {reason}; run verax verify again to have it written anew.")
        return None
    return verdict if verdict["state"] == store.state() else None


def _verdict_file(store: Store) -> Path:
    return store.folder / "verified.json"


def compared(table: pl.DataFrame) -> list[str]:
    return [name for name in table.columns if name not in (*NAMES, *COST_COLUMNS)]


def _differences(unit: Unit, then: pl.DataFrame, again: pl.DataFrame, exact: bool) -> list[str]:
    """Columns that differ, each with the largest difference and where it is."""
    if then.schema != again.schema:
        return [f"{unit.stem}: has other columns than were computed."]
    if any(then[name].cast(pl.String).to_list() != again[name].cast(pl.String).to_list() for name in NAMES):
        return [f"{unit.stem}: holds other inputs or configurations than were computed."]
    lines = []
    for name in compared(again):
        old, new = then[name].cast(pl.Float64), again[name].cast(pl.Float64)
        gap = (old - new).abs()
        allowed = 0.0 if exact else TOLERANCE * max(float(old.max() or 0) - float(old.min() or 0), 1e-12)  # type: ignore[arg-type]
        wrong = (gap.fill_nan(0.0) > allowed) | (old.is_null() != new.is_null()) | (old.is_nan() != new.is_nan())
        wrong = wrong.fill_null(False)
        if wrong.any():
            row = int(gap.fill_nan(math.inf).fill_null(math.inf).set(~wrong, -1.0).arg_max() or 0)
            where = f"{then['configuration'][row]}, input {then['input_id'][row]}"
            lines.append(f"{unit.stem}: {name}: {old[row]} is stored, {new[row]} computed, for {where}.")
    return lines
