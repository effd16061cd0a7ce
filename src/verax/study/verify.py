"""Verification: recompute a random sample of a finished study and compare it with what is stored."""

import json
import math
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from verax.datasets.download import write_atomically
from verax.study.cache import Cache
from verax.study.engine import one_thread
from verax.study.explanations import Machine
from verax.study.plan import Unit
from verax.study.store import Store, StoreError, read_facts, versions
from verax.study.study import Study
from verax.study.unit import compute

VALUES = (
    "input",
    "target",
    "pc",
    "dpc_magnitude",
    "dpc_signed",
    "dpc_literal",
    "infidelity",
    "infidelity_se",
    "infidelity_baseline",
    "infidelity_baseline_se",
    "attribution_norm",
)
TOLERANCE = 1e-4  # of the spread of a column's values, where device or versions differ


@dataclass(frozen=True)
class Verdict:
    """What a verification found.

    Attributes:
        units: Units of the study.
        sampled: Units computed again.
        values: Numbers compared.
        bitwise: Whether device and versions are those of the study, so that every bit had to be the same.
        different: Lines that name what differs; none is a pass.
    """

    units: int
    sampled: int
    values: int
    bitwise: bool
    different: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether all that was compared agrees."""
        return not self.different


def verify(
    study: Study, share: float, machine: Machine, seed: int = 0, tell: Callable[[str], None] = lambda line: None
) -> Verdict:
    """Recompute a share of the units, at least one, without the cache, and compare."""
    stored = study.store.contents("scores", [unit.stem for unit in study.units])
    strange = stored.strange + [
        one for kind in ("uncertainty", "examples") for one in study.store.contents(kind).strange
    ]
    different = [f"{path.parent.name}/{path.name}: {reason}" for path, reason in strange]
    there = [unit for unit in study.units if unit.stem in stored.found]
    if not there:
        raise StoreError(f"{study.store.folder}: no finished unit to verify.")
    missing = len(study.units) - len(there)
    if missing:
        different.append(f"{missing} of {len(study.units)} units are missing; run the study to the end.")
    sample = random.Random(seed).sample(there, max(1, math.ceil(share * len(there))))  # noqa: S311  # no secret
    values, bitwise = 0, True
    for unit in sorted(sample, key=lambda one: one.stem):
        tell(unit.stem)
        path = stored.found[unit.stem]
        facts, nothing = read_facts(path), Cache(path.parent, 0)
        with one_thread(machine):
            same = facts["versions"] == versions() and facts["device"] == machine.name
            again = compute(study.subjects[unit.model], unit.rows, study.spec.metrics, machine, nothing).table
        bitwise &= same
        then = pl.read_parquet(path)
        different += _differences(unit, then, again, exact=same)
        values += again.height * len(VALUES)
    return Verdict(len(study.units), len(sample), values, bitwise, tuple(different))


def write_verdict(store: Store, verdict: Verdict) -> None:
    """Keep the verdict with the study."""
    write_atomically(store.folder / "verified.json", json.dumps(asdict(verdict) | {"passed": verdict.passed}).encode())


def read_verdict(store: Store) -> dict[str, Any] | None:
    """The last verdict, if there is one that can be read."""
    try:
        found = json.loads((store.folder / "verified.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _differences(unit: Unit, then: pl.DataFrame, again: pl.DataFrame, exact: bool) -> list[str]:
    """Columns that differ, each with the largest difference and where it is."""
    if then.schema != again.schema:
        return [f"{unit.stem}: has other columns than were computed."]
    names = ("dataset", "model", "modality", "method", "configuration", "local", "input_id")
    if any(then[name].cast(pl.String).to_list() != again[name].cast(pl.String).to_list() for name in names):
        return [f"{unit.stem}: holds other inputs or configurations than were computed."]
    found = []
    for name in VALUES:
        old, new = then[name].cast(pl.Float64), again[name].cast(pl.Float64)
        gap = (old - new).abs()
        allowed = 0.0 if exact else TOLERANCE * max(float(old.max() or 0) - float(old.min() or 0), 1e-12)  # type: ignore[arg-type]
        wrong = (gap.fill_nan(0.0) > allowed) | (old.is_null() != new.is_null()) | (old.is_nan() != new.is_nan())
        wrong = wrong.fill_null(False)
        if wrong.any():
            row = int(gap.fill_nan(math.inf).fill_null(math.inf).set(~wrong, -1.0).arg_max() or 0)
            where = f"{then['configuration'][row]}, input {then['input_id'][row]}"
            found.append(f"{unit.stem}: {name}: {old[row]} is stored, {new[row]} computed, for {where}.")
    return found
