"""The monitor: windows by hand, a state that goes through a file, alarms, and batches that come twice."""

import math

import numpy as np
import pytest
import torch

import calls
import verax
from calls import stream
from verax.core.arrays import Layout
from verax.core.files import read_sealed_json, sealed_json
from verax.evaluation.result import Evaluation
from verax.metrics.base import METRICS
from verax.metrics.result import Context, Result
from verax.monitoring import Monitor
from verax.scoring.meter import Cost, Rows
from verax.statistics.intervals import estimates


def results(scores: np.ndarray, metric: str = "dpc", label: str = "ig") -> Evaluation:
    """Results with these scores, without a model."""
    values = torch.from_numpy(scores)[None]
    layout = Layout("dict", (label,), "torch", torch.device("cpu"), torch.float64)
    context = Context(layout, torch.zeros(len(scores), dtype=torch.int64), 0, 0.0)
    return Evaluation({metric: Result(METRICS.get(metric)(), context, values)}, Cost(Rows(0)))


def drawn(count: int, mean: float = 0.5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 0.2, size=count)


def test_windows_have_the_interval_of_their_scores() -> None:
    monitor = Monitor(window=70, reference=2)
    first = monitor.fold(results(drawn(100)), label="a")
    second = monitor.fold(results(drawn(120, seed=1)), label="b")
    assert [(line.window, line.label, line.rows, line.reference) for line in (*first, *second)] == [
        (1, "a", 70, True),
        (2, "b", 70, True),
        (3, "b", 70, False),
    ]
    whole = np.concatenate((drawn(100), drawn(120, seed=1)))
    for at, line in enumerate((*first, *second)):
        expected = estimates(torch.from_numpy(whole[None, 70 * at : 70 * at + 70]))[0]
        assert (line.mean, line.low, line.high) == pytest.approx(
            (expected.mean, expected.low, expected.high), rel=1e-12
        )
    assert monitor.to_frame().height == 3


def test_the_cutting_into_batches_does_not_matter(tmp_path) -> None:
    scores = np.concatenate((drawn(150), drawn(250, mean=0.3, seed=1)))
    once, often = Monitor(window=50, reference=2), Monitor(window=50, reference=2)
    once.fold(results(scores))
    for at, part in enumerate(np.split(scores, [1, 33, 120, 121, 333])):
        often.fold(results(part))
        often.save(tmp_path / f"{at}.json")
        often = Monitor.load(tmp_path / f"{at}.json")
    assert [line.mean for line in often.windows] == [line.mean for line in once.windows]
    assert [line.alarm for line in often.windows] == [line.alarm for line in once.windows]
    assert often.windows[-1].evidence == pytest.approx(once.windows[-1].evidence, abs=1e-9)


def test_a_fall_is_told_and_stays_told() -> None:
    monitor = Monitor()
    monitor.fold(results(drawn(500)))
    for day in range(20):
        assert not monitor.fold(results(drawn(100, seed=day + 1)))[0].alarm
    daily_alarms = [monitor.fold(results(drawn(100, mean=0.35, seed=day + 50)))[0].alarm for day in range(6)]
    assert daily_alarms[-1]
    assert monitor.fold(results(drawn(100, mean=0.9, seed=99)))[0].alarm
    assert monitor.alarmed


def test_a_rise_of_what_is_better_low_is_a_fall() -> None:
    monitor = Monitor()
    monitor.fold(results(drawn(500), metric="infidelity"))
    better = monitor.fold(results(drawn(300, mean=0.2, seed=1), metric="infidelity"))[0]
    assert not better.alarm
    assert better.low < better.mean < better.high
    assert better.mean == pytest.approx(0.2, abs=0.05)
    assert monitor.fold(results(drawn(300, mean=0.8, seed=2), metric="infidelity"))[0].alarm


def test_a_reference_grows_until_it_has_a_hundred_rows() -> None:
    monitor = Monitor()
    phases = [monitor.fold(results(drawn(40, seed=day)))[0].reference for day in range(5)]
    assert phases == [True, True, True, False, False]


def test_a_reference_must_be_above_chance() -> None:
    monitor = Monitor(reference=2)
    monitor.fold(results(drawn(200, mean=0.0)))
    before = monitor.content()
    with pytest.raises(ValueError, match=r"^reference: dpc of ig is -?0\.0.* not better than chance \(0\)"):
        monitor.fold(results(drawn(200, mean=0.0, seed=1)))
    assert monitor.content() == before
    Monitor().fold(results(drawn(200, mean=0.0), metric="infidelity"))  # its chance is not known


def test_a_state_written_before_chance_was_kept_is_read(tmp_path) -> None:
    monitor = Monitor()
    monitor.fold(results(drawn(200)))
    held = read_sealed_json(monitor.content())
    del held["tracks"][0]["chance"]
    (tmp_path / "state.json").write_bytes(sealed_json(held))
    assert Monitor.load(tmp_path / "state.json").fold(results(drawn(100, seed=1)))[0].window == 2


def test_a_batch_that_comes_twice_changes_nothing() -> None:
    monitor = Monitor()
    monitor.fold(results(drawn(200)))
    with pytest.warns(UserWarning, match=r"\(again\) was folded before"):
        assert monitor.fold(results(drawn(200)), label="again") == []
    assert len(monitor.windows) == 1


def test_results_of_a_stream_are_one_batch() -> None:
    torch.manual_seed(0)
    model, x = torch.nn.Linear(3, 2), torch.randn(250, 3)
    good = x * calls.explained(verax.attribution.Gradient(), model, x)
    monitor = Monitor()
    (window,) = monitor.fold(stream(model, x, {"x": good, "2x": 2 * good}, ["pc"], batch_size=8), label="all")[:1]
    expected = calls.evaluate(model, x, {"x": good}, ["pc"], batch_size=8)["pc"].mean()["x"]
    assert (window.rows, window.attribution) == (250, "x")
    assert window.mean == pytest.approx(expected.mean, rel=1e-9)
    assert [track.rate for track in monitor.tracks] == [0.025, 0.025]  # both share the false alarms


def test_false_alarms_stay_rare_in_a_small_simulation() -> None:
    alarms = 0
    for run in range(12):
        draws = np.random.default_rng(run)
        monitor = Monitor(alarm=0.05)
        monitor.fold(results(draws.beta(2, 3, size=400)))
        for _ in range(40):
            monitor.fold(results(draws.beta(2, 3, size=30)))
        alarms += monitor.alarmed
    assert alarms <= 2


def test_a_damaged_state_is_refused(tmp_path) -> None:
    monitor = Monitor(about={"model": "m"})
    monitor.fold(results(drawn(200)))
    path = tmp_path / "state.json"
    monitor.save(path)
    assert Monitor.load(path).about == {"model": "m"}
    path.write_text(path.read_text().replace('"alarm": 0.05', '"alarm": 0.50'))
    with pytest.raises(ValueError, match="damaged or edited"):
        Monitor.load(path)
    path.write_text("{}")
    with pytest.raises(ValueError, match="no state of a monitor"):
        Monitor.load(path)


def test_what_cannot_be_done_is_said() -> None:
    with pytest.raises(ValueError, match="alarm: expected a share"):
        Monitor(alarm=1.5)
    monitor = Monitor()
    monitor.fold(results(drawn(200)))
    with pytest.raises(ValueError, match="expected dpc of ig, as in the batches before, got dpc of lime"):
        monitor.fold(results(drawn(10), label="lime"))
    with pytest.raises(ValueError, match="finite scores"):
        monitor.fold(results(np.array([math.nan])))
    with pytest.raises(ValueError, match="got none"):
        monitor.fold([])
    with pytest.raises(ValueError, match="all 200 scores are 0"):
        Monitor().fold(results(np.zeros(200)))


def test_the_page_says_whether_it_fell(tmp_path) -> None:
    monitor = Monitor(about={"model": "<b>m</b>"})
    with pytest.raises(ValueError, match="no window"):
        monitor.report(tmp_path / "r.html")
    monitor.fold(results(drawn(300)), label="monday")
    monitor.report(tmp_path / "r.html")
    assert "Not asked yet" in (tmp_path / "r.html").read_text()
    monitor.fold(results(drawn(300, seed=1)), label="tuesday")
    monitor.report(tmp_path / "r.html")
    assert "No sign of it in 1 window" in (tmp_path / "r.html").read_text()
    monitor.fold(results(drawn(300, mean=0.1, seed=2)), label="wednesday")
    monitor.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "Yes: dpc of ig, alarm in window 3 (wednesday)." in page
    svg = page[page.index("<svg") : page.index("</svg>")]
    for word in ("window", "dpc of ig", "reference", "watched", "alarm"):
        assert f">{word}</text>" in svg
    assert "&lt;b&gt;m" in page
    assert "<script" not in page
