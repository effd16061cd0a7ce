"""Kendall's tau: how far do two rankings of the same things agree, and would they with other inputs?"""

import math

import torch
from torch import Tensor

from verax.core.blocks import pieces
from verax.core.shapes import Float
from verax.statistics.bootstrap import resampled_means
from verax.statistics.intervals import LEVEL, Estimate, resampled_estimate

_TOGETHER = 1 << 22  # comparisons at once


def kendall(first: Float[Tensor, "*batch k"], second: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch"]:
    """Kendall's tau-b: pairs that are ordered alike minus pairs that are not, as a share; ties count for neither.

    1 where both rank alike, -1 where one is the other upside down, not a number where one of them has no order.

    Example:
        >>> kendall(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0])).item()  # one pair of three turns
        0.3333333333333333
    """
    pairs = torch.triu_indices(first.shape[-1], first.shape[-1], offset=1)
    one, other = ((values[..., pairs[0]] - values[..., pairs[1]]).sign().double() for values in (first, second))
    return (one * other).sum(-1) / (one.abs().sum(-1) * other.abs().sum(-1)).sqrt()


def rank_agreement(
    first: Float[Tensor, "k n"],
    second: Float[Tensor, "k n"],
    level: float = LEVEL,
    resamples: int = 1000,
    seed: int = 0,
) -> Estimate:
    """Kendall's tau of the means of two tables of scores, with a percentile bootstrap over their common inputs.

    Args:
        first: One row for each thing that is ranked, one column per input.
        second: The same things and inputs, measured otherwise.
        level: Coverage of the interval.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.

    Example:
        >>> scores = torch.arange(5.0)[:, None] + torch.zeros(5, 9)
        >>> print(rank_agreement(scores, -scores))
        -1 [-1, -1]
    """
    first, second = first.double().cpu(), second.double().cpu()
    tau = float(kendall(first.mean(1), second.mean(1)))
    if first.shape[1] < 2:  # one input says nothing about others
        return Estimate(tau, math.nan, math.nan, math.nan)
    means = resampled_means(torch.cat((first, second)), resamples, seed)
    parts = pieces(resamples, max(1, _TOGETHER // len(first) ** 2))
    taus = [kendall(*means[part].chunk(2, dim=1)) for part in parts]
    return resampled_estimate(tau, torch.cat(taus), level)
