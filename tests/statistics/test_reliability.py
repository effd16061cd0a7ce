"""Krippendorff's alpha by its definition over all pairs, and halves that agree or do not."""

import itertools

import pytest
import torch
from scipy.stats import rankdata

from verax.statistics.ranks import krippendorff_alpha, split_half_agreement


def by_pairs(scores):
    """The definition: mean squared difference of ranks of pairs within an attribution, over that of all pairs."""
    ranks = rankdata(scores.double().numpy(), axis=0)  # newer SciPy keeps float32
    within = [(a - b) ** 2 for row in ranks for a, b in itertools.permutations(row, 2)]
    overall = [(a - b) ** 2 for a, b in itertools.permutations(ranks.flatten(), 2)]
    return 1 - (sum(within) / len(within)) / (sum(overall) / len(overall))


@pytest.mark.parametrize("seed", range(4))
def test_alpha_is_its_definition(seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(5, 9, generator=generator) + 0.8 * torch.arange(5.0)[:, None]
    scores[1] = scores[2]  # ties share their rank
    found = krippendorff_alpha(scores)
    assert found.mean == pytest.approx(by_pairs(scores), abs=1e-12)
    assert found.low <= found.mean <= found.high


def test_alpha_of_chance_is_near_zero_and_of_no_ranks_unknown():
    scores = torch.randn(6, 400, generator=torch.Generator().manual_seed(0))
    found = krippendorff_alpha(scores)
    assert abs(found.mean) < 0.02
    assert krippendorff_alpha(torch.zeros(3, 10)).mean != krippendorff_alpha(torch.zeros(3, 10)).mean  # NaN
    assert krippendorff_alpha(torch.zeros(1, 10)).mean != 0


def test_halves():
    generator = torch.Generator().manual_seed(1)
    clear = torch.randn(6, 40, generator=generator) + 3 * torch.arange(6.0)[:, None]
    chance = torch.randn(6, 40, generator=generator)
    assert split_half_agreement(clear).mean == 1.0
    assert split_half_agreement(chance).mean < 0.7
    assert split_half_agreement(torch.zeros(3, 8)).mean != 0  # NaN: nothing to rank
