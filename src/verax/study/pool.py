"""Worker processes: units computed at once on the cores of this machine, each with one thread.

Much of a unit is small operations, which gain nothing from a second thread; two units at once gain all of it. A worker
opens the study from its directory and writes its own files; only progress and the number of rows come back.
"""

import contextlib
import os
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

from verax.core.worker_processes import Worker, WorkerEndedError, ready
from verax.study.engine import StudyAddress, compute_and_store, run_beside
from verax.study.machine import Machine
from verax.study.progress import Watcher
from verax.study.study import Study
from verax.study.trust import answer, finished_scores, questions
from verax.study.trust_questions import Question
from verax.study.uncertainty import compute_uncertainty, uncertainty_tables
from verax.study.units import Unit

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
