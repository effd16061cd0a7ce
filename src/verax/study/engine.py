"""Engines run units: in this process, in worker processes, or as tasks of a Ray cluster; results go to the store."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import torch

from verax.attribution import families
from verax.core.registry import load_plugins, loaded_plugins
from verax.core.worker_processes import Worker, WorkerEndedError, available_cores, ready
from verax.study.compute import Tell, UnitResult, compute
from verax.study.progress import Watcher
from verax.study.resources import Cluster, Machine, load_ray
from verax.study.store import parquet, versions
from verax.study.study import Study, open_study
from verax.study.trust import Question, answer, finished_scores, questions
from verax.study.uncertainty import compute_uncertainty, uncertainty_tables
from verax.study.units import Unit

Job = TypeVar("Job")


@contextlib.contextmanager
def _threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that do not outlive their work: what has not begun by the end is given up."""
    threads = ThreadPoolExecutor(count)
    try:
        yield threads
    finally:
        threads.shutdown(cancel_futures=True)


def begun_ahead(jobs: Sequence[Job], begin: Callable[[Job, Executor], None]) -> Generator[Job, None, None]:
    """Give out jobs one after the other; what ``begin`` does for each, in threads, has begun one job earlier.

    Close it, so that nothing goes on when something went wrong.
    """
    # few of them: the more wait for Python's lock, the longer does the thread that keeps the GPU busy
    with _threads(max(1, available_cores() // 4)) as threads:
        for number, job in enumerate(jobs):
            for some in jobs[number + (number > 0) : number + 2]:
                begin(some, threads)
            yield job


class Written:
    """Work done one after the other by a thread; what it comes to, or what went wrong, is told when one asks.

    Args:
        tell: Told what each piece of work came to.
    """

    def __init__(self, tell: Callable[[int], None]) -> None:
        self.tell = tell
        self.thread = ThreadPoolExecutor(1)
        self.last: Future[int] | None = None

    def __enter__(self) -> "Written":
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._finish()
        finally:
            self.thread.shutdown()

    def put(self, work: Callable[[], int]) -> None:
        """Begin some work, once the work before is done."""
        self._finish()
        self.last = self.thread.submit(work)

    def _finish(self) -> None:
        last, self.last = self.last, None
        if last is not None:
            self.tell(last.result())


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


# GNU's allocator hands large blocks back to the system when they are free, which then clears every page of the next
# one anew; workers, which need such blocks again and again, keep them.
_KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 25), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}


UNCERTAINTY = "uncertainty of Infidelity"  # what the watcher is told


def run_pool(
    study: Study,
    units: Sequence[Unit],
    machine: Machine,
    watcher: Watcher,
    workers: int,
    uncertainty: Sequence[str] = (),
    trust: Callable[[], Sequence[str]] = tuple,
) -> None:
    """Run units in worker processes, then tables of the resampling study, which need the attributions of the first.

    Then they answer the questions of trust, which are known when all units are there. Whatever ends this, an error or
    Ctrl-C, ends them at once.
    """
    waiting = [*reversed(uncertainty), *(unit.stem for unit in reversed(units))]
    with contextlib.ExitStack() as crew:
        left = {_hire(crew, study, machine, waiting.pop()): 1 for _ in range(min(workers, len(waiting)))}
        _attend(left, waiting, watcher)
        waiting = [*reversed(trust())]
        for worker in list(left)[: len(waiting)]:
            worker.send(waiting.pop())
            left[worker] = 1
        _attend(left, waiting, watcher)


def run_gpus(study: Study, units: Sequence[Unit], machines: Sequence[Machine], watcher: Watcher) -> None:
    """Run units on several GPUs, one worker process each; the units of the same inputs go to the same one."""
    starts = {start: place for place, start in enumerate(sorted({unit.rows.start for unit in units}))}
    left: dict[Worker, int] = {}
    with contextlib.ExitStack() as crew:
        for number, machine in enumerate(machines[: len(starts)]):
            share = [unit.stem for unit in units if starts[unit.rows.start] % len(machines) == number]
            left[_hire(crew, study, machine, share)] = len(share)
        _attend(left, [], watcher)


def _hire(crew: contextlib.ExitStack, study: Study, machine: Machine, first: str | list[str]) -> Worker:
    """Start a worker, which ends with the crew, and give it its first work."""
    kept = {name: os.environ.get(name, value) for name, value in _KEPT_MEMORY.items()}
    worker = Worker(_work, StudyAddress.of(study), machine, environment=kept)
    crew.callback(worker.end)
    worker.send(first)
    return worker


def _attend(left: dict[Worker, int], waiting: list[str], watcher: Watcher) -> None:
    """Hear workers, which have so many units left, until all is done; who has none gets what waits."""
    while busy := [worker for worker, count in left.items() if count]:
        for worker in ready(busy):
            left[worker] -= _finished(worker, watcher)
            if waiting and not left[worker]:
                worker.send(waiting.pop())
                left[worker] = 1


def _finished(worker: Worker, watcher: Watcher) -> bool:
    """Hear what a worker says: what it begins, that it is done, with the rows of a unit, or what went wrong."""
    try:
        said = worker.receive()
    except WorkerEndedError as error:
        raise ChildProcessError(
            f"engine: {error}, as when memory runs out. What was finished is stored; run the same command again, with "
            "fewer --workers."
        ) from None
    if isinstance(said, str):
        watcher.family(said)
        return False
    if said is not None:
        watcher.done(said)
    return True


def _work(pipe: Connection, address: StudyAddress, machine: Machine) -> None:
    """What a worker does until it is killed."""
    study = address.open()
    units = {unit.stem: unit for unit in study.units}
    trust: dict[str, Question] = {}
    while True:
        asked = pipe.recv()
        if isinstance(asked, list):
            run_beside(study, [units[stem] for stem in asked], machine, _Piped(pipe))
        elif asked in units:
            pipe.send(compute_and_store(study, units[asked], machine, pipe.send))
        elif asked in uncertainty_tables(study):
            pipe.send(UNCERTAINTY)
            compute_uncertainty(study, asked, machine)
            pipe.send(None)
        else:
            trust = trust or questions(study, finished_scores(study))
            pipe.send(trust[asked].title)
            answer(study, trust[asked], machine)
            pipe.send(None)


class _Piped:
    """Passes on what a watcher is told."""

    def __init__(self, pipe: Connection) -> None:
        self.log = self.family = self.done = pipe.send


_AHEAD = 2  # tasks waiting for each one that runs


def run_ray(study: Study, units: Sequence[Unit], machine: Machine, watcher: Watcher, cluster: Cluster) -> None:
    """Run units as tasks of the cluster that this process is connected to."""
    ray = load_ray()
    needs = {"num_cpus": cluster.threads, "num_gpus": 0 if machine.device == "cpu" else 1}
    task = ray.remote(**needs, max_retries=cluster.retries)(_task)
    room = cluster.workers or max(1, int(ray.cluster_resources().get("CPU", 1)) // cluster.threads)
    address = StudyAddress.of(study)
    waiting = [unit.stem for unit in reversed(units)]
    running: list[Any] = []
    while waiting or running:
        while waiting and len(running) < room * _AHEAD:
            running.append(task.remote(address, waiting.pop(), machine, cluster.threads))
        finished, running = ray.wait(running, num_returns=1)
        watcher.done(_result(ray, finished[0]))


def _result(ray: Any, task: Any) -> int:
    """The rows of a finished task; what went wrong in it is raised as if it had gone wrong here."""
    try:
        return int(ray.get(task))
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise ConnectionError(f"engine: a task was lost for good: {error}") from None


def _task(address: StudyAddress, stem: str, machine: Machine, threads: int) -> int:
    """What a worker does; a unit that an earlier, lost try has stored is not computed again."""
    torch.set_num_threads(threads)
    folder = Path(address.folder)
    study = _opened(address, (folder / "study.toml").read_text(encoding="utf-8"))
    unit = next(unit for unit in study.units if unit.stem == stem)
    if any((folder / "scores").glob(f"{stem}.*.parquet")):
        return 0
    return compute_and_store(study, unit, machine)


@functools.lru_cache(maxsize=1)
def _opened(address: StudyAddress, frozen: str) -> Study:
    """The study, opened once by each worker, and again when it has grown."""
    return address.open()
