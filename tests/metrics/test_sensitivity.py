"""Sensitivity-N: attributions of N features against the effect of removing them together."""

import pytest
import torch
from torch import Tensor, nn

import calls
import verax
from verax.metrics import SensitivityN, SensitivityResult


def linear_problem() -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    """A linear model with one logit, inputs, baselines, and the exact contributions to class 1."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Linear(10, 1).double()
    model.weight.data = torch.randn(1, 10, generator=generator, dtype=torch.float64)
    model.bias.data.fill_(0.3)
    x, b = torch.randn(2, 6, 10, generator=generator, dtype=torch.float64)
    return model, x, b, (x - b) * model.weight.detach()


def errors(attributions: Tensor, metric: SensitivityN) -> SensitivityResult:
    model, x, b, _ = linear_problem()
    found = calls.evaluate(
        verax.Scorer(model, returns="logits"), x, attributions, [metric], target=1, baselines=b, output="logit"
    )
    return found["sensitivity_n"]


def test_exact_contributions_of_a_linear_model_have_no_error() -> None:
    *_, exact = linear_problem()
    result = errors(exact, SensitivityN(sizes=tuple(range(1, 11))))
    assert result.by_size.shape == (6, 10)
    assert result.by_size.max() < 1e-12
    assert result.value.max() < 1e-12


def test_too_much_on_every_feature_adds_up_with_the_size() -> None:
    """Whatever the subset, N features are N times 0.5 off; over sizes 1, 2 and 10, the root of their mean square."""
    *_, exact = linear_problem()
    result = errors(exact + 0.5, SensitivityN(sizes=(1, 2, 10)))
    torch.testing.assert_close(result.by_size, torch.tensor([0.5, 1, 5]).double().expand(6, 3))
    wanted = ((0.25 + 1 + 25) / 3) ** 0.5
    torch.testing.assert_close(result.value, torch.full((6,), wanted, dtype=torch.float64))


def test_an_error_on_one_feature_shows_whenever_it_is_chosen() -> None:
    """Of 10 features, a subset of 4 holds a given one with probability 0.4."""
    *_, exact = linear_problem()
    wrong = exact.clone()
    wrong[:, 3] += 2
    samples = 4000
    result = errors(wrong, SensitivityN(sizes=(4, 10), samples=samples))
    share = (result.by_size[:, 0] / 2).square()
    four_standard_errors = 4 * (0.4 * 0.6 / samples) ** 0.5
    assert (share - 0.4).abs().max() < four_standard_errors
    torch.testing.assert_close(result.by_size[:, 1], torch.full((6,), 2.0, dtype=torch.float64))


def test_errors_that_cancel_show_only_in_small_subsets() -> None:
    *_, exact = linear_problem()
    wrong = exact.clone()
    wrong[:, 0] += 1
    wrong[:, 1:] -= 1 / 9
    result = errors(wrong, SensitivityN(sizes=(1, 10)))
    assert result.by_size[:, 1].max() < 1e-12
    assert result.by_size[:, 0].min() > 0.1


def test_exact_contributions_of_groups_have_no_error() -> None:
    model, x, b, exact = linear_problem()
    groups = torch.tensor([0, 0, 1, 1, 1, 2, 3, 3, 3, 3])
    spread = exact.clone()  # only the sum over a group counts
    spread[:, 0] += 1
    spread[:, 1] -= 1
    metric = SensitivityN(sizes=(1, 2, 4))
    options = {"target": 1, "baselines": b, "features": groups, "output": "logit"}
    scorer = verax.Scorer(model, returns="logits")
    assert calls.evaluate(scorer, x, spread, [metric], **options)["sensitivity_n"].value.max() < 1e-12


@pytest.mark.parametrize("features", ["pixel", "map"])
def test_exact_contributions_of_pixels_have_no_error(features: str) -> None:
    """A pixel's attribution may come with all channels, with one, or without the axis."""
    generator = torch.Generator().manual_seed(1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(27, 2, bias=False)).double()
    model[1].weight.data = torch.randn(2, 27, generator=generator, dtype=torch.float64)
    x = torch.randn(4, 3, 3, 3, generator=generator, dtype=torch.float64)
    exact = x * model[1].weight[1].detach().reshape(3, 3, 3)
    chosen = "pixel" if features == "pixel" else torch.arange(9).reshape(3, 3)
    for attributions in (exact, exact.sum(1, keepdim=True), exact.sum(1)):
        found = calls.evaluate(model, x, attributions, [SensitivityN()], target=1, features=chosen, output="logit")
        assert found["sensitivity_n"].value.max() < 1e-12


def test_each_size_costs_its_draws_once() -> None:
    *_, exact = linear_problem()
    metric = SensitivityN(sizes=(1, 5), samples=8)
    assert errors(exact, metric).rows == 6 + 6 * 2 * 8
    assert errors(torch.stack([exact, exact + 1]), metric).rows == 6 + 6 * 2 * 8
