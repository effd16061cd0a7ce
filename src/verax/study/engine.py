"""Engines run units: in this process, in worker processes, or on Ray in tasks on a cluster. Results go to the store."""

import contextlib
from collections.abc import Iterator, Sequence

import torch

from verax.study.explanations import Machine, Tell
from verax.study.plan import Unit
from verax.study.progress import Watcher
from verax.study.store import parquet, versions
from verax.study.study import Study
from verax.study.unit import compute


def compute_and_store(study: Study, unit: Unit, machine: Machine, tell: Tell = lambda family: None) -> int:
    """Compute a unit, write its file and return its model rows."""
    cache = study.store.cache(study.spec.cache_gib)
    found = compute(study.subjects[unit.model], unit.rows, study.spec.metrics, machine, cache, tell)
    facts = {"unit": unit.stem, "model": unit.model, "inputs": unit.inputs, "key": unit.key}
    content = parquet(found.table, {**facts, **found.costs, "versions": versions()})
    study.store.put("scores", unit.stem, content, ".parquet")
    return int(found.costs["rows_forward"])


def run_local(study: Study, units: Sequence[Unit], machine: Machine, watcher: Watcher) -> None:
    """Run units one after the other in this process, on one core or one GPU."""
    for unit in units:
        watcher.done(compute_and_store(study, unit, machine, watcher.family))


@contextlib.contextmanager
def one_thread(machine: Machine) -> Iterator[None]:
    """Compute with one thread on a CPU, however many there are: sums then have the same order, and the same bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if machine.device == "cpu" else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
