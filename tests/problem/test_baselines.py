"""Replacing features by their baselines is exact, in every number format."""

import pytest
import torch

import calls
import verax
from verax.problem.baselines import baseline_tensor, must_choose, replaced


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_it_is_where(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = 10.0 ** torch.randint(-6, 4, (2, 200, 20), generator=generator)
    inputs, baselines = (torch.randn(2, 200, 20, generator=generator) * sizes).to(dtype)
    mask = torch.rand(200, 20, generator=generator) < 0.5
    assert torch.equal(replaced(inputs, baselines, mask, chosen=False), torch.where(mask, baselines, inputs))
    assert torch.equal(replaced(inputs, baselines[:1], mask, chosen=False), torch.where(mask, baselines[:1], inputs))
    assert replaced(inputs, baselines, mask, chosen=False).dtype is dtype


def test_a_mask_may_be_shared_by_channels() -> None:
    images, baselines = torch.randn(2, 4, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    mask = images[:, :1] > 0
    assert torch.equal(replaced(images, baselines, mask, chosen=False), torch.where(mask, baselines, images))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_it_is_where_also_for_the_largest_numbers(dtype: torch.dtype) -> None:
    """The difference of two numbers of opposite signs overflows."""
    largest = torch.finfo(dtype).max
    inputs = torch.tensor([[largest, -largest, largest / 3, 1.0]], dtype=dtype)
    baselines = torch.tensor([[-largest, largest, -largest, 2.0]], dtype=dtype)
    assert must_choose(inputs, baselines)
    for bits in range(16):
        mask = torch.tensor([[bool(bits >> place & 1) for place in range(4)]])
        result = replaced(inputs, baselines, mask.to(dtype), chosen=must_choose(inputs, baselines))
        assert torch.equal(result, torch.where(mask, baselines, inputs))
    small = inputs / 16
    assert not must_choose(small, small)


def test_metrics_replace_the_largest_numbers() -> None:
    largest = torch.finfo(torch.float32).max
    x = torch.tensor([[largest, -largest, 1.0]])
    scorer = verax.Scorer(lambda rows: (rows / largest) @ torch.tensor([1.0, 2.0, 0.0]), returns="logits")
    settings = {"target": 1, "baselines": -x, "output": "logit"}
    result = calls.prediction_change(scorer, x, torch.tensor([[3.0, 2.0, 1.0]]), **settings)
    assert result.morf.tolist() == [[-1, -3, 1, 1]]
    removal = calls.infidelity(scorer, x, x / largest, perturbation="baseline", samples=30, **settings)
    assert torch.isfinite(removal.value).all()
    with pytest.raises(ValueError, match=r"infidelity: the predicted effects overflow.*torch.float32"):
        calls.infidelity(scorer, x, x, perturbation="baseline", effect="dot", samples=30, **settings)


def test_a_number_has_the_precision_of_the_inputs() -> None:
    """0.3 of float32 is not 0.3 of float64: a feature that equals its baseline would differ from it."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        inputs = torch.tensor([[0.3, 1.0]], dtype=dtype)
        assert baseline_tensor(0.3, inputs).tolist() == [[inputs[0, 0].item()] * 2]
    assert baseline_tensor(1e39, inputs).tolist() == [[1e39, 1e39]]
    assert baseline_tensor(2**53 + 1, inputs).tolist() == [[2.0**53] * 2]


def test_a_feature_that_equals_its_baseline_changes_nothing() -> None:
    x = torch.tensor([[0.3, 0.3]], dtype=torch.float64)
    steep = verax.Scorer(lambda rows: (rows - 0.3).sum(1) * 1e9, returns="logits")
    result = calls.prediction_change(steep, x, torch.tensor([[2.0, 1.0]]), baselines=0.3, target=1)
    assert result.value.tolist() == [0]


@pytest.mark.parametrize("number", [1e39, -1e39, 10**39, torch.tensor(1e39, dtype=torch.float64)], ids=str)
def test_a_number_that_the_inputs_cannot_hold_is_refused(number: object) -> None:
    with pytest.raises(ValueError, match=r"baselines: 1e\+39 is too large for inputs of torch.float32; pass inputs of"):
        baseline_tensor(number, torch.zeros(1, 2))


@pytest.mark.parametrize(
    ("given", "error", "named"),
    [
        (10**400, ValueError, "baselines: expected a number that float64 can hold"),
        (1j, TypeError, "baselines: expected real numbers, got torch.complex128"),
        (torch.zeros_like, TypeError, "baselines: expected a number or an array, got <built-in"),
        (float("inf"), ValueError, "baselines: expected finite numbers"),
    ],
    ids=["large", "complex", "function", "infinite"],
)
def test_what_is_no_baseline_is_refused(given: object, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        baseline_tensor(given, torch.zeros(1, 2))
