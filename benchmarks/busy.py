"""Two threads of torch on a quiet and on a busy machine, waiting actively and passively.

Threads that wait for each other at the end of each layer turn in place by default: beside another program they keep the
core from the thread that has work. ``OMP_WAIT_POLICY=passive``, set before torch is loaded, lets them sleep. Rows per
second of the paper's network in four processes, each repeat in a fresh one: alone or beside a process for each core
that only counts, under each policy. ``python benchmarks/busy.py``; begin on a quiet machine: the result
has the load before and after.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from statistics import median

from common import arguments, bare_forward, normal_inputs, paper_mlp, print_header, print_table, seconds, write_results

THREADS, ROWS, BATCH = 2, 200_000, 4096
POLICIES = ("active", "passive")
COUNT = "while True: pass"
WORKER = "import busy; print(busy.rows_per_second({rows}))"


def rows_per_second(rows: int) -> float:
    """What one process measures, after a pass that is not timed."""
    model, inputs = paper_mlp(), normal_inputs(rows)
    bare_forward(model, inputs[:BATCH], BATCH)
    return rows / seconds(lambda: bare_forward(model, inputs, BATCH))


def measured(policy: str, rows: int) -> float:
    """The same in a fresh process, since the policy is read when torch is loaded."""
    environment = os.environ | {"OMP_WAIT_POLICY": policy, "OMP_NUM_THREADS": str(THREADS)}
    command = [sys.executable, "-c", WORKER.format(rows=rows)]
    done = subprocess.run(
        command, env=environment, cwd=os.path.dirname(__file__), check=True, capture_output=True, text=True
    )
    return float(done.stdout)


@contextlib.contextmanager
def others(count: int) -> Iterator[None]:
    """So many processes that do nothing but count."""
    running = [subprocess.Popen([sys.executable, "-c", COUNT]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def main() -> None:
    """Measure all four in turn and print their medians."""
    options = arguments(__doc__)
    rows = 20_000 if options.quick else ROWS
    print_header(f"{THREADS} threads, {rows:,} rows of the paper's network")
    before = os.getloadavg()
    print(f"load before: {before[0]:.1f} (one minute), {before[1]:.1f} (five)\n")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    speeds: dict[str, list[float]] = {f"{load}, {policy}": [] for load in ("quiet", "busy") for policy in POLICIES}
    for _ in range(1 if options.quick else options.repeats):
        for load, count in (("quiet", 0), ("busy", cores)):
            with others(count):
                for policy in POLICIES:
                    speeds[f"{load}, {policy}"].append(measured(policy, rows))
    print_table(("machine, threads wait", "rows/s"), [(name, f"{median(all_):,.0f}") for name, all_ in speeds.items()])
    print(write_results("busy", options, rows=rows, threads=THREADS, load_before=before, rows_per_second=speeds))


if __name__ == "__main__":
    main()
