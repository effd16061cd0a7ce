"""Means of squares over random draws, with an interval that stays honest where a few draws carry nearly all."""

import torch
from torch import Tensor

from verax.core.shapes import Bool, Float
from verax.statistics.intervals import t_quantile

_HEAVY = 6  # draws over those that carry an effect; 3 where it is normal
_FEW = 40  # that carry an effect: more show how it is spread, however heavy its tail


def carrying(effects: Float[Tensor, "n draws"]) -> Float[Tensor, " n"]:
    """How many draws carry an effect S, ``sum(S^2)^2 / sum(S^4)``: one if it is one draw's alone, all if all are equal.

    It is called the participation ratio, or the effective sample size of weights; 0 where nothing happens.

    Args:
        effects: The effect of each draw.

    Example:
        >>> carrying(torch.tensor([[0.0, 0.0, 0.0, 3.0], [1.0, -1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])).tolist()
        [1.0, 4.0, 0.0]
    """
    size = effects.abs().amax(1, keepdim=True)
    squares = (effects / torch.where(size > 0, size, 1)).square()  # the fourth power of 1e-80 would be 0
    fourth = squares.square().sum(1)
    return squares.sum(1).square() / torch.where(fourth > 0, fourth, 1)


def rests_on_few(carried: Float[Tensor, " n"], draws: int) -> Bool[Tensor, " n"]:
    """Whether so few draws carry an effect that others may carry more, as where a model is sure of an input."""
    return (carried < _FEW) & (carried * _HEAVY < draws)


def mean_square_interval(
    mean: Float[Tensor, "k n"],
    error: Float[Tensor, "k n"],
    carried: Float[Tensor, " n"],
    draws: int,
    most: float,
    level: float,
) -> tuple[Float[Tensor, "k n"], Float[Tensor, "k n"]]:
    """Where a mean of squares would lie with endless draws.

    Squares are skewed, and from few draws their spread comes out too small. So the interval is one of Student's t for
    the logarithm, with its upper part longer by the relative error. Where the effect rests on few draws, the mean may
    hang on draws that none of these is like. What n draws have not shown has a probability of at most ``1 - (alpha /
    2)^(1 / n)`` (the rule of three: Hanley and Lippman-Hand 1983); that much, times the largest square there can be, is
    added to the upper end.

    Args:
        mean: Means over draws.
        error: Their standard errors.
        carried: How many draws carry the effect of each input (``carrying``).
        draws: How many there are.
        most: The largest effect there can be; infinity where there is no bound.
        level: Share of such intervals that hold the mean.
    """
    relative = torch.where(mean > 0, error / mean, torch.zeros_like(error))
    reach = t_quantile((1 + level) / 2, draws - 1) * relative
    unseen = 1 - ((1 - level) / 2) ** (1 / draws)
    doubt = torch.where(rests_on_few(carried, draws), most**2 * unseen, 0.0)
    return mean * (-reach).exp(), mean * (reach * (1 + relative)).exp() + doubt
