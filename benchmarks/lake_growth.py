"""How a lake's scoring grows with its rows: time and memory of ``score_lake``, two workers, parts of 10,000 rows.

The paper's network on 20 features, one attribution, whose parts overlap two parts of the rows each; PC in five steps.
Each size runs in a fresh process. ``seconds`` are those of a clock, which others on the machine prolong; ``CPU
seconds`` are what all processes together computed, start included; ``for a million more`` is what they grow by from one
line to the next, the same on every line where time is linear, and ``of bare`` the share that the network alone, on one
thread, takes of that. Memory is the highest of the first process, and of the largest worker, or what it had inherited.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import common
import lake_data

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
PART_ROWS = 10_000
WORKERS = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="rows of the largest lake")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(Path(options.measure[0]), Path(options.measure[1]))))
        return
    common.print_header(f"Growth of a lake, {WORKERS} workers")
    sizes = [size for size in (*SIZES, 10 * SIZES[-1]) if size <= options.largest // (100 if options.quick else 1)]
    with tempfile.TemporaryDirectory() as folder:
        model = lake_data.write_model(Path(folder))
        found = {str(size): in_fresh_process(Path(folder), model, size) for size in sizes}
    report(found)
    options.repeats = 1
    path = common.write_results("lake_growth", options, part_rows=PART_ROWS, workers=WORKERS, sizes=found)
    print(f"\nRaw figures: {path}")


def in_fresh_process(folder: Path, model: Path, rows: int) -> dict[str, Any]:
    own = folder / str(rows)
    lake_data.write_lake(own, rows, PART_ROWS)
    command = [sys.executable, __file__, "--measure", str(own), str(model)]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    bare = lake_data.bare_seconds(rows * lake_data.ROWS_PER_INPUT)
    return {**json.loads(finished.stdout), "bare_cpu_seconds": bare, "load": os.getloadavg()[0]}


def measured(folder: Path, model: Path) -> dict[str, float]:
    began = time.perf_counter()
    lake_data.score(folder, model, WORKERS)
    seconds = time.perf_counter() - began
    own, workers = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "seconds": seconds,
        "cpu_seconds": sum(who.ru_utime + who.ru_stime for who in (own, workers)),
        "mib_first": own.ru_maxrss / 1024,
        "mib_worker": workers.ru_maxrss / 1024,
    }


def report(found: dict[str, dict[str, float]]) -> None:
    rows = []
    for size, before in zip(found, (None, *found), strict=False):
        one, last = found[size], found.get(before or "")
        more = share = ""
        if last is not None and int(before or 0) > PART_ROWS:  # a single part is scored by the first process alone
            extra = one["cpu_seconds"] - last["cpu_seconds"]
            more = f"{extra / (int(size) - int(before or 0)) * 1e6:.0f}"
            share = f"{(one['bare_cpu_seconds'] - last['bare_cpu_seconds']) / extra:.2f}"
        memory = f"{one['mib_first']:.0f}", f"{one['mib_worker']:.0f}" if one["mib_worker"] else ""
        rows.append((f"{int(size):,}", f"{one['seconds']:.1f}", f"{one['cpu_seconds']:.1f}", more, share, *memory))
    head = ("rows", "seconds", "CPU seconds", "for a million more", "of bare", "MiB, first process", "MiB, a worker")
    common.print_table(head, rows)


if __name__ == "__main__":
    main()
