"""A sum that is 0 but for rounding has no sign: neither over the elements of a group nor over a step."""

import itertools

import pytest
import torch
from torch import Tensor

import calls
import verax
from verax.metrics import DirectedPredictionChange
from verax.perturbation.block import attribution_sums, direction_sums, signs
from verax.problem.features import feature_map

ALL = slice(None)


def direction(x: Tensor, baselines: Tensor, groups: list[int]) -> list[float]:
    features = feature_map(torch.tensor(groups), x)
    found: list[float] = direction_sums(features, x, baselines.expand_as(x), ALL).signs()[0].tolist()
    return found


@pytest.mark.parametrize(
    ("centre", "dtype"),
    [(0.0, torch.float32), (0.0, torch.float64), (100.0, torch.float32), (1234.5, torch.float32), (1e3, torch.float64)],
    ids=str,
)
def test_a_group_that_cancels_out_has_no_direction(centre: float, dtype: torch.dtype) -> None:
    x = torch.tensor([[centre + term for term in (0.1, 0.2, -0.3)]], dtype=dtype)
    baseline = torch.tensor([centre], dtype=dtype)
    exact = (x.double() - baseline.double()).sum()
    assert exact != 0  # by rounding
    assert direction(x, baseline, [0, 0, 0]) == [0]
    assert direction(x, baseline, [0, 1, 2]) == [1, 1, -1]
    assert direction(-x, -baseline, [0, 0, 0]) == [0]


def test_what_is_small_but_real_keeps_its_sign() -> None:
    x = torch.tensor([[1e-30, 1e-30, 5.0, 5.0, 1.0, -0.9999]])
    baseline = torch.tensor([0.0, 0.0, 5.0, 5.0 - 2**-21, 0.0, 0.0])
    assert direction(x, baseline, [0, 0, 1, 1, 2, 2]) == [1, 1, 1]


def test_one_number_is_itself_whatever_its_size() -> None:
    """Also a difference of one unit in the last place."""
    x = torch.tensor([[1.0 + 2**-23, 1.0 - 2**-24, 1.0, -1e-45]])
    assert direction(x, torch.tensor([1.0, 1.0, 1.0, 0.0]), [0, 1, 2, 3]) == [1, -1, 0, -1]


def test_signs_of_attributions_follow_the_precision_they_came_in() -> None:
    """0.1 + 0.2 - 0.3 of float32 is 0; the same numbers as float64 are exact, and are not."""
    rounded = torch.tensor([0.1, 0.2, -0.3])
    x = torch.ones(1, 3)
    features = feature_map(torch.tensor([0, 0, 0]), x)
    eps = torch.tensor([torch.finfo(torch.float32).eps, torch.finfo(torch.float64).eps], dtype=torch.float64)
    found = attribution_sums(features, rounded.double().expand(2, 1, 3), eps[:, None, None], ALL).signs()
    assert found.flatten().tolist() == [0, -1]
    scorer = verax.Scorer(lambda rows: rows @ torch.tensor([1.0, 2.0, 4.0]), returns="logits")
    both = {"single": rounded[None], "double": rounded.double()[None]}
    result = calls.directed_prediction_change(scorer, x, both, target=1, features=[0, 0, 0], output="logit")
    assert result.guided.attribution_sign.flatten().tolist() == [0, 0, -1, -1]


@pytest.mark.parametrize("features", [6, 80])
def test_a_step_that_cancels_out_has_no_sign(features: int) -> None:
    """Three features a step; with many features and with few, for which other code runs."""
    x = torch.tensor([0.1, 0.2, -0.3]).repeat(2 * (features // 6))[None]
    x = torch.cat((x, torch.zeros(1, features - x.shape[1])), dim=1)
    a = torch.ones(1, features)
    scorer = verax.Scorer(lambda rows: rows.sum(1), returns="logits")
    steps = features // 3
    result = calls.directed_prediction_change(scorer, x, a, target=1, steps=steps, output="logit")
    cuts = [step * features // steps for step in range(steps + 1)]
    for step, (start, stop) in enumerate(itertools.pairwise(cuts)):
        total = sum([1, 2, -3][place % 3] for place in range(start, stop) if x[0, place] != 0)
        assert result.guided.direction_sign[0, 0, 0, step] == (total > 0) - (total < 0)


def test_a_large_group_is_not_flattened() -> None:
    """The allowance grows with the sizes of the terms alone: sums of random terms are far above it."""
    terms = torch.randn(200, 50_000, generator=torch.Generator().manual_seed(0)).double()
    sizes = terms.abs().sum(1)
    found = signs(terms.sum(1), sizes, sizes * torch.finfo(torch.float32).eps)
    assert torch.equal(found, terms.sum(1).sign())


@pytest.mark.parametrize("order", ["magnitude", "signed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("turned", [False, True])
def test_predicted_changes_that_cancel_out_but_for_rounding_have_no_sign(
    order: str, dtype: torch.dtype, turned: bool
) -> None:
    """Both features are 0.2 above their baselines, as far as numbers near 10 can say it."""
    x, baselines = torch.tensor([[10.3, 10.1]], dtype=dtype), torch.tensor([[10.1, 9.9]], dtype=dtype)
    a = torch.tensor([[1.0, -1.0]], dtype=dtype)
    if order == "signed":  # which takes |a|: the directions are to cancel out
        x, baselines = x - torch.tensor([[0.0, 0.2]], dtype=dtype), torch.tensor([[10.1, 10.1]], dtype=dtype)
    if turned:
        x, baselines, a = x.flip(1), baselines.flip(1), a.flip(1)
    scorer = verax.Scorer(lambda rows: 3 * rows[:, 0] + rows[:, 1], returns="values")
    metric = DirectedPredictionChange(order, steps=1, rule="dot", area="morf")
    apart = DirectedPredictionChange(order, steps=2, rule="dot", area="morf")
    found = calls.evaluate(scorer, x, a, {"one step": metric, "one each": apart}, baselines=baselines)
    assert found["one step"].guided.predicted_sign.flatten().tolist() == [0]
    assert found["one step"].value.tolist() == [0.0]
    assert found["one each"].guided.predicted_sign.abs().flatten().tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_predicted_change_that_is_small_but_real_keeps_its_sign(dtype: torch.dtype) -> None:
    eps = torch.finfo(dtype).eps
    x = torch.tensor([[1.0 + 64 * eps, 1.0]], dtype=dtype)
    scorer = verax.Scorer(lambda rows: rows.sum(1), returns="values")
    metric = DirectedPredictionChange(steps=1, rule="dot", area="morf")
    found = calls.evaluate(scorer, x, torch.tensor([[1.0, -1.0]], dtype=dtype), [metric], baselines=0.5)["dpc"]
    assert found.guided.predicted_sign.flatten().tolist() == [1]
