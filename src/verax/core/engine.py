"""Engines apply a function to tasks: in this process, or in processes of one thread each; ``ray_engine`` has another.

A worker that dies is replaced and its task given out again; a task with which several died is named. What functions
have stored is kept.
"""

import contextlib
import multiprocessing
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import Any

from verax.core.registry import load_plugins, loaded_plugins
from verax.core.system import ignore_ctrl_c

Tell = Callable[[Any], None]
Function = Callable[[Any, Tell], Any]
"""What is done with a task; it may tell something meanwhile, and what it returns is the result."""

TRIES = 4  # processes that may die with the same task, before it is the task's fault
_NO_TASK = object()
# libraries read these when they are loaded: a core has one worker, and a second thread would get in its way
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
# GNU's allocator hands large blocks back to the system when they are free, which then clears every page of the next
# one anew; workers, which need such blocks again and again, keep them.
_KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 25), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}


class TaskLostError(ChildProcessError):
    """Several processes have died, one after the other, with the same task."""

    def __init__(self, name: str, tries: int = TRIES) -> None:
        super().__init__(
            f"{name}: {tries} worker processes died with it, as when memory runs out. What was finished is stored; run "
            "the same again, with fewer workers or more memory."
        )


def ignore_event(event: Any) -> None:
    """Ignore an event."""


class Engine(ABC):
    """Applies a function to tasks; it is open as long as its ``with`` block, and then its workers end."""

    @abstractmethod
    def run(self, tasks: Iterable[Any], tell: Tell = ignore_event, name: Callable[[Any], str] = str) -> Iterator[Any]:
        """Yield what comes of each task, the first to finish first; a task is taken when a worker is free."""

    def __enter__(self) -> "Engine":
        return self

    @abstractmethod
    def __exit__(self, *error: object) -> None:
        """End what is still running."""


class ThisProcess(Engine):
    """Applies the function in this process, to one task after the other."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def run(self, tasks: Iterable[Any], tell: Tell = ignore_event, name: Callable[[Any], str] = str) -> Iterator[Any]:
        """Yield what comes of each task."""
        return (self.function(task, tell) for task in tasks)

    def __exit__(self, *error: object) -> None:
        """Nothing to end."""


class Processes(Engine):
    """Applies functions in processes of one thread each, which start with the first task and end with the block."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self.functions = functions
        self.workers: dict[int, _Worker] = {}

    def run(self, tasks: Iterable[Any], tell: Tell = ignore_event, name: Callable[[Any], str] = str) -> Iterator[Any]:
        """Hand out the first tasks, and yield what comes of all."""
        waiting = iter(tasks)
        first = list(islice(waiting, len(self.functions)))
        workers = [self.workers.get(number) or self._started(number) for number in range(len(first))]
        for worker, task in zip(workers, first, strict=True):  # all have started, before a send waits for the first
            worker.send(task)
        return self._results(dict(enumerate(first)), waiting, tell, name)

    def _results(
        self, running: dict[int, Any], waiting: Iterator[Any], tell: Tell, name: Callable[[Any], str]
    ) -> Iterator[Any]:
        """Receive from all workers until nothing is left."""
        deaths = dict.fromkeys(running, 0)
        while running:
            pipes: dict[Any, int] = {self.workers[number].pipe: number for number in running}
            for number in [pipes[pipe] for pipe in wait(list(pipes))]:  # which sent something or died
                try:
                    is_result, value = self.workers[number].receive()
                except _WorkerDiedError:
                    deaths[number] += 1
                    if deaths[number] == TRIES:
                        raise TaskLostError(name(running[number])) from None
                    self._started(number).send(running[number])
                    continue
                if not is_result:
                    tell(value)
                    continue
                del running[number]
                if (task := next(waiting, _NO_TASK)) is not _NO_TASK:
                    self.workers[number].send(task)
                    running[number], deaths[number] = task, 0
                yield value

    def _started(self, number: int) -> "_Worker":
        """A new worker, in place of the one that died."""
        if number in self.workers:
            self.workers[number].end()
        self.workers[number] = _Worker(self.functions[number])
        return self.workers[number]

    def __exit__(self, *error: object) -> None:
        for worker in self.workers.values():
            worker.end()


class _WorkerDiedError(ChildProcessError):
    """A worker has ended by itself."""


class _Worker:
    """A process with a pipe to this one, which ends with it."""

    def __init__(self, function: Function) -> None:
        context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
        self.pipe, far_end = context.Pipe()
        self.process = context.Process(target=_work, args=(function, loaded_plugins(), far_end), daemon=True)
        with environment(_ONE_THREAD | {name: os.environ.get(name, value) for name, value in _KEPT_MEMORY.items()}):
            self.process.start()
        far_end.close()  # so that the worker's end is the only one, and its death is noticed here

    def send(self, task: Any) -> None:
        """Send it a task; that it has died shows when it should answer."""
        with contextlib.suppress(ConnectionError):
            self.pipe.send(task)

    def receive(self) -> tuple[bool, Any]:
        """Whether it has sent a result, and what; an error of the function is raised here."""
        try:
            is_result, value = self.pipe.recv()
        except (EOFError, ConnectionError):
            raise _WorkerDiedError from None
        if isinstance(value, _Failed):
            raise value.error
        return is_result, value

    def end(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


@dataclass(frozen=True)
class _Failed:
    """Sent in place of a result."""

    error: Exception


def _work(function: Function, modules: Sequence[str], pipe: Connection) -> None:
    """What a worker does until it is ended."""
    ignore_ctrl_c()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch  # noqa: PLC0415  # who asks for the number of cores needs none of it

    torch.set_num_threads(1)
    try:
        load_plugins(modules)
        while True:
            pipe.send((True, function(pipe.recv(), lambda event: pipe.send((False, event)))))
    except Exception as error:  # whatever it is: it is raised again where the work was started
        pipe.send((True, _Failed(error)))


def _end_with_parent() -> None:
    """Die when the first process was killed: another run may begin, and must be alone with its files."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextlib.contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Variables of the environment, and then what was there before."""
    before = {name: os.environ[name] for name in variables if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
        os.environ.update(before)
