"""Engines: each task once, the same from all of them; a worker that dies is replaced, a task that kills is named."""

import os
from pathlib import Path

import pytest

from core.errands import errand, squared
from verax.core.engine import TRIES, Engine, Processes, TaskLostError, ThisProcess


@pytest.mark.parametrize("engine", [ThisProcess(squared), Processes([squared] * 2)])
def test_each_task_is_done_once_and_an_open_engine_takes_further_ones(engine: Engine) -> None:
    with engine:
        assert sorted(engine.run(iter(range(7)))) == [number**2 for number in range(7)]
        assert list(engine.run([])) == []
        assert sorted(engine.run([3, 4])) == [9, 16]


def test_workers_are_told_apart_from_this_process_and_tell_what_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread for each library, whatever is set here; what else is set here is theirs as well."""
    for name, value in {"VERAX_KEPT": "here", "OMP_NUM_THREADS": "7", "MALLOC_TRIM_THRESHOLD_": "5"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
    task, events = "say VERAX_KEPT,OMP_NUM_THREADS,POLARS_MAX_THREADS,MALLOC_TRIM_THRESHOLD_", list[str]()
    with Processes([errand, errand]) as engine:
        results = list(engine.run([task] * 6, events.append))
    assert events == [f"begun {task}"] * 6
    assert os.getpid() not in {process for _, process, *_ in results}
    assert all(rest == [["here", "1", "1", "5"], 1] for _, _, *rest in results)
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "POLARS_MAX_THREADS" not in os.environ


def test_a_worker_that_dies_is_replaced_and_its_task_given_to_the_next(tmp_path: Path) -> None:
    died = tmp_path / "died"
    with Processes([errand, errand]) as engine:
        results = [task for task, *_ in engine.run(["say", f"die {died}", "say", "say"])]
        assert sorted(results) == sorted(["say", f"die {died}", "say", "say"])
    assert died.exists()
    assert not any(worker.process.is_alive() for worker in engine.workers.values())


def test_a_task_that_no_worker_survives_is_named_and_all_workers_end() -> None:
    events: list[str] = []
    with (
        pytest.raises(TaskLostError, match=rf"^the task 'die': {TRIES} worker processes died with it, .* is stored"),
        Processes([errand]) as engine,
    ):
        list(engine.run(["say", "die", "say"], events.append, name=lambda task: f"the task {task!r}"))
    assert events == ["begun say", *["begun die"] * TRIES]


def test_an_error_in_a_worker_is_raised_here_as_it_was() -> None:
    with pytest.raises(ValueError, match=r"^this is wrong$"), Processes([errand]) as engine:
        list(engine.run(["say", "fail this", "say"]))
