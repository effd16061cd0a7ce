"""Worker processes: started anew, with a pipe to this process and one thread, and ended with it.

What a worker does, and how work is handed out, is the business of whoever starts it.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

TRIES = 4  # processes that may die with the same task, before it is the task's fault
_NO_TASK = object()


class WorkerEndedError(ChildProcessError):
    """A worker has ended by itself; ``status`` is that of its process, below 0 for a signal."""

    def __init__(self, status: int | None) -> None:
        super().__init__(f"a worker process ended by itself (status {status})")
        self.status = status


class TaskLostError(ChildProcessError):
    """Several processes have died, one after the other, with the same ``task``."""

    def __init__(self, task: Any) -> None:
        super().__init__(f"{TRIES} worker processes died with the same task")
        self.task = task


class Worker:
    """A process that works for this one."""

    def __init__(self, work: Callable[..., None], *arguments: Any, environment: Mapping[str, str]) -> None:
        context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
        self.pipe, far_end = context.Pipe()
        self.process = context.Process(target=_run, args=(work, arguments, far_end), daemon=True)
        before = {name: os.environ[name] for name in environment if name in os.environ}
        os.environ.update(environment)
        try:
            self.process.start()
        finally:
            for name in environment:
                del os.environ[name]
            os.environ.update(before)
        far_end.close()  # so that the worker's end is the only one, and its death is noticed here

    def send(self, message: Any) -> None:
        """Send it something; that it has ended shows when it should answer, after what it had to say."""
        with contextlib.suppress(ConnectionError):
            self.pipe.send(message)

    def receive(self) -> Any:
        """What it has sent; an error that ended its work is raised, and so is its death."""
        try:
            said = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            raise WorkerEndedError(self.process.exitcode) from None
        if isinstance(said, Exception):
            raise said
        return said

    def end(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def ready(workers: Sequence[Worker], seconds: float | None = None) -> list[Worker]:
    """Wait until some have sent something or have ended, but no longer than this, and return them."""
    found = set(wait([worker.pipe for worker in workers], seconds))
    return [worker for worker in workers if worker.pipe in found]


def run_tasks(
    functions: Sequence[Callable[[Any], Any]],
    tasks: Iterable[Any],
    environment: Mapping[str, str],
) -> Iterator[Any]:
    """Apply functions, each in a process of its own, to tasks; yields what comes back, the first to finish first.

    A task is taken when a process is free. A process that dies is replaced, and its task given to the next one; a task
    with which several died is a ``TaskLostError``.
    """
    waiting = iter(tasks)
    running: dict[Worker, tuple[int, Any, int]] = {}  # number, task, and how many processes died with it
    with contextlib.ExitStack() as stack:

        def started(number: int) -> Worker:
            worker = Worker(_apply, functions[number], environment=environment)
            stack.callback(worker.end)
            return worker

        workers = [started(number) for number in range(len(functions))]  # all, before a send waits for the first
        for (number, worker), task in zip(enumerate(workers), waiting, strict=False):
            worker.send(task)
            running[worker] = number, task, 0
        while running:
            for worker in ready(list(running)):
                number, task, deaths = running.pop(worker)
                successor = worker
                try:
                    yield worker.receive()
                    task, deaths = next(waiting, _NO_TASK), 0
                except WorkerEndedError:
                    if deaths + 1 == TRIES:
                        raise TaskLostError(task) from None
                    successor, deaths = started(number), deaths + 1
                if task is not _NO_TASK:
                    successor.send(task)
                    running[successor] = number, task, deaths


def _apply(pipe: Connection, function: Callable[[Any], Any]) -> None:
    while True:
        pipe.send(function(pipe.recv()))


def _run(work: Callable[..., None], arguments: tuple[Any, ...], pipe: Connection) -> None:
    """What runs in a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the first one decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch  # noqa: PLC0415  # who asks for the number of cores needs none of it

    torch.set_num_threads(1)
    try:
        work(pipe, *arguments)
    except Exception as error:  # whatever it is: it is raised again where the work was started
        pipe.send(error)


def _end_with_parent() -> None:
    """Die when the first process was killed: another run may begin, and must be alone with its files."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def available_cores() -> int:
    """The cores that this process may use, which can be fewer than the machine has."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
