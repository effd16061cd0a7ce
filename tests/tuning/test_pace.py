"""No batch of a search starts that its time does not hold, however much more its methods cost than those before."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

import verax
from verax.attribution import Attribution, KernelShap, LimeTabular, Occlusion, SmoothGrad
from verax.metrics import EffectCorrelation
from verax.tuning.measure import Pace

CHEAP: tuple[Attribution, ...] = tuple(SmoothGrad(sigma / 50, samples=4) for sigma in range(1, 61))
EXPENSIVE: tuple[Attribution, ...] = tuple(KernelShap(samples) for samples in (700, 800, 900))


class Timed(torch.nn.Module):
    """A model whose rows take a hundredth of a second each, by a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.layer = 0.0, torch.nn.Linear(10, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.now += 1e-2 * len(x)
        scores: Tensor = self.layer(x).tanh()
        return scores

    def read(self) -> float:
        return self.now


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Timed:
    torch.manual_seed(0)
    model = Timed()
    clock = SimpleNamespace(perf_counter=model.read, monotonic=model.read)
    monkeypatch.setattr("verax.scoring.meter.time", clock)
    monkeypatch.setattr("verax.tuning.tuner.time", clock)
    return model


def rows(count: int = 300) -> Tensor:
    return torch.randn(count, 10, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("seconds", "seed"), [(250.0, 0), (300.0, 2), (350.0, 7), (600.0, 0)])
@pytest.mark.parametrize("metric", ["pc", EffectCorrelation(samples=32)], ids=["pc", "effect correlation"])
def test_a_search_ends_in_time_where_later_batches_cost_more(
    metric: object, seed: int, seconds: float, model: Timed
) -> None:
    found = verax.tune(
        verax.Problem(model, rows()), (*CHEAP, *EXPENSIVE), metric=metric, trials=500, seconds=seconds, seed=seed
    )
    assert found.stopped in ("seconds", "exhausted")
    assert model.now <= seconds


def test_what_there_is_time_for_is_tried(model: Timed) -> None:
    """A cheap search uses at least half of its time before it gives up."""
    problem = verax.Problem(model, rows(), explained="logit")  # on which candidates race for long
    found = verax.tune(problem, (*CHEAP, *EXPENSIVE), metric="pc", trials=500, seconds=400.0, seed=1)
    assert found.stopped == "seconds"
    assert model.now >= 200.0


def test_a_group_costs_its_dearest_once_and_metrics_grow_with_candidates() -> None:
    pace = Pace()
    assert pace.seconds({Occlusion(): 7.0}, 4, 100) == 0.0  # nothing is known
    pace.explained(Occlusion(), rows=7.0, inputs=10, seconds=7.0)
    pace.explained(KernelShap(), rows=64.0, inputs=10, seconds=128.0)
    pace.rated(candidates=4, inputs=10, seconds=5.0)
    assert pace.seconds({Occlusion(): 7.0}, 4, 10) == pytest.approx(7.0 + 5.0)
    assert pace.seconds({Occlusion(): 14.0}, 2, 10) == pytest.approx(14.0 + 5.0)
    assert pace.seconds({Occlusion(): 7.0}, 8, 10) == pytest.approx(7.0 + 10.0)
    unknown = LimeTabular()  # as slow as the slowest, as many rows as the most expensive
    assert pace.seconds({unknown: 10.0}, 4, 10) == pytest.approx(20.0 + 5.0)
    assert pace.seconds({unknown: None}, 4, 10) == pytest.approx(128.0 + 5.0)
