"""Workers that are actors of a Ray cluster; one that is lost, with its machine or alone, is replaced.

Which part goes to whom is our own schedule's, not Ray's: a part that costs workers again and again is named, and one
that is late is given to a second worker. The model file must be found by all machines under the same path, and so must
the lake, unless it is an object store.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from verax.datasets.array_files import first_line
from verax.lakes.engine import Crew, Finished, Lost
from verax.lakes.job import Job
from verax.lakes.score import PartScorer, Scored, Task
from verax.study.ray_engine import Cluster, connected, load_ray

_NODE = "node has died"  # what Ray says of an actor whose machine is lost; it has no type for it


@contextlib.contextmanager
def ray_actors(job: Job, cluster: Cluster, most: int) -> Iterator[Crew]:
    """A crew of actors, at most so many, which end with the block."""
    with connected(cluster):
        crew = RayActors(job, cluster, most)
        try:
            yield crew
        finally:
            crew.end()


class RayActors:
    """A crew of actors."""

    def __init__(self, job: Job, cluster: Cluster, most: int) -> None:
        self.ray = load_ray()
        on_gpu = job.model.device is not None and torch.device(job.model.device).type == "cuda"
        kind = "GPU" if on_gpu else "CPU"
        room = int(self.ray.cluster_resources().get(kind, 1)) // (1 if on_gpu else cluster.threads)
        self.size = min(most, cluster.workers or max(1, room))
        needs = {"num_cpus": cluster.threads, "num_gpus": int(on_gpu)}
        # no restarts of Ray's own: the schedule must hear of every loss
        self.kind = self.ray.remote(**needs, max_restarts=0, max_task_retries=0)(Actor)
        self.job, self.threads = job, cluster.threads
        self.actors = [self._hire() for _ in range(self.size)]
        self.answers: dict[Any, int] = {}

    def give(self, worker: int, task: Task) -> None:
        """Send a part."""
        self.answers[self.actors[worker].score.remote(task)] = worker

    def events(self, seconds: float) -> Sequence[Finished | Lost]:
        """What actors say, and who is lost."""
        ready, _ = self.ray.wait(list(self.answers), num_returns=1, timeout=seconds)
        return [self._event(answer, self.answers.pop(answer)) for answer in ready]

    def end(self) -> None:
        """End all at once."""
        for actor in self.actors:
            self.ray.kill(actor)

    def _hire(self) -> Any:
        return self.kind.remote(self.job, self.threads)

    def _event(self, answer: Any, worker: int) -> Finished | Lost:
        errors = self.ray.exceptions
        try:
            return Finished(worker, self.ray.get(answer))
        except errors.RayTaskError as error:
            raise error.cause from None
        except errors.RayActorError as error:
            self.actors[worker] = self._hire()
            return Lost(worker, f"the actor died: {first_line(error)}", _NODE in str(error))
        except errors.RayError as error:
            raise ConnectionError(f"engine: the cluster is lost: {error}") from None


class Actor:
    """What runs in an actor: the model is opened with the first part, so that what is wrong is told with it."""

    def __init__(self, job: Job, threads: int) -> None:
        self.job, self.threads = job, threads
        self.scorer: PartScorer | None = None

    def score(self, task: Task) -> Scored:
        """Score a part and store the scores."""
        torch.set_num_threads(self.threads)
        self.scorer = self.scorer or PartScorer(self.job)
        return self.scorer.score(task)
