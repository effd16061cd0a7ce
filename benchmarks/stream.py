"""A stream over a million rows of 20 features with one attribution: how near to the bare model, in what memory.

The paper's network, rows and attributions in memory-mapped files, DPC with 20 steps. Each stretch of the stream is
followed by a bare forward pass, in the same batches, over an eighth of the rows that the stretch asked of the model, so
that slow moments of the machine meet both. Seconds are taken by the clock on the wall and, because other processes may
be running, as time of this process on the processors. Memory is what the stream adds to a fresh process, its mapped
files included; there the model is a small one, because memory does not hang on its speed.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import numpy as np
from torch import nn

import verax

FEATURES, WANTED, _BARE = 20, 0.85, 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the stream (default 1,000,000)")
    parser.add_argument("--quick", action="store_true", help="100,000 rows")
    parser.add_argument("--memory-worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.rows, options.repeats = 100_000 if options.quick else options.rows, 1
    with tempfile.TemporaryDirectory() as folder:
        if options.memory_worker:
            print(json.dumps(memory(Path(folder), options.rows)))
            return
        common.print_header(f"A stream of {options.rows:,} rows")
        found = against_bare(*written(Path(folder), options.rows))
    found["memory"] = common.in_fresh_process(__file__, "--rows", str(options.rows))
    report(found)
    print(f"\nRaw stretches: {common.write_results('stream', options, rows=options.rows, **found)}")


def written(folder: Path, rows: int) -> tuple[Any, Any]:
    """Inputs and attributions in files, written in parts and opened as maps."""
    for name, seed in (("inputs", 1), ("attributions", 2)):
        held = np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.float32, shape=(rows, FEATURES))
        draws = np.random.default_rng(seed)
        for start in range(0, rows, 50_000):
            stop = min(rows, start + 50_000)
            held[start:stop] = draws.standard_normal((stop - start, FEATURES), dtype=np.float32)
        held.flush()
    return tuple(np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("inputs", "attributions"))  # type: ignore[return-value]


def against_bare(inputs: Any, attributions: Any) -> dict[str, Any]:
    """Seconds and rows of each stretch, and of the bare model on as many rows."""
    model = common.paper_mlp(FEATURES)
    scorer = verax.Scorer(model, returns="logits")
    perturbed = common.normal_inputs(1 << 18, FEATURES)
    batch = scorer.rows_per_call(perturbed, None, None)
    common.bare_forward(model, perturbed, batch)
    problem = verax.Problem(scorer, inputs[:1])
    verax.stream(problem, inputs[:4096], {"noise": attributions[:4096]}, ["dpc"]).totals()
    streamed = verax.stream(problem, inputs, {"noise": attributions}, ["dpc"])
    rounds: list[dict[str, float]] = []
    while True:
        before = scorer.rows
        wall, cpu = clocked(lambda: next(streamed, None))
        asked = scorer.rows - before
        if not asked:
            break
        many = min(len(perturbed), max(batch, asked // _BARE))
        bare_wall, bare_cpu = clocked(lambda many=many: common.bare_forward(model, perturbed[:many], batch))
        rounds.append(
            {"rows": asked, "bare_rows": many, "wall": wall, "cpu": cpu, "bare_wall": bare_wall, "bare_cpu": bare_cpu}
        )
    totals = streamed.totals()
    return {"batch_size": batch, "inputs": totals.count, "mean": totals["dpc"].mean()["noise"].mean, "rounds": rounds}


def clocked(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the wall, and of this process."""
    cpu = time.process_time()
    return common.seconds(work), time.process_time() - cpu


def memory(folder: Path, rows: int) -> dict[str, int]:
    """What a stream adds to a process that has loaded everything."""
    inputs, attributions = written(folder, rows)
    problem = verax.Problem(verax.Scorer(nn.Linear(FEATURES, 1), returns="logits"), inputs[:1])
    verax.stream(problem, inputs[:64], {"noise": attributions[:64]}, ["dpc"]).totals()
    return common.peak_extra_bytes(lambda: verax.stream(problem, inputs, {"noise": attributions}, ["dpc"]).totals())


def report(found: dict[str, Any]) -> None:
    rounds = found["rounds"]
    rows = sum(one["rows"] for one in rounds)
    shares, lines = {}, []
    for clock in ("wall", "cpu"):
        took = sum(one[clock] for one in rounds)
        bare = sum(one[f"bare_{clock}"] * one["rows"] / one["bare_rows"] for one in rounds)
        shares[clock] = bare / took
        lines += [(f"verax.stream, {clock}", f"{took:.1f}", f"{rows / took:,.0f}")]
        lines += [(f"bare forward, {clock}", f"{bare:.1f}", f"{rows / bare:,.0f}")]
    common.print_table(("", "seconds", "model rows per second"), lines)
    print(f"\n{found['inputs']:,} rows, {rows:,} model rows in {len(rounds)} stretches; bare on an eighth, scaled")
    for clock, share in shares.items():
        print(
            f"Share of the bare forward, {clock}: {share:.3f} ({common.verdict(share >= WANTED)}, wanted >= {WANTED})"
        )
    print(common.memory_line(found["memory"]["extra"]))
    print(f"Peak of the whole process: {found['memory']['peak'] / 2**20:,.0f} MiB")


if __name__ == "__main__":
    main()
