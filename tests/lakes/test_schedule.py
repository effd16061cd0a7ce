"""The schedule and its loop, with a clock and workers of the tests' own: nothing is forgotten, nothing counts twice."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verax.lakes.engine import Finished, Lost, run_tasks
from verax.lakes.parts import Part
from verax.lakes.schedule import Schedule
from verax.lakes.score import Scored, Task
from verax.lakes.storage import LocalFolder


def tasks(rows: dict[str, int]) -> dict[str, Task]:
    folder = LocalFolder("/lake")
    return {name: Task(Part(folder, f"{name}.parquet", count, (), (0, 0)), {}, "") for name, count in rows.items()}


class FakeCrew:
    """Workers that take as many seconds as a part has rows, or are lost, as the test says."""

    def __init__(self, size: int, losses: Sequence[int] = (), slow: Sequence[int] = ()) -> None:
        self.size, self.now = size, 0.0
        self.losses, self.slow = set(losses), set(slow)  # of the parts handed out, by their count; workers by number
        self.given: list[str] = []
        self.busy: dict[int, tuple[float, Task, bool]] = {}

    def clock(self) -> float:
        return self.now

    def give(self, worker: int, task: Task) -> None:
        seconds = task.inputs.rows * (1000.0 if worker in self.slow else 1.0)
        self.busy[worker] = (self.now + seconds, task, len(self.given) in self.losses)
        self.given.append(task.inputs.stem)

    def events(self, seconds: float) -> Sequence[Finished | Lost]:
        assert self.busy, "nobody works, and there is work left"
        worker = min(self.busy, key=lambda one: self.busy[one][0])
        until, task, lost = self.busy[worker]
        if until > self.now + seconds:
            self.now += seconds
            return []
        self.now = until
        del self.busy[worker]
        return [Lost(worker, "test") if lost else Finished(worker, Scored(task.inputs.stem, task.inputs.rows, {}))]


@given(
    rows=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    size=st.integers(1, 5),
    losses=st.sets(st.integers(0, 30), max_size=3),
)
def test_every_part_is_done_once_whoever_is_lost(rows: list[int], size: int, losses: set[int]) -> None:
    named = {f"part {number}": count for number, count in enumerate(rows)}
    crew, done = FakeCrew(size, sorted(losses)), []
    run_tasks(tasks(named), crew, Schedule(named), lambda scored: done.append(scored.stem), crew.clock)
    assert sorted(done) == sorted(named)
    assert crew.now >= sum(rows) / size


def test_the_largest_parts_go_first_and_a_lost_one_goes_next() -> None:
    schedule = Schedule({"a": 1, "b": 5, "c": 3})
    assert [schedule.next(worker, 0.0) for worker in ("x", "y")] == ["b", "c"]
    schedule.lost("x")
    assert schedule.next("z", 1.0) == "b"


def test_a_late_part_is_given_to_a_second_worker_and_counts_once() -> None:
    named = {"a": 10, "b": 10, "c": 10}
    crew, done = FakeCrew(2, slow=[1]), []
    schedule = Schedule(named)
    run_tasks(tasks(named), crew, schedule, lambda scored: done.append(scored.stem), crew.clock)
    assert sorted(done) == ["a", "b", "c"]
    assert crew.given.count("b") == 2
    assert crew.now < 100  # where the slow worker alone would have taken 10,000
    patient = FakeCrew(2, slow=[1])
    run_tasks(tasks(named), patient, Schedule(named, patience=1e9), lambda scored: None, patient.clock)
    assert patient.now == pytest.approx(10_000)


def test_a_late_part_is_not_given_out_while_it_is_on_time_or_with_two() -> None:
    schedule = Schedule({"a": 10, "b": 10}, patience=3.0)
    schedule.next("x", 0.0)
    schedule.next("y", 0.0)
    assert schedule.finished("x", 10.0)
    assert schedule.next("x", 29.0) is None
    assert schedule.next("x", 31.0) == "b"
    assert schedule.next("z", 99.0) is None
    assert schedule.finished("x", 41.0)
    assert not schedule.finished("y", 50.0)
    assert schedule.finished_all


def test_a_part_that_costs_one_worker_after_the_other_is_named() -> None:
    named = {"fine": 1, "poison": 2}
    crew = FakeCrew(1, losses=[0, 1, 2, 3])
    with pytest.raises(
        ChildProcessError, match=r"/lake/poison\.parquet: 4 workers were lost while they scored it \(test"
    ):
        run_tasks(tasks(named), crew, Schedule(named), lambda scored: None, crew.clock)


def test_a_part_is_not_blamed_for_lost_machines() -> None:
    schedule = Schedule({"a": 1})
    for _ in range(9):
        schedule.next("x", 0.0)
        assert not schedule.given_up(schedule.lost("x", with_machine=True))
    for count in range(4):
        schedule.next("x", 0.0)
        assert schedule.given_up(schedule.lost("x")) == (count == 3)


def test_a_worker_that_is_lost_without_a_part_is_no_loss() -> None:
    class Fragile(FakeCrew):
        """Whoever has nothing to do is lost."""

        def events(self, seconds: float) -> Sequence[Finished | Lost]:
            idle = [Lost(worker, "test") for worker in range(self.size) if worker not in self.busy]
            return [*idle, *super().events(seconds)]

    named, done = {"a": 1, "b": 2}, []
    crew, schedule = Fragile(4), Schedule(named)
    run_tasks(tasks(named), crew, schedule, lambda scored: done.append(scored.stem), crew.clock)
    assert sorted(done) == ["a", "b"]
    assert not schedule.losses


def test_what_is_left_goes_by_rows() -> None:
    schedule = Schedule({"a": 10, "b": 30})
    assert schedule.seconds_left(2) is None
    schedule.next("x", 0.0)
    schedule.finished("x", 15.0)  # b, half a second per row
    assert schedule.seconds_left(2) == pytest.approx(2.5)
