"""Probabilities: every row that a model returns as such is checked, without making the host wait for a GPU."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from verax.core.shapes import Float

_RANGE, _SUM = 1e-6, 1e-4


class ProbabilityCheck:
    """Remembers the worst of all rows seen; on a CPU what is wrong is raised at once, on a GPU when it is settled."""

    def __init__(self) -> None:
        self.worst: Tensor | None = None
        self.rounding = 0.0

    def look(self, outputs: Float[Tensor, "n outputs"], rounding: float) -> None:
        """Look at rows that were returned as probabilities.

        Args:
            outputs: The rows.
            rounding: Resolution of the number format in which the model computed them.
        """
        self.rounding = max(self.rounding, rounding)
        seen = extremes(outputs)
        self.worst = seen if self.worst is None else torch.maximum(self.worst, seen)
        if seen.device.type == "cpu" and not seen.isnan().any():  # NaN is reported with its row, if it matters there
            self.settle()

    def settle(self) -> None:
        """Raise if any row seen so far is not one of probabilities."""
        if self.worst is None:
            return
        low, high, gap = self.worst.tolist()
        self.worst = None
        _refuse(-low, high, gap, self.rounding)


def extremes(outputs: Float[Tensor, "n outputs"]) -> Float[Tensor, "3"]:
    """The smallest value, negated, the largest, and how far the sum of a row is from 1; the larger the worse."""
    low, high = outputs.aminmax()
    gap = (outputs.sum(1) - 1).abs().amax() if outputs.shape[1] > 1 else torch.zeros_like(low)
    return torch.stack((-low, high, gap))


def are_probabilities(outputs: Float[Tensor, "n outputs"], rounding: float = 0.0) -> bool:
    """Whether all values are in [0, 1] and, where there are several outputs, rows sum to 1.

    Example:
        >>> are_probabilities(torch.tensor([[0.2, 0.8]])), are_probabilities(torch.tensor([[0.9, 0.8]]))
        (True, False)
    """
    low, high, gap = extremes(outputs).tolist()
    return _inside(-low, high, rounding) and gap <= _slack(rounding)


def in_unit_interval(outputs: Float[Tensor, "n outputs"], rounding: float = 0.0) -> bool:
    """Whether all values are in [0, 1]."""
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


def _refuse(low: float, high: float, gap: float, rounding: float) -> None:
    if math.isnan(low + high + gap):
        raise ValueError("model: said to return probabilities, but returned NaN for some class.")
    if not _inside(low, high, rounding):
        raise ValueError(
            f"model: said to return probabilities, but returned values from {low:.4g} to {high:.4g}; "
            'if these are logits, wrap it: verax.Scorer(model, returns="logits"); if values, returns="values".'
        )
    if gap > _slack(rounding):
        raise ValueError(
            f"model: said to return probabilities, but those of a row sum to 1 only up to {gap:.2g}. A multi-label "
            "model, with one probability for each label, is no classifier: score one label at a time, "
            'verax.Scorer(lambda x: model(x)[:, label], returns="probabilities").'
        )
