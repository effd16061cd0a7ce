"""How long a search takes and what it says meanwhile, by a clock that moves with the model's rows."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from calls import tune

FAST = ("gradient", "smoothgrad", "vargrad", "occlusion")


class Clock:
    """Seconds that pass while a model runs: a hundredth for each row."""

    def __init__(self) -> None:
        self.now = 100.0

    def read(self) -> float:
        return self.now


class Timed(torch.nn.Module):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock, self.layer = clock, torch.nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.clock.now += 1e-2 * len(x)
        found: Tensor = self.layer(x).tanh()
        return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    fake = SimpleNamespace(perf_counter=clock.read, monotonic=clock.read)
    monkeypatch.setattr("verax.scoring.meter.time", fake)
    monkeypatch.setattr("verax.tuning.tuner.time", fake)
    return clock


def rows() -> Tensor:
    return torch.randn(200, 6, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("seconds", [300.0, 400.0, 500.0])
def test_a_search_ends_within_its_time(seconds: float, clock: Clock) -> None:
    """A round is as long as all before it, so that one that merely begins in time would end late."""
    torch.manual_seed(0)
    found = tune(Timed(clock), rows(), ("lime", *FAST), metric="pc", trials=500, seconds=seconds, seed=1)
    assert found.stopped == "seconds"
    assert clock.now - 100.0 <= seconds


def test_lines_come_within_a_batch(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    torch.manual_seed(0)
    settings = {"metric": "pc", "trials": 16, "seed": 1}
    model = Timed(clock)
    tune(model, rows(), FAST, **settings, progress=lines.append)
    passed = clock.now - 100.0
    within = [line for line in lines if line.startswith("... ")]
    assert passed > 20
    assert 2 <= len(within) <= passed / 5
    assert sum("trials" in line for line in lines) == 1  # one batch
    assert capsys.readouterr().err == ""
    tune(model, rows(), FAST, **settings)
    told = capsys.readouterr().err.splitlines()
    assert all(line.startswith("tune: ") for line in told)
    assert 1 <= len(told) <= passed / 10
