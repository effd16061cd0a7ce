"""Workers that are processes of this machine, each with one thread or one GPU; one that dies is replaced."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch

from verax.core.threads import one_thread_on_cpu
from verax.lakes.engine import Crew, Finished, Lost
from verax.lakes.job import Job
from verax.lakes.score import PartScorer, Task

# libraries read these when they are loaded: a core has one worker, and a second thread would be in another's way
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}


@contextlib.contextmanager
def processes(job: Job, workers: int) -> Iterator[Crew]:
    """A crew of processes, which end with the block; one worker alone works in this process."""
    if workers == 1:
        with one_thread_on_cpu(job.model.device or "cpu"):
            yield OneWorker(job)
        return
    crew = Processes(job, workers)
    try:
        yield crew
    finally:
        crew.end()


class OneWorker:
    """A crew of one, which is this process."""

    size = 1

    def __init__(self, job: Job) -> None:
        self.scorer = PartScorer(job)
        self.task: Task | None = None

    def give(self, worker: int, task: Task) -> None:
        """Have the part scored by and by."""
        self.task = task

    def events(self, seconds: float) -> Sequence[Finished | Lost]:
        """Score the part."""
        assert self.task is not None  # noqa: S101  # the loop gives one, or ends
        return [Finished(0, self.scorer.score(self.task))]


class Processes:
    """A crew of processes."""

    def __init__(self, job: Job, workers: int) -> None:
        self.size = workers
        self.jobs = [_on_device(job, number) for number in range(workers)]
        self.members = [_hire(own) for own in self.jobs]

    def give(self, worker: int, task: Task) -> None:
        """Send a part; that the worker is no more shows when it should answer."""
        with contextlib.suppress(ConnectionError):
            self.members[worker][0].send(task)

    def events(self, seconds: float) -> Sequence[Finished | Lost]:
        """What workers say, and who has died."""
        numbers = {pipe: number for number, (pipe, _) in enumerate(self.members)}
        ready = wait(list(numbers), seconds)
        return [self._event(numbers[pipe]) for pipe in numbers if pipe in ready]

    def end(self) -> None:
        """End all at once; what they have not stored is scored anew by another run."""
        for pipe, process in self.members:
            process.kill()
            process.join()
            pipe.close()

    def _event(self, worker: int) -> Finished | Lost:
        pipe, process = self.members[worker]
        try:
            said = pipe.recv()
        except (EOFError, ConnectionError):
            process.join()
            pipe.close()
            self.members[worker] = _hire(self.jobs[worker])
            return Lost(worker, f"the process ended by itself, status {process.exitcode}")
        if isinstance(said, Exception):
            raise said
        return Finished(worker, said)


def _on_device(job: Job, number: int) -> Job:
    """The job of one worker: with several GPUs, each has its own."""
    count = torch.cuda.device_count() if job.model.device == "cuda" else 0
    if count < 2:
        return job
    return replace(job, model=replace(job.model, device=f"cuda:{number % count}"))


def _hire(job: Job) -> tuple[Connection, BaseProcess]:
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    pipe, far_end = context.Pipe()
    process = context.Process(target=_work, args=(job, far_end), daemon=True)
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        process.start()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    far_end.close()  # so that the worker's end is the only one, and its death is noticed here
    return pipe, process


def _work(job: Job, pipe: Connection) -> None:
    """What a worker does until it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the first one decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    try:
        scorer = PartScorer(job)
        while True:
            pipe.send(scorer.score(pipe.recv()))
    except Exception as error:  # whatever it is: it is raised again where the work was started
        pipe.send(error)


def _end_with_parent() -> None:
    """Die when the first process was killed: nobody waits for the scores."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
