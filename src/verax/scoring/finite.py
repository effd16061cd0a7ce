"""Scores that are not finite: found without making the host wait for an accelerator's queue to run empty."""

from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

from verax.core.shapes import Float, Int

Report = Callable[[Tensor, int], str]


class FiniteCheck:
    """Checks scores that are computed in a stream, one call late on a GPU, where the last call is then still running.

    Args:
        report: Makes the message from a score that is not finite and the number of its input.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self.waiting: deque[tuple[torch.cuda.Event, Tensor, Tensor, Tensor]] = deque()

    def now(self, scores: Float[Tensor, " rows"], owner: Int[Tensor, " rows"]) -> None:
        """Raise if a score is not finite."""
        bad = (~torch.isfinite(scores)).nonzero()
        if len(bad):
            first = bad[0, 0]
            raise ValueError(self.report(scores[first], int(owner[first])))

    def later(self, scores: Float[Tensor, " rows"], owner: Int[Tensor, " rows"]) -> None:
        """Raise for the scores of the call before; those of this one are looked at by the next call or at the end."""
        if scores.device.type != "cuda":
            self.now(scores, owner)
            return
        fine = torch.empty((), dtype=torch.bool, pin_memory=True)
        fine.copy_(torch.isfinite(scores).all(), non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(scores.device))
        self.settle()
        self.waiting.append((event, fine, scores, owner))

    def settle(self) -> None:
        """Look at all that waits."""
        while self.waiting:
            event, fine, scores, owner = self.waiting.popleft()
            event.synchronize()
            if not fine:
                self.now(scores, owner)
