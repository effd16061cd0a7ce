"""How a lake's scoring grows with worker processes: 1, 2, 4, ... up to the cores, strong scaling.

The paper's network on 20 features, one attribution, PC in five steps, 320 parts of 1,000 rows; workers have been
started and have scored a part each before the clock runs. Beside it the bare network in as many processes, each with
its share of as many rows: what the machine itself gives. Needs torch, numpy and polars, nothing else; with ``--ray``
Ray, and then workers are actors.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import common
import lake_data
import torch

from verax.lakes.engine import Crew, run_tasks
from verax.lakes.job import Job, ModelFile
from verax.lakes.parts import open_lake
from verax.lakes.processes import Processes
from verax.lakes.run import _tasks
from verax.lakes.schedule import Schedule
from verax.lakes.score import Task
from verax.lakes.storage import LocalFolder

PARTS, PART_ROWS = 320, 1_000
WANTED = 0.85


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="an eighth of the parts")
    parser.add_argument("--most", type=int, default=len(os.sched_getaffinity(0)), help="workers at most")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--ray", action="store_true", help="actors of a Ray cluster on this machine, not processes")
    options = parser.parse_args()
    counts = [2**power for power in range(options.most.bit_length()) if 2**power <= options.most]
    facts = common.machine()
    print(f"Workers of a lake: {facts['cpu']}, {facts['cores']} cores, load {facts['load_average'][0]:.1f}\n")
    with tempfile.TemporaryDirectory() as folder:
        model = lake_data.write_model(Path(folder))
        parts = PARTS // (8 if options.quick else 1)
        lake_data.write_lake(Path(folder) / "lake", (parts + max(counts)) * PART_ROWS, PART_ROWS)
        job, tasks = prepared(Path(folder), model)
        found = [measured(job, tasks, count, options) for count in counts]
    report(found)
    if common.RESULTS.is_dir():
        name = f"workers-{max(counts)}{'-ray' if options.ray else ''}{'-quick' if options.quick else ''}.json"
        content = {"machine": facts, "torch": torch.__version__, "parts": parts, "part_rows": PART_ROWS, "found": found}
        (common.RESULTS / name).write_text(json.dumps(content, indent=2) + "\n")
        print(f"\nRaw repeats: {common.RESULTS / name}")


def prepared(folder: Path, model: Path) -> tuple[Job, dict[str, Task]]:
    """The job and its tasks, as ``score_lake`` makes them."""
    lake, given = open_lake("rows", str(folder / "lake/rows")), open_lake("shap", str(folder / "lake/shap"))
    features = tuple(name for name in lake.parts[0].columns if name != "id")
    file = ModelFile(model, returns="logits", trust=True)
    out = LocalFolder(str(folder / "scores"))
    job = Job(file, lake_data.SETTINGS, "id", features, missing=False, background=None, out=out)
    return job, _tasks(lake, {"shap": given}, "id", "", lambda line: None)


def measured(job: Job, tasks: dict[str, Task], workers: int, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of each repeat, all workers ready, and of the bare network over as many rows."""
    first, rest = dict(list(tasks.items())[:workers]), dict(list(tasks.items())[workers:])
    model_rows = sum(task.inputs.rows for task in rest.values()) * lake_data.ROWS_PER_INPUT
    with crew_of(job, workers, options.ray) as crew:
        timed(crew, first)
        seconds = [timed(crew, rest) for _ in range(options.repeats)]
    alone = bare(workers, model_rows, options.repeats)
    return {"workers": workers, "rows": model_rows, "seconds": seconds, "bare": alone}


@contextlib.contextmanager
def crew_of(job: Job, workers: int, on_ray: bool) -> Iterator[Crew]:
    if on_ray:
        from verax.lakes.ray_actors import ray_actors  # noqa: PLC0415
        from verax.study.ray_engine import Cluster  # noqa: PLC0415

        with ray_actors(job, Cluster(workers=workers), workers) as crew:
            yield crew
        return
    crew = Processes(job, workers)  # one worker is a process of its own here, as the others are
    try:
        yield crew
    finally:
        crew.end()


def timed(crew: Crew, tasks: dict[str, Task]) -> float:
    schedule = Schedule({name: task.inputs.rows for name, task in tasks.items()}, patience=1e9)
    began = time.perf_counter()
    run_tasks(tasks, crew, schedule, lambda scored: None)
    return time.perf_counter() - began


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
