"""Ratios of two means over the same inputs, with an interval."""

import math

import torch
from torch import Tensor

from verax.core.shapes import Float
from verax.statistics.intervals import LEVEL, Estimate, t_quantile


def ratios_of_means(parts: Float[Tensor, "k n"], whole: Float[Tensor, " n"], level: float = LEVEL) -> list[Estimate]:
    """Mean of a part over the mean of the whole, for each of several parts.

    The mean of each input's ratio would hang on inputs whose whole is near 0; here they count little. The interval is
    Student's t on the residuals ``part - ratio * whole`` (the classical ratio estimator: Cochran, Sampling Techniques,
    chapter 6).

    Args:
        parts: One row per ratio, one column per input.
        whole: What they are parts of.
        level: Coverage of the intervals.

    Example:
        >>> print(ratios_of_means(torch.tensor([[1.0, 2.0, 3.5]]), torch.tensor([2.0, 4.0, 6.0]))[0])
        0.54 [0.40, 0.68]
    """
    parts, whole = parts.double().cpu(), whole.double().cpu()
    count, mean = len(whole), float(whole.mean()) or math.nan
    ratio = parts.mean(1) / mean
    if count < 2:
        return [Estimate(one, math.nan, math.nan, math.nan) for one in ratio.tolist()]
    residual = parts - ratio[:, None] * whole
    error = residual.square().sum(1).div(count - 1).sqrt() / (count**0.5 * abs(mean))
    reach = error * t_quantile((1 + level) / 2, count - 1)
    return [Estimate(*row) for row in torch.stack((ratio, error, ratio - reach, ratio + reach), dim=1).tolist()]
