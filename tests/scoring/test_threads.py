"""Several threads with one model: evaluation mode, what is restored, and the count of rows."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import calls
import verax
from verax.evaluation.result import Evaluation

X = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))


class Meeting(nn.Module):
    """Its first call waits for a second one from another thread, which then waits until the first thread is done.

    Calls that take turns never meet: the wait ends after a moment, and nothing else depends on how long it was.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 64), nn.Dropout(0.5), nn.Linear(64, 3))
        self.inside, self.second, self.first_done = (threading.Event() for _ in range(3))
        self.threads: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        me = threading.get_ident()
        if me not in self.threads:
            self.threads.append(me)
            if len(self.threads) == 1:
                self.inside.set()
                self.second.wait(0.3)
            else:
                self.second.set()
                self.first_done.wait(5)
        return self.layers(x)

    def met_by(self, first: verax.Scorer, second: verax.Scorer) -> list[Evaluation]:
        """Evaluate in two threads, the second of which begins while the first is inside the model."""

        def call(scorer: verax.Scorer) -> Evaluation:
            outcome = calls.evaluate(scorer, X, {"x": X, "gradient": -X}, ["pc", "infidelity"], samples=20)
            self.first_done.set()
            return outcome

        with ThreadPoolExecutor(2) as threads:
            begun = threads.submit(call, first)
            self.inside.wait(60)
            return [one.result(60) for one in (begun, threads.submit(call, second))]


@pytest.fixture
def model() -> Meeting:
    torch.manual_seed(1)
    return Meeting().train()


def scorers(model: Meeting, kind: str) -> tuple[verax.Scorer, verax.Scorer]:
    if kind == "one scorer":
        scorer = verax.Scorer(model)
        return scorer, scorer
    if kind == "a scorer each":
        return verax.Scorer(model), verax.Scorer(model)
    return verax.Scorer(model), verax.Scorer(nn.Sequential(model, nn.Identity()).train())


@pytest.mark.parametrize("kind", ["one scorer", "a scorer each", "a layer in common"])
def test_threads_that_share_a_module_in_train_mode(model: Meeting, kind: str) -> None:
    alone = calls.evaluate(model.layers, X, {"x": X, "gradient": -X}, ["pc", "infidelity"], samples=20)
    model.train()
    first, second = scorers(model, kind)
    for outcome in model.met_by(first, second):
        assert outcome.rows == alone.rows
        for name, result in alone.items():
            torch.testing.assert_close(outcome[name].scores, result.scores)
    assert first.rows + (0 if first is second else second.rows) == 2 * alone.rows
    assert all(part.training for part in model.modules())


def test_rows_of_a_function_that_threads_share(model: Meeting) -> None:
    model.eval()
    alone = calls.evaluate(model.layers, X, {"x": X, "gradient": -X}, ["pc", "infidelity"], samples=20)
    scorer = verax.Scorer(model.__call__, returns="logits")
    assert [result.rows for result in model.met_by(scorer, scorer)] == [alone.rows, alone.rows]
    assert scorer.rows == 2 * alone.rows


def test_an_error_in_one_thread_lets_the_next_one_in(model: Meeting) -> None:
    scorer = verax.Scorer(nn.Linear(5, 3))
    with pytest.raises(ValueError, match="target"):
        calls.explained(verax.attribution.Gradient(), scorer, X, target=7)
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(calls.prediction_change, scorer, X, X).result(60).value.shape == (6,)
