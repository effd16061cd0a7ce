"""Worker processes: units computed at once on the cores of this machine, each with one thread.

Much of a unit is small operations, which gain nothing from a second thread; two units at once gain all of it. A worker
opens the study from its directory and writes its own files; only progress and the number of rows come back.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch

from verax.study.engine import StudyAddress, compute_and_store, run_beside
from verax.study.machine import Machine
from verax.study.progress import Watcher
from verax.study.study import Study
from verax.study.units import Unit

# GNU's allocator hands large blocks back to the system when they are free, which then clears every page of the next
# one anew; workers, which need such blocks again and again, keep them.
_KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 25), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}


def run_pool(study: Study, units: Sequence[Unit], machine: Machine, watcher: Watcher, workers: int) -> None:
    """Run units in worker processes; whatever ends this, an error or Ctrl-C, ends them at once."""
    waiting = [unit.stem for unit in reversed(units)]
    crew: dict[Connection, BaseProcess] = {}
    try:
        for _ in range(min(workers, len(units))):
            pipe, process = _hire(study, machine)
            crew[pipe] = process
            _give(waiting.pop(), pipe, process)
        busy = set(crew)
        while busy:
            ready = wait(list(busy))
            for pipe in busy.intersection(ready):
                if not _finished(pipe, crew[pipe], watcher):
                    continue
                if waiting:
                    _give(waiting.pop(), pipe, crew[pipe])
                else:
                    busy.remove(pipe)
    finally:
        _dismiss(crew)


def run_gpus(study: Study, units: Sequence[Unit], machines: Sequence[Machine], watcher: Watcher) -> None:
    """Run units on several GPUs, one worker process each; the units of the same inputs go to the same one."""
    starts = {start: place for place, start in enumerate(sorted({unit.rows.start for unit in units}))}
    crew: dict[Connection, BaseProcess] = {}
    left: dict[Connection, int] = {}
    try:
        for number, machine in enumerate(machines[: len(starts)]):
            share = [unit.stem for unit in units if starts[unit.rows.start] % len(machines) == number]
            pipe, process = _hire(study, machine)
            crew[pipe], left[pipe] = process, len(share)
            _give(share, pipe, process)
        while any(left.values()):
            ready = wait([pipe for pipe, count in left.items() if count])
            for pipe in set(left).intersection(ready):
                left[pipe] -= _finished(pipe, crew[pipe], watcher)
    finally:
        _dismiss(crew)


def _dismiss(crew: dict[Connection, BaseProcess]) -> None:
    for pipe, process in crew.items():
        process.kill()
        process.join()
        pipe.close()


def _hire(study: Study, machine: Machine) -> tuple[Connection, BaseProcess]:
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    pipe, far_end = context.Pipe()
    process = context.Process(target=_work, args=(StudyAddress.of(study), machine, far_end), daemon=True)
    with _environment(_KEPT_MEMORY):
        process.start()
    far_end.close()  # so that the worker's end is the only one, and its death is noticed here
    return pipe, process


@contextlib.contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """Start processes with these variables; those that are set already stay as they are."""
    ours = {name: value for name, value in settings.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


def _give(stem: str | list[str], pipe: Connection, process: BaseProcess) -> None:
    try:
        pipe.send(stem)
    except ConnectionError:
        raise _lost(process) from None


def _lost(process: BaseProcess) -> ChildProcessError:
    process.join()
    return ChildProcessError(
        f"engine: a worker process ended by itself (status {process.exitcode}), as when memory runs out. What was "
        "finished is stored; run the same command again, with fewer --workers."
    )


def _finished(pipe: Connection, process: BaseProcess, watcher: Watcher) -> bool:
    """Read what a worker says: a family that it begins, the rows of a unit that it has stored, or what went wrong."""
    try:
        said = pipe.recv()
    except (EOFError, ConnectionError):
        raise _lost(process) from None
    if isinstance(said, Exception):
        raise said
    if isinstance(said, str):
        watcher.family(said)
        return False
    watcher.done(said)
    return True


def _work(address: StudyAddress, machine: Machine, pipe: Connection) -> None:
    """What a worker does until it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the first one decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    try:
        study = address.open()
        units = {unit.stem: unit for unit in study.units}
        while True:
            asked = pipe.recv()
            if isinstance(asked, list):
                run_beside(study, [units[stem] for stem in asked], machine, _Piped(pipe))
            else:
                pipe.send(compute_and_store(study, units[asked], machine, pipe.send))
    except Exception as error:  # whatever it is: it is raised again where the study was started
        pipe.send(error)


class _Piped:
    """Passes on what a watcher is told."""

    def __init__(self, pipe: Connection) -> None:
        self.log = self.family = self.done = pipe.send


def _end_with_parent() -> None:
    """Die when the first process was killed: another run may begin, and must be alone in the directory."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
