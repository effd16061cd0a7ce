"""Which worker scores which part: the largest parts first, lost ones again, late ones twice.

It knows neither processes nor clusters, and is told the time: a simulation runs the same code as a cluster.
"""

import statistics
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

PATIENCE = 3.0
RETRIES = 3


@dataclass(frozen=True)
class Running:
    """A part in the hands of a worker, and since when."""

    part: str
    began: float


class Schedule:
    """Hands parts out and keeps count.

    A part that takes ``patience`` times as long as its rows let expect, while nobody else has anything to do, is given
    to a second worker as well: whoever is first counts. Both write the same bytes under the same name, so that the
    other one does no harm.

    Args:
        rows: The parts that are to be scored, with their rows.
        patience: How many times the usual pace a part may take.
        retries: How many workers may be lost by themselves, on machines that go on, with one part before it is given
            up: it must be the part's fault then.

    Example:
        >>> schedule = Schedule({"small": 10, "large": 99})
        >>> schedule.next("first worker", now=0.0), schedule.next("second worker", now=0.0)
        ('large', 'small')
        >>> schedule.lost("first worker"), schedule.next("third worker", now=1.0)
        ('large', 'large')
    """

    def __init__(self, rows: Mapping[str, int], patience: float = PATIENCE, retries: int = RETRIES) -> None:
        self.rows = dict(rows)
        self.patience, self.retries = patience, retries
        # a large part that begins last would keep all others waiting
        self.waiting = deque(sorted(self.rows, key=lambda part: -self.rows[part]))
        self.running: dict[object, Running] = {}
        self.done: set[str] = set()
        self.losses: Counter[str] = Counter()
        self._paces: list[float] = []  # seconds per row of finished parts

    @property
    def finished_all(self) -> bool:
        """Whether nothing is left to do."""
        return len(self.done) == len(self.rows)

    def next(self, worker: object, now: float) -> str | None:
        """The part that an idle worker is to score; None where there is nothing for it now."""
        part = self.waiting.popleft() if self.waiting else self._late(now)
        if part is not None:
            self.running[worker] = Running(part, now)
        return part

    def finished(self, worker: object, now: float) -> bool:
        """Note that a worker has stored its part; False where another one was faster."""
        own = self.running.pop(worker)
        if own.part in self.done:
            return False
        self.done.add(own.part)
        self._paces.append((now - own.began) / max(1, self.rows[own.part]))
        return True

    def lost(self, worker: object, with_machine: bool = False) -> str:
        """Note that a worker is no more; its part, if nobody else has it, is the next one to be handed out.

        Args:
            worker: Who.
            with_machine: Whether its machine was lost, for which the part cannot be blamed.
        """
        part = self.running.pop(worker).part
        self.losses[part] += not with_machine
        if part not in self.done and all(other.part != part for other in self.running.values()):
            self.waiting.appendleft(part)
        return part

    def given_up(self, part: str) -> bool:
        """Whether a part has cost so many workers that it must be its fault."""
        return self.losses[part] > self.retries

    def seconds_left(self, workers: int) -> float | None:
        """The time that is left at the usual pace, not counting what running parts have behind them."""
        if not self._paces:
            return None
        left = sum(count for part, count in self.rows.items() if part not in self.done)
        return left * statistics.median(self._paces) / workers

    def _late(self, now: float) -> str | None:
        """The part, in the hands of one worker alone, that is latest against the pace of the others."""
        if not self._paces:
            return None
        pace = statistics.median(self._paces)
        copies = Counter(own.part for own in self.running.values())
        late = {
            own.part: (now - own.began) / max(1, self.rows[own.part])
            for own in self.running.values()
            if copies[own.part] == 1 and own.part not in self.done
        }
        worst = max(late, key=lambda part: late[part], default=None)
        return worst if worst is not None and late[worst] > self.patience * pace else None
