"""Shares of inputs with an interval."""

import math
from statistics import NormalDist

from torch import Tensor

from verax.core.shapes import Shaped
from verax.statistics.intervals import LEVEL, Estimate


def proportion(hits: Shaped[Tensor, " n"], level: float = LEVEL) -> Estimate:
    """The share of inputs that are hits, with Wilson's interval, which holds for few inputs and for shares near 0 or 1.

    Args:
        hits: One truth value per input.
        level: Coverage of the interval.

    Example:
        >>> import torch
        >>> print(proportion(torch.tensor([True, True, True, False])))
        0.75 [0.30, 0.95]
    """
    count = len(hits)
    if count == 0:
        return Estimate(math.nan, math.nan, math.nan, math.nan)
    share, z = float(hits.double().mean()), NormalDist().inv_cdf((1 + level) / 2)
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    error = math.sqrt(share * (1 - share) / count)
    reach = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return Estimate(share, error, min(share, middle - reach), max(share, middle + reach))
