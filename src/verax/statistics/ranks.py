"""Rank agreement: do lists of scores, metrics or inputs rank alike?"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from verax.core import noise
from verax.core.blocks import pieces
from verax.core.shapes import Float
from verax.statistics.intervals import LEVEL, Estimate, resampled_estimate, resampled_means

Floats = npt.NDArray[np.float64]
TIE = 1e-10  # of the spread: a hundred times what rounding does to scores, a thousandth of any standard error of them
LAST_DIGITS = 1e-12  # of a value: what sums of many numbers lose
_TOGETHER = 1 << 22  # comparisons at once
_RESAMPLES, _SPLITS = 1000, 100


def tied(values: Floats, tolerance: float | None = None) -> Floats:
    """Values along the last axis, of which those that differ by rounding alone are made equal.

    Methods that agree on a model, as all gradients of a linear one do, would otherwise be ranked by their last bits.
    From the smallest value on, all that exceed it by no more than the tolerance become equal to it; the next value
    begins anew. So no two values further apart than the tolerance are ever equal, however dense those between them are.
    By default it is ``TIE`` times the range of the middle half of the values, so that an outlier does not count (the
    range of all where that half is equal but for its last digits).
    """
    if values.shape[-1] < 2:
        return values
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    widest = TIE * _spread(ordered) if tolerance is None else np.full(values.shape[:-1], tolerance)
    close = np.diff(ordered, axis=-1) <= widest[..., None]  # a gap to NaN is not
    grouped = ordered.copy()
    for place in np.flatnonzero(close.reshape(-1, close.shape[-1]).any(0)) + 1:
        smallest, value = grouped[..., place - 1], ordered[..., place]
        grouped[..., place] = np.where(value - smallest <= widest, smallest, value)
    equal = np.empty(values.shape)
    np.put_along_axis(equal, order, grouped, axis=-1)
    return equal


def _spread(ordered: Floats) -> Floats:
    """The range of the middle half of sorted values, or of all where that half differs in its last digits alone."""
    count = ordered.shape[-1]
    low, middle, high = (ordered[..., place] for place in (count // 4, count // 2, count - 1 - count // 4))
    spread: Floats = np.where(high - low > LAST_DIGITS * np.abs(middle), high - low, ordered[..., -1] - ordered[..., 0])
    return spread


def tie_count(values: Floats) -> int:
    """How many of some values are ``tied`` with another."""
    _, counts = np.unique(tied(values), return_counts=True)
    return int(counts[counts > 1].sum())


def spearman(x: Floats, y: Floats) -> Any:
    """Spearman correlation along the last axis; ties share their mean rank; NaN where all values are equal."""
    return rank_correlation(ranks(x), ranks(y))


def ranks(values: Floats) -> Floats:
    """Ranks along the last axis, less their mean; ties share their mean rank; NaN throughout where a value is NaN."""
    from scipy.stats import rankdata  # noqa: PLC0415  # to keep ``import verax`` light

    if not values.shape[-1]:
        return values
    placed = rankdata(values, axis=-1)
    centred: Floats = placed - placed.mean(-1, keepdims=True)
    return centred


def rank_correlation(a: Floats, b: Floats) -> Any:
    """Spearman correlation of what has these ``ranks``: who compares one list with many ranks it once."""
    scale = np.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    return np.where(scale > 0, (a * b).sum(-1) / np.where(scale > 0, scale, 1.0), np.nan)


def kendall(first: Float[Tensor, "*batch k"], second: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch"]:
    """Kendall's tau-b: pairs that are ordered alike minus pairs that are not, as a share; ties count for neither.

    1 where both rank alike, -1 where one is the other upside down, not a number where one of them has no order.
    """
    pairs = torch.triu_indices(first.shape[-1], first.shape[-1], offset=1)
    first_signs, other = ((values[..., pairs[0]] - values[..., pairs[1]]).sign().double() for values in (first, second))
    return (first_signs * other).sum(-1) / (first_signs.abs().sum(-1) * other.abs().sum(-1)).sqrt()


def rank_agreement(first: Float[Tensor, "k n"], second: Float[Tensor, "k n"], level: float = LEVEL) -> Estimate:
    """Kendall's tau of the means of two tables of scores, with a percentile bootstrap over their common inputs."""
    first, second = first.double().cpu(), second.double().cpu()
    tau = float(kendall(first.mean(1), second.mean(1)))
    if first.shape[1] < 2:  # one input says nothing about others
        return Estimate(tau, math.nan, math.nan, math.nan)
    means = resampled_means(torch.cat((first, second)), _RESAMPLES, seed=0)
    parts = pieces(_RESAMPLES, max(1, _TOGETHER // len(first) ** 2))
    taus = [kendall(*means[part].chunk(2, dim=1)) for part in parts]
    return resampled_estimate(tau, torch.cat(taus), level)


def krippendorff_alpha(scores: Float[Tensor, "k n"], level: float = LEVEL, seed: int = 0) -> Estimate:
    """Krippendorff's alpha: inputs are the raters, attributions are rated, and ratings are ranks within an input.

    ``1 - observed / expected disagreement`` with squared differences of ranks; ties share their mean rank. 1 where all
    inputs rank alike, 0 where they rank as by chance. Without ties that is the ordinal alpha. The interval resamples
    inputs. NaN where there is one attribution, one input, or all are tied.

    Source: Krippendorff, Computing Krippendorff's alpha-reliability, 2011; for inputs as raters: Tomsett et al., Sanity
    checks for saliency metrics, AAAI 2020.
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
    """
    kinds, count = scores.shape
    if kinds < 2 or count < 4:
        return Estimate(math.nan, math.nan, math.nan, math.nan)
    key = noise.input_keys(torch.zeros(1, 1), seed, "split halves")
    order = noise.drawn_words(key, 0, _SPLITS, count)[0].argsort(dim=1, stable=True)
    halves = torch.zeros(_SPLITS, count, dtype=torch.float64)
    halves.scatter_(1, order[:, : count // 2], 1.0)
    values = scores.double().cpu()
    first_half, other = (half @ values.T / half.sum(1, keepdim=True) for half in (halves, 1 - halves))
    agreements = torch.from_numpy(np.asarray(spearman(first_half.numpy(), other.numpy())))
    known = agreements[~agreements.isnan()]
    return resampled_estimate(float(known.mean()) if len(known) else math.nan, agreements, level)
