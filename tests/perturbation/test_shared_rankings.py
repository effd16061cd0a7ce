"""Attributions that rank features alike: the same scores as each on its own, for every metric that is guided."""

from dataclasses import dataclass, replace
from unittest import mock

import pytest
import torch
from torch import Tensor, nn

import calls
import verax
from verax.metrics import (
    DirectedPredictionChange,
    Experiment,
    GuidedMetric,
    GuidedScores,
    LocalPredictionChange,
    PredictionChange,
)
from verax.perturbation import guided

METRICS = {
    "pc": PredictionChange(),
    "dpc": DirectedPredictionChange(),
    "signed": DirectedPredictionChange(order="signed", rule="dot"),
    "coherent": DirectedPredictionChange(rule="coherent", area="morf"),
    "lpc": LocalPredictionChange(epsilon=0.1),
}


def network(features: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(features, 16), nn.Tanh(), nn.Linear(16, 3)).eval()


def rankings(inputs: Tensor, kinds: int, copies: int) -> Tensor:
    """Some attributions with ties, zeros and both signs, each in several sizes, in a random order."""
    draws = torch.Generator().manual_seed(1)
    few = torch.randint(-2, 3, (kinds, *inputs.shape), generator=draws).float()
    scales = 2.0 ** torch.arange(copies)  # powers of two keep ties
    every = (few[:, None] * scales[:, None, None]).flatten(0, 1)
    return every[torch.randperm(len(every), generator=draws)]


@pytest.mark.parametrize("steps", [20, 4])  # one feature each, and several, where sizes count
def test_the_same_bits_and_rows_as_without(steps: int) -> None:
    x = torch.randn(9, 8, generator=torch.Generator().manual_seed(2))
    given, model = rankings(x, kinds=5, copies=6), verax.Scorer(network(8))
    metrics = {name: replace(metric, steps=steps) for name, metric in METRICS.items()}
    together, spared = calls.evaluate(model, x, given, metrics), model.rows_spared
    with mock.patch.object(guided, "_WORTH", 0.0):
        apart = calls.evaluate(model, x, given, metrics)
    assert together.rows == apart.rows
    assert model.rows_spared == 2 * spared
    for name in metrics:
        assert torch.equal(together[name].value, apart[name].value)


def test_signs_and_ties_tell_attributions_apart() -> None:
    """The same order by size, but other signs, or an order by ties: four kinds of eight attributions."""
    x = torch.randn(3, 3, generator=torch.Generator().manual_seed(2))
    lines = [(3, 2, 1), (3, -2, 1), (3, 2, 0), (-2, -2, 1)]
    given = torch.tensor([line for line in lines for _ in (0, 1)]).float()[:, None].expand(8, 3, 3)
    given = given * torch.tensor([1.0, 2.0] * 4)[:, None, None]
    found: list[guided.SharedRankings] = []
    search = guided.shared_rankings

    def spied(block: guided.Block, removals: list[guided.RemovedSets]) -> guided.SharedRankings | None:
        answer = search(block, removals)
        assert answer is not None
        found.append(answer)
        return answer

    with mock.patch("verax.perturbation.guided.shared_rankings", spied):
        calls.evaluate(network(3), x, given, {"pc": PredictionChange(), "dpc": DirectedPredictionChange()})
    assert found[0].chosen.shape == (4, 3)
    assert torch.equal(found[0].kind[::2], found[0].kind[1::2])
    assert all(len(set(kinds)) == 4 for kinds in found[0].kind[::2].T.tolist())


def test_attributions_that_differ_are_left_alone() -> None:
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(2))
    given = torch.randn(10, 4, 8, generator=torch.Generator().manual_seed(3))
    with mock.patch("verax.perturbation.guided.SharedRankings.only", side_effect=AssertionError):
        assert calls.evaluate(network(8), x, given, METRICS).rows > 0


@dataclass(frozen=True)
class StepSums(GuidedMetric):
    """How far summed attributions and directions of the steps are from those that a loop over features gives."""

    steps: int = 3
    name, higher_is_better, kind = "step_sums_of_tests", False, "baseline"

    @property
    def experiment(self) -> Experiment:
        return Experiment("signed", self.steps)

    def reduce(self, scores: GuidedScores) -> Tensor:
        attribution, direction = scores.attribution, scores.direction
        assert attribution is not None
        assert direction is not None
        assert torch.equal(attribution.sign().to(torch.int8), scores.attribution_sign)
        assert torch.equal(direction.sign().to(torch.int8), scores.direction_sign)
        most, least = attribution.unbind(2)
        assert torch.allclose(most, least.flip(-1))  # of as many features in every step, from the other end
        weights = 10.0 ** torch.arange(self.steps)
        return (most * weights).sum(-1) + (direction[:, :, 0] * weights).sum(-1) / 1000


verax.metrics.METRICS._known.pop(StepSums.name)  # "all" means none of what tests define


@pytest.mark.parametrize("features", [6, 72])  # sets that are one integer, and digests of longer ones
def test_a_metric_reads_what_the_steps_of_attributions_that_rank_alike_sum_to(features: int) -> None:
    draws = torch.Generator().manual_seed(3)
    x = torch.randint(-9, 10, (4, features), generator=draws).float() + 0.5
    ranked = torch.stack([torch.randperm(features, generator=draws) for _ in range(4)]) + 1.0 - features / 4
    given = ranked * (1 + torch.arange(9.0))[:, None, None]  # nine that rank alike, each with sums of its own
    found = verax.evaluate(verax.Problem(network(features), x), given, {"sums": StepSums(), "pc": PredictionChange()})
    weights = (10.0 ** torch.arange(3)).repeat_interleave(features // 3)
    order = given.argsort(dim=-1, descending=True)
    expected = (given.gather(-1, order) + x.expand_as(given).gather(-1, order) / 1000) @ weights
    torch.testing.assert_close(found["sums"].value, expected)
