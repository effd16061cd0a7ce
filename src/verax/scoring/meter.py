"""What work cost: model rows, forward and backward, and seconds; counted by a model's sessions, read by a meter."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from verax.core.arrays import wait_for


@dataclass(frozen=True)
class Rows:
    """Model rows.

    Attributes:
        forward: Rows evaluated.
        backward: Those of them through which gradients are taken.
    """

    forward: int
    backward: int = 0

    def __add__(self, other: "Rows") -> "Rows":
        return Rows(self.forward + other.forward, self.backward + other.backward)

    @property
    def total(self) -> int:
        """Forward and backward rows together."""
        return self.forward + self.backward


@dataclass(frozen=True)
class Cost:
    """What work cost.

    Attributes:
        rows: Model rows.
        seconds: Wall-clock time.
    """

    rows: Rows = Rows(0)
    seconds: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.rows + other.rows, self.seconds + other.seconds)


@dataclass
class Counts:
    """What the sessions of a model have done so far in one thread.

    Attributes:
        rows: Rows evaluated.
        rows_backward: Rows through which gradients were taken.
        rows_spared: Rows that were not evaluated, because an identical one was.
        model_seconds: Wall clock inside the model; only on a CPU, where calls return when they are done.
        after_batch: Called after every batch, for whoever shows progress.
    """

    rows: int = 0
    rows_backward: int = 0
    rows_spared: int = 0
    model_seconds: float = 0.0
    after_batch: Callable[[], None] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Mark:
    """A moment in a model's work. On a GPU it is put into the queue, so that the host need not wait for it."""

    rows: Rows
    seconds: float
    event: torch.cuda.Event | None = None

    @classmethod
    def of(cls, counts: Counts, device: torch.device) -> "Mark":
        event = None
        if device.type == "cuda":
            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            event.record(torch.cuda.current_stream(device))
        return cls(Rows(counts.rows, counts.rows_backward), time.perf_counter(), event)

    def since(self, before: "Mark") -> Cost:
        """The cost since another mark; on a GPU this waits until it got here."""
        rows = Rows(self.rows.forward - before.rows.forward, self.rows.backward - before.rows.backward)
        if self.event is None or before.event is None:
            return Cost(rows, self.seconds - before.seconds)
        self.event.synchronize()
        return Cost(rows, before.event.elapsed_time(self.event) / 1000)


class Meter:
    """Rows and seconds since the last reading, and in all."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.start = self.last = self._now()

    def read(self, device: torch.device | None = None) -> Cost:
        """The cost since the last reading; work queued on the device is waited for."""
        wait_for(device)
        before, self.last = self.last, self._now()
        return self.last.since(before)

    def total(self) -> Cost:
        return self._now().since(self.start)

    def _now(self) -> Mark:
        return Mark.of(self.counts, torch.device("cpu"))
