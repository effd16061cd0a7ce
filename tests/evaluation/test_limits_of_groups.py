"""Limits of features with several elements: attributions element by element do not pass them either."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import calls
import verax
from verax.metrics import DirectedPredictionChange, LocalPredictionChange, PredictionChange
from verax.problem.replacement import Baseline, Nudge, Toward

GROUPS = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3, -1])
# Members that cancel out when replaced, when nudged, or not at all; of which one moves, or none; the last is fixed.
ROWS = torch.tensor(
    [[1.0, -1.0, 2.0, -0.5, 1.5, 0.7, 0.0, 0.4, 0.3], [-0.3, 0.3, 0.9, 1.1, 0.0, 0.0, 0.1, -2.0, 1.0]],
    dtype=torch.float64,
)
DIRECTED = [
    DirectedPredictionChange("magnitude", rule=rule, area=area)
    for rule in ("sum", "dot", "coherent")
    for area in ("between", "morf")
]
OTHERS = [
    PredictionChange(),
    DirectedPredictionChange("magnitude", rule="dot", curve="increments"),
    DirectedPredictionChange(),
    DirectedPredictionChange("signed", rule="coherent", area="morf"),
    DirectedPredictionChange("literal"),
    LocalPredictionChange(),
]
METRICS = {one.short_form: one for one in DIRECTED + OTHERS}


def network(features: int) -> nn.Module:
    generator = torch.Generator().manual_seed(5)
    model = nn.Sequential(nn.Linear(features, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


def attributions(count: int) -> Tensor:
    """Element by element, some of them whole numbers with ties and zeros, and one value per group, shared out."""
    generator = torch.Generator().manual_seed(6)
    shape = (count, *ROWS.shape)
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
    whole = torch.randint(-2, 3, shape, generator=generator).double()
    even = torch.randn(count, len(ROWS), 4, generator=generator, dtype=torch.float64)[..., GROUPS] / 2
    return torch.cat((drawn, whole, even)) * (GROUPS >= 0)


def weighted(*weights: float) -> verax.Scorer:
    """A linear model of values."""
    return verax.Scorer(lambda rows: rows @ torch.tensor(weights, dtype=torch.float64), returns="values")


def values(model: Any, given: Tensor, metrics: Any, **options: Any) -> dict[str, Tensor]:
    found = calls.evaluate(model, ROWS, given, metrics, features=GROUPS, target=0, **options)
    return {name: result.value for name, result in found.items()}


@pytest.mark.parametrize("replacement", [Baseline(), Toward(0.5), Nudge(0.1)], ids=str)
def test_no_attribution_of_elements_passes_the_limits_and_one_attains_them(replacement: Any) -> None:
    model = network(9)
    scores = values(model, attributions(150), METRICS, replacement=replacement)
    found = calls.limits(model, ROWS, metrics=METRICS, features=GROUPS, target=0, replacement=replacement)
    for name, limits in found.items():
        assert limits.exact
        assert (scores[name] <= limits.best + 1e-12).all(), name
        assert (scores[name] >= limits.worst - 1e-12).all(), name
        assert limits.attribution.shape == ROWS.shape
        assert (limits.attribution[:, -1] == 0).all()
        attained = values(model, limits.attribution, {name: limits.metric}, replacement=replacement)[name]
        torch.testing.assert_close(attained, limits.best, rtol=0, atol=1e-12)
        summed = torch.zeros(2, 5, dtype=torch.float64).index_add_(1, GROUPS % 5, limits.attribution)[:, :4]
        key = summed.abs() if getattr(limits.metric, "order", "magnitude") == "magnitude" else summed
        assert limits.order.tolist() == key.sort(dim=1, descending=True, stable=True).indices.tolist()


@pytest.mark.parametrize(("rule", "counts"), [("sum", False), ("dot", True), ("coherent", True)])
def test_a_group_that_moves_to_and_fro_counts_where_predictions_do(rule: Any, counts: bool) -> None:
    """The only group that changes the score has a sum of ``x - baseline`` of 0."""
    metric = DirectedPredictionChange("magnitude", rule=rule, area="morf")
    x = torch.tensor([[1.0, -1.0, 1.0]], dtype=torch.float64)
    found = calls.limits(weighted(1, -1, 0), x, metrics=[metric], features=[0, 0, 1])["dpc"]
    assert found.exact
    assert found.best.item() == (2.0 if counts else 0.0)


def test_the_gradient_of_groups_is_not_above_the_limit_of_lpc() -> None:
    gradient = torch.tensor([[1, -1, 0.5, 0.1]], dtype=torch.float64)
    x = torch.tensor([[1.0, -1.0, 1.0, 1.0]], dtype=torch.float64)
    model = weighted(*gradient[0].tolist())
    found = calls.evaluate(model, x, {"g": gradient}, ["lpc"], features=[0, 0, 1, 2], limits=True)["lpc"]
    assert found.limits.exact
    assert found.value["g"].item() == pytest.approx(0.0058056, rel=1e-4)
    assert found.normalised["g"].item() < 1  # its sum over the group is 0, so that the largest change comes last
    best = found.limits.attribution
    again = calls.evaluate(model, x, best, ["lpc"], features=[0, 0, 1, 2], limits=True)["lpc"]
    assert again.normalised.item() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("rule", ["dot", "coherent"])
def test_bounds_of_groups_are_attained(rule: Any) -> None:
    """From a search, and in steps of several groups."""
    model = network(9)
    for options in ({"rows": 26}, {"steps": 2}):
        steps = {key: value for key, value in options.items() if key == "steps"}
        metric = DirectedPredictionChange("magnitude", rule=rule, area="morf", **steps)
        call = {"features": GROUPS, "target": 0, "replacement": Nudge(0.1)}
        found = calls.limits(model, ROWS, metrics=[metric], rows=options.get("rows", 1000), **call)["dpc"]
        assert not found.exact
        again = calls.evaluate(model, ROWS, found.attribution, [metric], **call)["dpc"].value
        torch.testing.assert_close(again, found.best, rtol=0, atol=1e-12)


def test_channels_of_a_pixel_that_move_to_and_fro_count() -> None:
    model, generator = nn.Sequential(nn.Flatten(), network(8)), torch.Generator().manual_seed(7)
    x = torch.randn(3, 1, 2, 2, generator=generator, dtype=torch.float64) * torch.tensor([1.0, -1.0])[:, None, None]
    drawn = torch.randn(200, *x.shape, generator=generator, dtype=torch.float64)
    found = calls.evaluate(model, x, drawn, ["lpc"], limits=True)["lpc"]
    assert found.limits.exact
    assert (found.normalised <= 1 + 1e-9).all()
    again = calls.evaluate(model, x, found.limits.attribution, ["lpc"])["lpc"].value
    torch.testing.assert_close(again, found.limits.best, rtol=0, atol=1e-12)
