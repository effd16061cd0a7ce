"""Sums whose bits do not depend on the order of adding."""

import pytest
import torch

from verax.core.blocks import deterministic_convolutions, deterministic_scatter_add


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scatter_sums_are_those_of_float64(dtype: torch.dtype) -> None:
    drawn = torch.Generator().manual_seed(0)
    values = (torch.randn(3, 4, 999, generator=drawn) * torch.randn(3, 4, 999, generator=drawn).exp()).to(dtype)
    places = torch.randint(0, 120, values.shape, generator=drawn)
    actual = deterministic_scatter_add(values, places, torch.zeros(3, 4, 121, dtype=dtype))
    expected = torch.zeros(3, 4, 121, dtype=torch.float64).scatter_add_(-1, places, values.double())
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=torch.finfo(dtype).eps, atol=1e-13)


def test_the_order_of_adding_leaves_no_trace() -> None:
    drawn = torch.Generator().manual_seed(1)
    values, places = torch.randn(1, 5000, generator=drawn), torch.randint(0, 7, (1, 5000), generator=drawn)
    zeros = torch.zeros(1, 7)
    other = torch.randperm(5000, generator=drawn)
    first, second = (
        deterministic_scatter_add(values[:, order], places[:, order], zeros) for order in (torch.arange(5000), other)
    )
    assert torch.equal(first, second)
    plain = [zeros.scatter_add(-1, places[:, order], values[:, order]) for order in (torch.arange(5000), other)]
    assert not torch.equal(*plain)  # which is what the whole numbers are for


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_spoils_its_line_alone(bad: float) -> None:
    actual = deterministic_scatter_add(
        torch.tensor([[bad, 1.0], [2.0, 3.0]]), torch.tensor([[0, 1], [0, 0]]), torch.zeros(2, 2)
    )
    assert actual[0].isnan().all()
    assert actual[1].tolist() == [5.0, 0.0]


def test_zeros_and_the_ends_of_the_format_are_kept() -> None:
    values = torch.tensor([[0.0, -0.0], [3e38, -3e38], [1e-44, 1e-44]])
    actual = deterministic_scatter_add(values, torch.zeros(3, 2, dtype=torch.int64), torch.zeros(3, 1))
    assert actual.flatten().tolist() == [0.0, 0.0, 0.0]  # numbers far below 2**-126 are rounded away


def test_the_setting_of_cudnn_is_restored() -> None:
    before = torch.backends.cudnn.deterministic

    def fail() -> None:
        with deterministic_convolutions():
            assert torch.backends.cudnn.deterministic
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert torch.backends.cudnn.deterministic == before
