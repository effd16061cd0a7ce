"""Checks of what models return: finite, probabilities where they should be, logits or not in a first batch."""

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from verax.core.shapes import Float, Int
from verax.core.warn import warn
from verax.scoring.adapters import Adapter
from verax.scoring.adapters.torch_module import TorchModule

_RANGE, _SUM = 1e-6, 1e-4


class ProbabilityCheck:
    """Remembers the worst of all rows seen; on a CPU what is wrong is raised at once, on a GPU when it is settled."""

    def __init__(self) -> None:
        self.worst: Tensor | None = None
        self.rounding = 0.0

    def look(self, outputs: Float[Tensor, "n outputs"], rounding: float) -> None:
        self.rounding = max(self.rounding, rounding)
        seen = extremes(outputs)
        self.worst = seen if self.worst is None else torch.maximum(self.worst, seen)
        if seen.device.type == "cpu" and not seen.isnan().any():  # NaN is reported with its row, if it matters there
            self.settle()

    def settle(self) -> None:
        if self.worst is None:
            return
        low, high, gap = self.worst.tolist()
        self.worst = None
        if math.isnan(low + high + gap):
            raise ValueError("model: expected probabilities, got NaN for some class.")
        if not _inside(-low, high, self.rounding):
            raise ValueError(
                f"model: expected probabilities, got values from {-low:.4g} to {high:.4g}; "
                'if these are logits, wrap it: verax.Scorer(model, returns="logits"); if values, returns="values".'
            )
        if gap > _slack(self.rounding):
            raise ValueError(
                f"model: expected probabilities, got rows that sum to 1 only up to {gap:.2g}. A multi-label "
                "model, with one probability for each label, is no classifier: score one label at a time, "
                'verax.Scorer(lambda x: model(x)[:, label], returns="probabilities").'
            )


def extremes(outputs: Float[Tensor, "n outputs"]) -> Float[Tensor, "3"]:
    """The smallest value, negated, the largest, and how far the sum of a row is from 1; the larger the worse."""
    low, high = outputs.aminmax()
    gap = (outputs.sum(1) - 1).abs().amax() if outputs.shape[1] > 1 else torch.zeros_like(low)
    return torch.stack((-low, high, gap))


def are_probabilities(outputs: Float[Tensor, "n outputs"], rounding: float = 0.0) -> bool:
    """Whether all values are in [0, 1] and, where there are several outputs, rows sum to 1."""
    return in_unit_interval(outputs, rounding) and float(extremes(outputs)[2]) <= _slack(rounding)


def in_unit_interval(outputs: Float[Tensor, "n outputs"], rounding: float = 0.0) -> bool:
    low, high, _ = extremes(outputs).tolist()
    return _inside(-low, high, rounding)


def resolution(raw: Any) -> float:
    """Resolution of the number format of a model's answer; 0 where it has none of its own."""
    if isinstance(raw, Tensor) and raw.is_floating_point():
        return torch.finfo(raw.dtype).eps
    if isinstance(raw, np.ndarray) and raw.dtype.kind == "f":
        return float(np.finfo(raw.dtype).eps)
    return 0.0


def _inside(low: float, high: float, rounding: float) -> bool:
    slack = max(_RANGE, rounding)
    return low >= -slack and high <= 1 + slack


def _slack(rounding: float) -> float:
    """How far a sum may be from 1: services round to a few digits, and trees are summed in single precision."""
    return max(_SUM, 8 * rounding)


_WAYS = (
    'verax.Scorer(model, returns="logits") for the logit of class 1, returns="probabilities" for its probability, '
    'returns="values" for a value such as a regression\'s'
)
_UNBOUNDED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


class OutputKindCheck:
    """Checks once whether a model's outputs are what it is taken to return."""

    def __init__(self, adapter: Adapter, stated: bool) -> None:
        open_question = not stated and adapter.returns == "logits"  # a configuration may have said that it is a value
        self.module = adapter.module if isinstance(adapter, TorchModule) and open_question else None
        self.done = self.module is None

    def judge(self, outputs: Float[Tensor, "n outputs"], rounding: float) -> None:
        """Look at the first outputs of a module that is taken to return logits by default."""
        if self.done:
            return
        if outputs.shape[1] > 1:
            self.done = True
            if are_probabilities(outputs, rounding):
                warn(
                    "The torch module is taken to return logits, but its outputs look like probabilities (in [0, 1], "
                    'rows sum to 1). If they are, wrap it: verax.Scorer(model, returns="probabilities"); if they are '
                    'logits, verax.Scorer(model, returns="logits") silences this.',
                )
            return
        last = self.module
        while type(last) is nn.Sequential and len(last):  # what a chain of layers ends with
            last = last[-1]
        if not isinstance(last, _UNBOUNDED) and in_unit_interval(outputs, rounding):  # raised for every call
            raise ValueError(
                "model: the torch module returns one number per row, all of them in [0, 1], which may be a "
                f"logit, a probability or a regression value. Say it: {_WAYS}."
            )
        self.done = True
        warn(
            "The torch module returns one number per row, which may be a logit, a probability or a regression value; "
            f"it is taken to be a logit. Say it: {_WAYS}.",
        )


Report = Callable[[Tensor, int], str]


class FiniteCheck:
    """Checks scores of a stream, one call late on a GPU, where the last call is then still running."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.waiting: deque[tuple[torch.cuda.Event, Tensor, Tensor, Tensor]] = deque()

    def now(self, scores: Float[Tensor, " rows"], owner: Int[Tensor, " rows"]) -> None:
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
        while self.waiting:
            event, fine, scores, owner = self.waiting.popleft()
            event.synchronize()
            if not fine:
                self.now(scores, owner)
