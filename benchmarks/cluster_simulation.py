"""A cluster that never was: slow workers and lost machines, under the schedule and the loop that real engines run.

``verax.lakes.engine.run_tasks`` and ``verax.lakes.schedule.Schedule`` are the ones of ``verax evaluate --engine``; only
workers and clock are simulated. 100 million rows in equal parts, 16 machines of 16 workers. A part takes its rows times
the pace, with a spread of 10 % (lognormal). *Stragglers*: so many workers are ten times slower than the rest, from the
start. *Lost machines*: each is lost after an exponential time of this mean, with all that its workers had in hand, and
is back two minutes later. ``of ideal`` is the time of a cluster without trouble and without a last part, divided by the
time taken; three seeds each.
"""

import argparse
import heapq
import statistics
from collections.abc import Sequence

import common
import numpy as np

from verax.lakes.engine import Finished, Lost, run_tasks
from verax.lakes.parts import Part
from verax.lakes.schedule import PATIENCE, Schedule
from verax.lakes.score import Scored, Task
from verax.lakes.storage import LocalFolder

ROWS, MACHINES, WORKERS = 100_000_000, 16, 16
PACE = 7e-3  # seconds of one worker per row: PC, DPC and Infidelity, 700 model rows at 100,000 a second
BACK = 120.0
SEEDS = range(3)
HOUR = 3600.0


class SimulatedCrew:
    """Workers on machines, on a clock that jumps to whatever happens next."""

    def __init__(self, slow: float, mean_life: float | None, seed: int) -> None:
        self.size, self.now = MACHINES * WORKERS, 0.0
        self.draws = np.random.default_rng(seed)
        self.slower = np.where(self.draws.random(self.size) < slow, 10.0, 1.0)
        self.mean_life = mean_life
        self.ready = np.zeros(self.size)  # when a worker is there again
        self.hands: dict[int, tuple[int, Task]] = {}
        self.given = 0
        self.queue: list[tuple[float, int, int]] = []  # time, number of the hand-out, worker
        self.ends = [self._life() for _ in range(MACHINES)]

    def clock(self) -> float:
        """The time of the simulation."""
        return self.now

    def give(self, worker: int, task: Task) -> None:
        """Begin a part, as soon as the worker is there."""
        seconds = task.inputs.rows * PACE * self.slower[worker] * self.draws.lognormal(0.0, 0.1)
        self.given += 1
        self.hands[worker] = (self.given, task)
        heapq.heappush(self.queue, (max(self.now, self.ready[worker]) + seconds, self.given, worker))

    def events(self, seconds: float) -> Sequence[Finished | Lost]:
        """Whatever happens next."""
        machine = int(np.argmin(self.ends))
        until = self.now + seconds
        if self.ends[machine] <= min(until, self.queue[0][0] if self.queue else until):
            return self._lose(machine)
        if not self.queue or self.queue[0][0] > until:
            self.now = until
            return []
        self.now, number, worker = heapq.heappop(self.queue)
        if self.hands.get(worker, (0, None))[0] != number:
            return []  # of a machine that was lost meanwhile
        _, task = self.hands.pop(worker)
        return [Finished(worker, Scored(task.inputs.stem, task.inputs.rows, {}))]

    def _lose(self, machine: int) -> Sequence[Lost]:
        self.now = self.ends[machine]
        workers = range(machine * WORKERS, (machine + 1) * WORKERS)
        self.ready[list(workers)] = self.now + BACK
        self.ends[machine] = self.now + BACK + self._life()
        return [
            Lost(worker, "its machine is lost", with_machine=True) for worker in workers if self.hands.pop(worker, None)
        ]

    def _life(self) -> float:
        return np.inf if self.mean_life is None else float(self.draws.exponential(self.mean_life))


def simulated(part_rows: int, slow: float, mean_life: float | None, patience: float, seed: int) -> dict[str, float]:
    count = ROWS // part_rows
    parts = {f"{number:06}": part_rows for number in range(count)}
    folder = LocalFolder("/simulated")
    tasks = {name: Task(Part(folder, f"{name}.parquet", part_rows, (), (0, 0)), {}, "") for name in parts}
    crew, done = SimulatedCrew(slow, mean_life, seed), []
    schedule = Schedule(parts, patience)
    run_tasks(tasks, crew, schedule, lambda scored: done.append(scored.stem), crew.clock)
    assert sorted(done) == sorted(parts)  # nothing is lost, nothing counts twice
    fast = float((1 / crew.slower).sum())
    return {"seconds": crew.now, "of_ideal": ROWS * PACE / fast / crew.now, "handed_out": crew.given / count}


CASES = [
    ("no trouble, parts of 100,000 rows", 100_000, 0.0, None, PATIENCE),
    ("no trouble, parts of 10,000 rows", 10_000, 0.0, None, PATIENCE),
    ("5 % slow, late parts left alone", 10_000, 0.05, None, 1e9),
    ("5 % slow, late parts given twice", 10_000, 0.05, None, PATIENCE),
    ("machines live 8 hours", 10_000, 0.0, 8 * HOUR, PATIENCE),
    ("machines live 1 hour", 10_000, 0.0, HOUR, PATIENCE),
    ("5 % slow, machines live 1 hour", 10_000, 0.05, HOUR, PATIENCE),
    ("the same, parts of 100,000 rows", 100_000, 0.05, HOUR, PATIENCE),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed")
    options = parser.parse_args()
    options.repeats = 1 if options.quick else len(SEEDS)
    found = {}
    for name, *case in CASES:
        found[name] = [simulated(*case, seed) for seed in SEEDS[: options.repeats]]
    rows = []
    for name, runs in found.items():
        seconds, share, given = (statistics.mean(run[key] for run in runs) for key in runs[0])
        rows.append((name, f"{seconds / 60:.1f}", f"{share:.2f}", f"{given:.3f}"))
    print(f"{ROWS:,} rows, {MACHINES} machines of {WORKERS} workers, {1 / PACE:,.0f} rows a second each\n")
    common.print_table(("", "minutes", "of ideal", "parts scored / parts"), rows)
    path = common.write_results("cluster_simulation", options, pace=PACE, back=BACK, runs=found)
    print(f"\nRaw runs: {path}")


if __name__ == "__main__":
    main()
