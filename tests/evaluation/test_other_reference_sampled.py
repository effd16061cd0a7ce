"""Another reference is told of where features are removed at random, as the monitor does it, and costs hardly a row."""

from pathlib import Path

import numpy as np
import pytest

import verax
from verax.metrics import EffectCorrelation, Infidelity
from verax.monitoring import Monitor

WEIGHTS = np.array([1.0, -2.0, 0.5, 3.0])
X = np.random.default_rng(0).normal(size=(40, 4))
OTHER = np.array([1.0, 1.0, 1.0, 1.0])  # scores 2.75
REMOVAL = EffectCorrelation(perturbation="baseline", samples=20)
NOTE = "other: its values sum to f(x) - 2.75 (value), but the baseline of this call scores 0.25; a difference in "


def linear(**settings: object) -> verax.Problem:
    model = verax.Scorer(lambda x: x @ WEIGHTS + 0.25, returns="values", takes="numpy")
    return verax.Problem(model, X, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("metric", [REMOVAL, Infidelity(perturbation="baseline", samples=20)], ids=["effect", "infid"])
def test_metrics_of_random_removal_tell_of_it_for_one_more_row(metric: verax.metrics.Metric) -> None:
    found = verax.evaluate(linear(), {"zero": X * WEIGHTS, "other": (X - OTHER) * WEIGHTS}, [metric])
    (note,) = found.notes
    assert note.startswith(NOTE + metric.label)
    unlike = verax.evaluate(linear(), {"zero": X**2, "other": X**3}, [metric])
    assert unlike.notes == ()
    assert found.rows == unlike.rows + 2  # one for each that sums to f(x) - c


def test_baselines_of_their_own_for_each_row_are_scored_for_a_few() -> None:
    moved = np.repeat([[1.0, 1.0, 1.0, 1.0]], 40, axis=0)
    found = verax.evaluate(linear(baselines=moved), {"zero": X * WEIGHTS, "other": (X - OTHER) * WEIGHTS}, [REMOVAL])
    (note,) = found.notes
    assert note.startswith("zero: its values sum to f(x) - 0.25 (value), but the baseline of this call scores 2.75;")
    unlike = verax.evaluate(linear(baselines=moved), {"zero": X**2, "other": X**3}, [REMOVAL])
    assert found.rows == unlike.rows + 16


def test_features_that_stay_are_no_part_of_the_baseline() -> None:
    rows = X.copy()
    rows[:, 3] = 2.0  # never removed: f of the baseline is 0.25 + 6
    problem = verax.Problem(linear().scorer, rows, features=np.array([0, 1, 2, -1]))
    exact = rows * WEIGHTS * [1, 1, 1, 0]
    assert verax.evaluate(problem, exact, [REMOVAL]).notes == ()
    (note,) = verax.evaluate(problem, exact - [1.0, 0, 0, 0], [REMOVAL]).notes
    assert "sum to f(x) - 7.25 (value), but the baseline of this call scores 6.25" in note


@pytest.mark.parametrize("metric", [EffectCorrelation(samples=20), Infidelity(samples=20)])
def test_noise_has_no_baseline(metric: verax.metrics.Metric) -> None:
    assert verax.evaluate(linear(), (X - OTHER) * WEIGHTS, [metric]).notes == ()


def test_a_monitor_keeps_what_its_results_say(tmp_path: Path) -> None:
    monitor = Monitor()
    found = verax.evaluate(linear(), {"other": (X - OTHER) * WEIGHTS}, [REMOVAL])
    monitor.fold(found)
    assert monitor.notes == found.notes
    monitor.save(tmp_path / "m.json")
    again = Monitor.load(tmp_path / "m.json")
    assert again.notes == found.notes
    again.report(tmp_path / "m.html")
    assert "sum to f(x) - 2.75" in (tmp_path / "m.html").read_text()
