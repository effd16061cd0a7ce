"""Beside a GPU: the processor's part of the unit to come is begun, and the unit that is done is written, by threads.

Bounded: of the units to come one is begun, of those that are done one waits. On a CPU, whose cores the model needs,
units are computed and written one after the other.
"""

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TypeVar

from verax.core.worker_processes import available_cores

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
