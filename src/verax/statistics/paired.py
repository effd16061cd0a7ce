"""Two attributions on the same inputs: is one better? Differences are paired, input by input."""

import math

import torch
from torch import Tensor

from verax.core.shapes import Float
from verax.statistics.intervals import LEVEL, Estimate, estimates

_ROUNDING = 1e-6  # of a score; models compute in single precision


def paired_difference(
    first: Float[Tensor, " n"], second: Float[Tensor, " n"], level: float = LEVEL, rounding: float = 0.0
) -> Estimate:
    """The mean of first minus second, with the interval of the paired t-test.

    Scores that differ by no more than rounding (a millionth) count as equal: a bias of the last digit is no difference,
    however regular. One input shows no spread, so that its interval is not a number.

    Args:
        first: Scores of one attribution.
        second: Scores of the other on the same inputs.
        level: Coverage of the interval.
        rounding: A difference that counts as none as well, where scores near 0 are rounding themselves.

    Example:
        >>> print(paired_difference(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, 1.5, 2.5])))
        0.5 [0.5, 0.5]
    """
    return paired_differences(first, second[None], level, rounding)[0]


def paired_differences(
    first: Float[Tensor, " n"], others: Float[Tensor, "k n"], level: float = LEVEL, rounding: float = 0.0
) -> list[Estimate]:
    """The same for one against each of several others."""
    return estimates(real_differences(first, others, rounding), level=level)


def paired_p_values(first: Float[Tensor, " n"], others: Float[Tensor, "k n"], rounding: float = 0.0) -> list[float]:
    """Two-sided p-values of the paired t-tests of one against each of several others; NaN of one input.

    Example:
        >>> scores = torch.tensor([1.0, 2.0, 3.0, 4.0])
        >>> found = paired_p_values(scores, torch.stack((scores, scores - 1, scores.flip(0))))
        >>> [round(p, 3) for p in found]
        [1.0, 0.0, 1.0]
    """
    from scipy.special import stdtr  # noqa: PLC0415  # to keep ``import verax`` light

    differences = real_differences(first, others, rounding)
    count = differences.shape[1]
    if count < 2:
        return [math.nan] * len(differences)
    mean, error = differences.mean(1), differences.std(1) / count**0.5
    ratio = torch.where(mean == 0, 0.0, mean.abs() / error)  # infinite where all differences are the same
    found: list[float] = (2 * stdtr(count - 1, -ratio.numpy())).tolist()
    return found


def real_differences(
    first: Float[Tensor, " n"], others: Float[Tensor, "k n"], rounding: float = 0.0
) -> Float[Tensor, "k n"]:
    """First minus each of the others, input by input; 0 where they differ by no more than rounding.

    Example:
        >>> real_differences(torch.tensor([1.0, 2.0]), torch.tensor([[1.0 + 1e-7, 1.0]])).tolist()
        [[0.0, 1.0]]
    """
    first, others = first.double().cpu(), others.double().cpu()
    difference = first - others
    same = difference.abs() <= (_ROUNDING * torch.maximum(first.abs(), others.abs())).clamp(min=rounding)
    return torch.where(same, 0.0, difference)
