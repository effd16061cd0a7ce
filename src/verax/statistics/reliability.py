"""Reliability: do inputs agree on how attributions rank? That is agreement of a metric with itself, not its truth."""

import math

import numpy as np
import torch
from torch import Tensor

from verax.core import noise
from verax.core.shapes import Float
from verax.statistics.bootstrap import resampled_means
from verax.statistics.intervals import LEVEL, Estimate, resampled_estimate
from verax.statistics.ranks import spearman

_RESAMPLES, _SPLITS = 1000, 100


def krippendorff_alpha(scores: Float[Tensor, "k n"], level: float = LEVEL, seed: int = 0) -> Estimate:
    """Krippendorff's alpha: inputs are the raters, attributions are rated, and ratings are ranks within an input.

    ``1 - observed / expected disagreement`` with squared differences of ranks; ties share their mean rank. 1 where all
    inputs rank alike, 0 where they rank as by chance. Without ties that is the ordinal alpha. The interval resamples
    inputs. NaN where there is one attribution, one input, or all are tied.

    Source: Krippendorff, Computing Krippendorff's alpha-reliability, 2011; for inputs as raters: Tomsett et al., Sanity
    checks for saliency metrics, AAAI 2020.

    Args:
        scores: One per attribution and input.
        level: Coverage of the interval.
        seed: Of the resampling.

    Example:
        >>> print(krippendorff_alpha(torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])).mean)
        1.0
    """
    from scipy.stats import rankdata  # noqa: PLC0415  # to keep ``import verax`` light

    kinds, count = scores.shape
    if kinds < 2 or count < 2:
        return Estimate(math.nan, math.nan, math.nan, math.nan)
    ranks = torch.from_numpy(rankdata(scores.double().cpu().numpy(), axis=0))
    both = torch.cat((ranks, ranks.square()))
    alpha = _alpha(both.mean(1)[None], count)
    return resampled_estimate(float(alpha), _alpha(resampled_means(both, _RESAMPLES, seed), count), level)


def _alpha(means: Float[Tensor, "r moments"], count: int) -> Float[Tensor, " r"]:
    """Alpha from means of ranks and of their squares: the disagreement within a column is twice its variance."""
    first, second = means.chunk(2, dim=1)
    total = first.shape[1] * count
    within = (second - first.square()).mean(1) * count / (count - 1)
    overall = (second.mean(1) - first.mean(1).square()) * total / (total - 1)
    return torch.where(overall > 1e-12, 1 - within / overall.clamp(min=1e-12), torch.nan)


def split_half_agreement(scores: Float[Tensor, "k n"], level: float = LEVEL, seed: int = 0) -> Estimate:
    """Rank correlation of the attributions' mean scores on one half of the inputs and on the other.

    The mean over a hundred random splits, with the middle of their values as an interval. NaN with fewer than four
    inputs, or where a half ties all attributions.

    Args:
        scores: One per attribution and input.
        level: Coverage of the interval.
        seed: Of the splits.

    Example:
        >>> print(split_half_agreement(torch.tensor([[1.0] * 8, [2.0] * 8, [3.0] * 8])).mean)
        1.0
    """
    kinds, count = scores.shape
    if kinds < 2 or count < 4:
        return Estimate(math.nan, math.nan, math.nan, math.nan)
    key = noise.input_keys(torch.zeros(1, 1), seed, "split halves")
    order = noise.drawn_words(key, 0, _SPLITS, count)[0].argsort(dim=1, stable=True)
    halves = torch.zeros(_SPLITS, count, dtype=torch.float64)
    halves.scatter_(1, order[:, : count // 2], 1.0)
    values = scores.double().cpu()
    one, other = (half @ values.T / half.sum(1, keepdim=True) for half in (halves, 1 - halves))
    found = torch.from_numpy(np.asarray(spearman(one.numpy(), other.numpy())))
    known = found[~found.isnan()]
    return resampled_estimate(float(known.mean()) if len(known) else math.nan, found, level)
