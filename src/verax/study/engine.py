"""Engines run units: in this process, in worker processes, or on Ray in tasks on a cluster. Results go to the store."""

import sys
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import torch

from verax.attribution import families
from verax.core.registry import load_plugins, loaded_plugins
from verax.study.compute import UnitResult, compute
from verax.study.explanations import Tell
from verax.study.machine import Machine
from verax.study.progress import Watcher
from verax.study.read_ahead import Written, begun_ahead
from verax.study.store import parquet, versions
from verax.study.study import Study, open_study
from verax.study.units import Unit


@dataclass(frozen=True)
class StudyAddress:
    """How a worker, in a process of its own, comes to the study.

    Attributes:
        folder: Its directory.
        modules: Modules that were imported here, by the user's word, and that the worker imports as well.
        path: Where modules are looked for.
    """

    folder: str
    modules: tuple[str, ...]
    path: tuple[str, ...]

    @classmethod
    def of(cls, study: Study) -> "StudyAddress":
        """The address of a study that is open here."""
        modules = dict.fromkeys((*loaded_plugins(), *study.imports))
        return cls(str(study.store.folder.absolute()), tuple(modules), tuple(sys.path))

    def open(self) -> Study:
        """Open the study there."""
        sys.path += [entry for entry in self.path if entry not in sys.path]
        load_plugins(self.modules)
        return open_study(self.folder)


def compute_and_store(study: Study, unit: Unit, machine: Machine, tell: Tell = lambda family: None) -> int:
    """Compute a unit, write its file and return its model rows."""
    return store(study, unit, _computed(study, unit, machine, tell))


def _computed(study: Study, unit: Unit, machine: Machine, tell: Tell) -> UnitResult:
    part = unit.part
    return compute(part.explained, unit.rows, part.metrics, machine, study.cache, tell, again=part.again)


def store(study: Study, unit: Unit, result: UnitResult) -> int:
    """Write the file of a unit, whole or not at all, and return its model rows."""
    facts = {"unit": unit.stem, "model": unit.model, "inputs": unit.inputs, "key": unit.key}
    content = parquet(result.table, {**facts, **result.costs, "versions": versions()})
    study.store.put("scores", unit.stem, content, ".parquet")
    return int(result.costs["rows_forward"])


def run_local(study: Study, units: Sequence[Unit], machine: Machine, watcher: Watcher) -> None:
    """Run units one after the other in this process, on one core or one GPU."""
    if torch.device(machine.device).type == "cpu":
        for unit in units:
            watcher.done(compute_and_store(study, unit, machine, watcher.family))
    else:
        run_beside(study, units, machine, watcher)


def run_beside(study: Study, units: Sequence[Unit], machine: Machine, watcher: Watcher) -> None:
    """Run units on a GPU; the processor segments the inputs of the next and writes the table of the last meanwhile.

    Models take turns on the same inputs, whose segments serve all of them.
    """
    order = sorted(units, key=lambda unit: unit.rows.start)
    with Written(watcher.done) as written, closing(begun_ahead(order, partial(_begin, study))) as jobs:
        for unit in jobs:
            written.put(partial(store, study, unit, _computed(study, unit, machine, watcher.family)))


def _begin(study: Study, unit: Unit, threads: Executor) -> None:
    """Begin what the processor has to do for a unit."""
    model = unit.part.explained
    inputs = model.inputs[unit.rows].numpy()
    for family in families([model.used(method) for method in model.configurations]):
        family.begin(inputs, threads)
