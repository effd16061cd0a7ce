"""The loop that keeps workers busy: processes of this machine, actors of a cluster, or those of a simulation."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from verax.lakes.schedule import Schedule
from verax.lakes.score import Scored, Task

_LOOK_AGAIN = 1.0  # seconds after which idle workers look whether a part is late


@dataclass(frozen=True)
class Finished:
    """A worker has stored its part."""

    worker: int
    scored: Scored


@dataclass(frozen=True)
class Lost:
    """A worker is no more, alone or with its machine; another one has taken its place and number."""

    worker: int
    reason: str
    with_machine: bool = False


@runtime_checkable
class Crew(Protocol):
    """Workers, by number."""

    size: int

    def give(self, worker: int, task: Task) -> None:
        """Have an idle worker score a part."""

    def events(self, seconds: float) -> Sequence[Finished | Lost]:
        """Wait for something to happen, but no longer than this; what went wrong in a part is raised."""


def run_tasks(
    tasks: Mapping[str, Task],
    crew: Crew,
    schedule: Schedule,
    done: Callable[[Scored], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Have a crew score parts until all are done.

    Args:
        tasks: The parts by name.
        crew: Who scores them.
        schedule: Says who scores what; of the same names.
        done: Told of each part, once.
        clock: The time in seconds.
    """
    idle = set(range(crew.size))
    while not schedule.finished_all:
        for worker in sorted(idle):
            part = schedule.next(worker, clock())
            if part is None:
                break
            crew.give(worker, tasks[part])
            idle.remove(worker)
        for event in crew.events(_LOOK_AGAIN):
            if event.worker in idle:  # lost while it had nothing to do
                continue
            idle.add(event.worker)
            if isinstance(event, Finished):
                if schedule.finished(event.worker, clock()):
                    done(event.scored)
            elif schedule.given_up(part := schedule.lost(event.worker, event.with_machine)):
                raise ChildProcessError(
                    f"{tasks[part].inputs.address}: {schedule.losses[part]} workers were lost while they scored it "
                    f"({event.reason}). What was finished is stored; look at this part, or at the memory of the "
                    "machine, and run the same command again."
                )
