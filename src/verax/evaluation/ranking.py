"""Attributions from best to worst under one metric, and which are not told apart from the best: paired over inputs."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from verax.metrics.result import Result
from verax.statistics.intervals import LEVEL, Estimate
from verax.statistics.paired import paired_differences
from verax.statistics.ranks import tied


def best_first(result: Result) -> list[int]:
    """Places of the attributions by their means, the best first; those equal but for rounding as they were given."""
    means = tied(np.array(result.scores.double().mean(1).tolist()), result.rounding)
    sign = -1 if result.metric.higher_is_better else 1
    return sorted(range(len(means)), key=lambda place: sign * means[place])


def not_told_apart(result: Result, level: float = LEVEL) -> list[int]:
    """Places of the best attribution and of all whose paired difference to it may be zero, in that order.

    Example:
        >>> import torch, verax
        >>> x = torch.randn(9, 4)
        >>> found = verax.metrics.PredictionChange()(verax.Problem(torch.nn.Linear(4, 2), x), {"a": x, "twice": 2 * x})
        >>> not_told_apart(found)
        [0, 1]
    """
    best, *rest = best_first(result)
    scores = result.scores
    found = paired_differences(scores[best], scores[rest], level, result.rounding) if rest else []
    return [best, *(place for place, difference in zip(rest, found, strict=True) if difference.may_be_zero)]


NOT_TOLD_APART = "not told apart"


@dataclass(frozen=True)
class Difference(Estimate):
    """Two attributions under one metric, on the same inputs: the mean over inputs of first minus second.

    Attributes:
        first: Name of the first attribution.
        second: Name of the second.
        metric: What was compared.
        higher_is_better: The direction of the metric.
    """

    first: str
    second: str
    metric: str
    higher_is_better: bool

    @property
    def told_apart(self) -> bool:
        """Whether the interval leaves out 0."""
        return not self.may_be_zero

    @property
    def word(self) -> str:
        """The first one is ``"better"`` or ``"worse"``; ``"not told apart"`` where the interval contains 0."""
        if self.may_be_zero:
            return NOT_TOLD_APART
        return "better" if (self.mean > 0) == self.higher_is_better else "worse"

    @property
    def size(self) -> str:
        """How large it is, whichever way, with its interval."""
        size = self if self.mean > 0 else Estimate(-self.mean, self.standard_error, -self.high, -self.low)
        return Estimate.__str__(size)

    def __str__(self) -> str:
        if self.word == NOT_TOLD_APART:
            return f"{self.first} and {self.second} are {NOT_TOLD_APART}: {super().__str__()}"
        return f"{self.first} is {self.word} than {self.second} by {self.size}"


def all_pairs(result: Result, metric: str, level: float) -> Iterator[Difference]:
    """Every pair of attributions, the earlier one first, each with its paired t interval over inputs."""
    higher = bool(result.metric.higher_is_better)
    for place, first in enumerate(result.labels):
        others = result.labels[place + 1 :]
        rest = result.scores[place + 1 :]
        found = paired_differences(result.scores[place], rest, level, result.rounding) if others else []
        for second, one in zip(others, found, strict=True):
            yield Difference(**vars(one), first=first, second=second, metric=metric, higher_is_better=higher)
