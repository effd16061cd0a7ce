"""Ratios of means: right where the answer is known, and intervals that hold the true ratio as often as they say."""

import math

import torch

from verax.statistics.intervals import ratios_of_means


def test_a_constant_part_has_no_spread() -> None:
    whole = torch.tensor([1.0, 5.0, 2.0])
    half, twice = ratios_of_means(torch.stack((0.5 * whole, 2 * whole)), whole)
    assert (half.low, half.mean, half.high) == (0.5, 0.5, 0.5)
    assert (twice.low, twice.mean, twice.high) == (2, 2, 2)


def test_one_input_or_nothing_to_divide_says_nothing() -> None:
    (one,) = ratios_of_means(torch.tensor([[1.0]]), torch.tensor([4.0]))
    assert one.mean == 0.25
    assert math.isnan(one.low)
    (none,) = ratios_of_means(torch.tensor([[1.0, 2.0]]), torch.zeros(2))
    assert math.isnan(none.mean)


def test_intervals_hold_the_ratio_as_often_as_they_say() -> None:
    generator = torch.Generator().manual_seed(0)
    held = 0
    for _ in range(400):
        whole = torch.rand(30, generator=generator) + 0.5
        part = 0.6 * whole + 0.2 * torch.randn(30, generator=generator)
        (found,) = ratios_of_means(part[None], whole)
        held += found.low <= 0.6 <= found.high
    assert 0.92 <= held / 400 <= 0.98
