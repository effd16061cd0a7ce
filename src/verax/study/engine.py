"""What engines do for a study: they compute units, tables of the resampling study and answers, and store them."""

import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from verax.attribution import families
from verax.core.engine import Engine, Processes, ThisProcess
from verax.core.ray_engine import Cluster, RayTasks
from verax.core.registry import load_plugins
from verax.core.system import available_cores
from verax.study.compute import Tell, UnitResult, compute
from verax.study.explained_models import Machine
from verax.study.store import parquet
from verax.study.study import Study, open_study, versions
from verax.study.trust import TRUST, Question, answer, questions
from verax.study.uncertainty import compute_uncertainty, uncertainty_tables
from verax.study.units import Unit

Job = TypeVar("Job")


def begun_ahead(jobs: Sequence[Job], begin: Callable[[Job, Executor], None]) -> Generator[Job, None, None]:
    """Give out jobs one after the other; what ``begin`` does for each, in threads, has begun one job earlier."""
    # few of them: the more wait for Python's lock, the longer does the thread that keeps the GPU busy
    threads = ThreadPoolExecutor(max(1, available_cores() // 4))
    try:
        for number, job in enumerate(jobs):
            for ahead in jobs[number + (number > 0) : number + 2]:
                begin(ahead, threads)
            yield job
    finally:  # also when something went wrong and the generator is closed
        threads.shutdown(cancel_futures=True)


def _computed(study: Study, unit: Unit, machine: Machine, tell: Tell) -> UnitResult:
    part = unit.part
    return compute(part.explained, unit.rows, part.metrics, machine, study.cache, tell, again=part.again)


def store(study: Study, unit: Unit, result: UnitResult) -> int:
    """Write the file of a unit, whole or not at all, and return its model rows."""
    facts = {"unit": unit.stem, "model": unit.model, "inputs": unit.inputs, "key": unit.key}
    content = parquet(result.table, {**facts, **result.costs, "versions": versions()})
    study.store.put("scores", unit.stem, content, ".parquet")
    return int(result.costs["rows_forward"])


def run_beside(study: Study, units: Sequence[Unit], machine: Machine, tell: Callable[[Any], None]) -> None:
    """Run units on a GPU; the processor segments the inputs of the next and writes the table of the last meanwhile."""

    def begin(unit: Unit, threads: Executor) -> None:
        model = unit.part.explained
        inputs = model.inputs[unit.rows].numpy()
        for family in families([model.used(method) for method in model.configurations]):
            family.begin(inputs, threads)

    # models take turns on the same inputs, whose segments serve all of them
    order = sorted(units, key=lambda unit: unit.rows.start)
    written: Future[int] | None = None
    with ThreadPoolExecutor(1) as writer, closing(begun_ahead(order, begin)) as jobs:
        for unit in jobs:
            result = _computed(study, unit, machine, tell)
            if written is not None:
                tell(written.result())
            written = writer.submit(store, study, unit, result)
    if written is not None:
        tell(written.result())


@dataclass(frozen=True)
class StudyWork:
    """What a worker does for a study: it makes files, by their names; those that are there already it leaves alone."""

    folder: str  # the study's directory
    imports: tuple[str, ...]  # modules that define what is not part of Verax
    machine: Machine  # where to compute
    opened: Study | None = None  # the study, where this process has opened it; workers open it themselves

    def __call__(self, task: str | tuple[str, ...], tell: Callable[[Any], None]) -> int | None:
        """Make a file, or the units of a share; the model rows of a single unit."""
        study = self.opened or _opened(self.folder, self.imports, Path(self.folder, "study.toml").read_bytes())
        units = {unit.stem: unit for unit in study.units}
        if isinstance(task, tuple):
            share = [units[stem] for stem in task if not study.store.has("scores", stem)]
            run_beside(study, share, self.machine, tell)
            return None
        if task in units:
            if study.store.has("scores", task):
                return 0
            return store(study, units[task], _computed(study, units[task], self.machine, tell))
        if task in uncertainty_tables(study):
            if not study.store.has("uncertainty", task):
                tell("uncertainty of Infidelity")
                compute_uncertainty(study, task, self.machine)
        elif not study.store.has(TRUST, task):
            tell(_questions(study)[task].title)
            answer(study, _questions(study)[task], self.machine)
        return None


@functools.lru_cache(maxsize=1)
def _opened(folder: str, imports: tuple[str, ...], frozen: bytes) -> Study:
    load_plugins(imports)
    return open_study(folder)


@functools.lru_cache(maxsize=1)
def _questions(study: Study) -> dict[str, Question]:
    """The questions of trust, which are known when all units are there."""
    return questions(study, study.scores())


def study_engine(study: Study, machine: Machine, cluster: Cluster | None, workers: int) -> Engine:
    """Where a study is computed: on a cluster, on several GPUs, in several processes, or in this one."""
    work = StudyWork(str(study.store.folder.absolute()), tuple(study.imports), machine)
    if cluster is not None:
        return RayTasks(work, cluster, gpus=int(machine.device != "cpu"))
    if study.live is None and len(gpus := machine.gpus()) > 1:
        return Processes([replace(work, machine=gpu) for gpu in gpus])
    if workers > 1:
        return Processes([work] * workers)
    return ThisProcess(replace(work, opened=study))


def unit_tasks(study: Study, units: Sequence[Unit], machine: Machine, cluster: Cluster | None) -> list[Any]:
    """Units as tasks: each by itself; on GPUs a share for each, the units of the same inputs together."""
    if cluster is not None or torch.device(machine.device).type == "cpu":
        return [unit.stem for unit in units]
    return list(shares(units, 1 if study.live is not None else len(machine.gpus())))


def shares(units: Sequence[Unit], count: int) -> Iterator[tuple[str, ...]]:
    """The names of units in as many shares, the units of the same inputs in the same one."""
    starts = {start: place for place, start in enumerate(sorted({unit.rows.start for unit in units}))}
    for number in range(min(count, len(starts))):
        yield tuple(unit.stem for unit in units if starts[unit.rows.start] % count == number)
