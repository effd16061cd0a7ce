"""Replacing features by their baselines is exact, in every number format."""

import pytest
import torch

from verax.problem.baselines import replaced


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_it_is_where(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = 10.0 ** torch.randint(-6, 4, (2, 200, 20), generator=generator)
    inputs, baselines = (torch.randn(2, 200, 20, generator=generator) * sizes).to(dtype)
    mask = torch.rand(200, 20, generator=generator) < 0.5
    assert torch.equal(replaced(inputs, baselines, mask), torch.where(mask, baselines, inputs))
    assert torch.equal(replaced(inputs, baselines[:1], mask), torch.where(mask, baselines[:1], inputs))
    assert replaced(inputs, baselines, mask).dtype is dtype


def test_a_mask_may_be_shared_by_channels() -> None:
    images, baselines = torch.randn(2, 4, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    mask = images[:, :1] > 0
    assert torch.equal(replaced(images, baselines, mask), torch.where(mask, baselines, images))
