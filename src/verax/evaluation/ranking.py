"""Attributions from best to worst under one metric, and which are not told apart from the best: paired over inputs."""

import numpy as np

from verax.metrics.result import Result
from verax.statistics.intervals import LEVEL
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
