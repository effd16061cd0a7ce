"""How a lake's scoring grows with worker processes: 1, 2, 4, ... up to the cores, strong scaling.

The paper's network on 20 features, one attribution, PC in five steps, parts of 1,000 rows, each a batch; the clock runs
from the moment when as many batches are scored as there are workers. Beside it the bare network in as many processes,
each with its share of as many rows: what the machine itself gives.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import common
import lake_data
import torch

from verax.core.folders import open_folder
from verax.lakes import BatchScorer
from verax.scale.lake import Join, open_lake
from verax.scale.run import BatchWriter, run_local

PARTS, PART_ROWS = 320, 1_000
WANTED = 0.85


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="an eighth of the parts")
    parser.add_argument("--most", type=int, default=len(os.sched_getaffinity(0)), help="workers at most")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    counts = [2**power for power in range(options.most.bit_length()) if 2**power <= options.most]
    facts = common.machine()
    print(f"Workers of a lake: {facts['cpu']}, {facts['cores']} cores, load {facts['load_average'][0]:.1f}\n")
    with tempfile.TemporaryDirectory() as folder:
        model = lake_data.write_model(Path(folder))
        parts = PARTS // (8 if options.quick else 1)
        lake_data.write_lake(Path(folder) / "lake", (parts + max(counts)) * PART_ROWS, PART_ROWS)
        found = [measured(Path(folder), model, count, options.repeats) for count in counts]
    report(found)
    if common.RESULTS.is_dir():
        name = f"workers-{max(counts)}{'-quick' if options.quick else ''}.json"
        content = {"machine": facts, "torch": torch.__version__, "parts": parts, "part_rows": PART_ROWS, "found": found}
        (common.RESULTS / name).write_text(json.dumps(content, indent=2) + "\n")
        print(f"\nRaw repeats: {common.RESULTS / name}")


def measured(folder: Path, model: Path, workers: int, repeats: int) -> dict[str, Any]:
    """Seconds of each repeat, all workers ready, and of the bare network over as many rows."""
    seconds, rows = zip(*(timed(folder, model, workers, number) for number in range(repeats)), strict=True)
    model_rows = rows[0] * lake_data.ROWS_PER_INPUT
    return {"workers": workers, "rows": model_rows, "seconds": seconds, "bare": bare(workers, model_rows, repeats)}


def timed(folder: Path, model: Path, workers: int, number: int) -> tuple[float, int]:
    """Seconds, and the rows that were scored in them."""
    lakes = {"": open_lake("rows", str(folder / "lake/rows")), "shap": open_lake("shap", str(folder / "lake/shap"))}
    writer = BatchWriter(
        BatchScorer(lake_data.problem(model), ("shap",), lake_data.METRICS),
        open_folder(str(folder / f"scores-{workers}-{number}")),
    )
    with tempfile.TemporaryDirectory() as spill:
        join = Join("id", lakes, spill)
        began, rows = 0.0, 0
        for at, batch in enumerate(run_local(writer, join.batches(writer.scorer, scored=False), workers), start=1):
            rows += batch.rows if at > workers else 0
            began = time.perf_counter() if at == workers else began
        seconds = time.perf_counter() - began
        join.connection.close()
    return seconds, rows


def bare(workers: int, model_rows: int, repeats: int) -> list[float]:
    """Seconds of the network alone, in as many processes with one thread each."""
    context = multiprocessing.get_context("spawn")
    shares = [model_rows // workers] * workers
    with context.Pool(workers, torch.set_num_threads, (1,)) as pool:
        pool.map(forward, [4096] * workers, chunksize=1)
        found = []
        for _ in range(repeats):
            began = time.perf_counter()
            pool.map(forward, shares, chunksize=1)
            found.append(time.perf_counter() - began)
    return found


def forward(rows: int) -> None:
    batch = common.normal_inputs(1024, lake_data.FEATURES)
    model = common.paper_mlp(lake_data.FEATURES)
    with torch.inference_mode():
        for _ in range(rows // len(batch)):
            model(batch)


def report(found: list[dict[str, Any]]) -> None:
    """Efficiency: the speed of one worker times their number, of which this is the share."""
    alone, bare_alone = min(found[0]["seconds"]), min(found[0]["bare"])
    rows = []
    for one in found:
        count, best, least = one["workers"], min(one["seconds"]), min(one["bare"])
        efficiency, hardware = alone / found[0]["rows"] * one["rows"] / best / count, bare_alone / least / count
        hardware *= one["rows"] / found[0]["rows"]
        verdict = common.verdict(efficiency >= WANTED)
        cells = (
            f"{best:.2f}",
            f"{one['rows'] / best:,.0f}",
            f"{efficiency:.2f}",
            f"{hardware:.2f}",
            f"{least / best:.2f}",
        )
        rows.append((str(count), *cells, verdict))
    head = (
        "workers",
        "seconds",
        "model rows/s",
        "of linear",
        "bare network, of linear",
        "share of bare",
        f">= {WANTED}",
    )
    common.print_table(head, rows)


if __name__ == "__main__":
    main()
