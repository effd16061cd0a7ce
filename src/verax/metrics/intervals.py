"""Means over a data set with an interval: how far would they move with other inputs of the same kind?"""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import torch
from torch import Tensor

from verax.arguments import checked_choice, checked_count
from verax.perturbation import noise
from verax.shapes import Float

Method = Literal["normal", "bootstrap"]
_RESAMPLES_AT_ONCE = 64


@dataclass(frozen=True)
class Estimate:
    """A mean over inputs, its standard error and an interval.

    Attributes:
        mean: Over inputs.
        standard_error: Of the mean.
        low: Where the interval begins.
        high: Where it ends.
    """

    mean: float
    standard_error: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"


def estimates(values: Float[Tensor, "k n"], method: Method, level: float, resamples: int, seed: int) -> list[Estimate]:
    """Estimate the mean of each row of values.

    The bootstrap draws the same inputs for every row, so differences between attributions may be read as paired.
    """
    checked_choice("interval", method, ("normal", "bootstrap"))
    checked_count("resamples", resamples, least=2)
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, found {level!r}.")
    values = values.double().cpu()
    mean, count = values.mean(1), values.shape[1]
    error = values.std(1) / count**0.5 if count > 1 else torch.full_like(mean, torch.nan)
    if method == "normal":
        reach = NormalDist().inv_cdf((1 + level) / 2) * error
        low, high = mean - reach, mean + reach
    else:
        resampled = _resampled_means(values, resamples, seed)
        if count > 1:  # one input says nothing about others
            error = resampled.std(0)
        else:
            resampled = resampled * torch.nan
        low, high = torch.quantile(resampled, torch.tensor([(1 - level) / 2, (1 + level) / 2]).double(), dim=0)
    rows = torch.stack((mean, error, low, high), dim=1).tolist()
    return [Estimate(*row) for row in rows]


def _resampled_means(values: Float[Tensor, "k n"], resamples: int, seed: int) -> Float[Tensor, "resamples k"]:
    count = values.shape[1]
    key = noise.input_keys(torch.zeros(1, 1), seed, "bootstrap")
    means = []
    for start in range(0, resamples, _RESAMPLES_AT_ONCE):
        size = min(_RESAMPLES_AT_ONCE, resamples - start)
        drawn = noise.words(key, start * count, size * count).reshape(size, count) % count
        means.append(torch.stack([values[:, index].mean(1) for index in drawn]))
    return torch.cat(means)
