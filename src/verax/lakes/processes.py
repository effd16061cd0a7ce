"""Workers that are processes of this machine, each with one thread or one GPU; one that dies is replaced."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection

import torch

from verax.core.threads import one_thread_on_cpu
from verax.core.worker_processes import Worker, WorkerEndedError, ready
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
        """Send a part."""
        self.members[worker].send(task)

    def events(self, seconds: float) -> Sequence[Finished | Lost]:
        """What workers say, and who has died."""
        return [self._event(self.members.index(member)) for member in ready(self.members, seconds)]

    def end(self) -> None:
        """End all at once; what they have not stored is scored anew by another run."""
        for member in self.members:
            member.end()

    def _event(self, worker: int) -> Finished | Lost:
        try:
            return Finished(worker, self.members[worker].receive())
        except WorkerEndedError as error:
            self.members[worker].end()
            self.members[worker] = _hire(self.jobs[worker])
            return Lost(worker, f"the process ended by itself, status {error.status}")


def _on_device(job: Job, number: int) -> Job:
    """The job of one worker: with several GPUs, each has its own."""
    count = torch.cuda.device_count() if job.model.device == "cuda" else 0
    if count < 2:
        return job
    return replace(job, model=replace(job.model, device=f"cuda:{number % count}"))


def _hire(job: Job) -> Worker:
    return Worker(_work, job, environment=_ONE_THREAD)


def _work(pipe: Connection, job: Job) -> None:
    """What a worker does until it is killed."""
    scorer = PartScorer(job)
    while True:
        pipe.send(scorer.score(pipe.recv()))
