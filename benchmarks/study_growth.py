"""How a study's bookkeeping grows with its units, and the cache with its files.

A linear model on a table of one's own, one input in each unit: what is measured is not the computing but what surrounds
it. ``plan`` opens the study and plans all units, ``status`` checks every file, ``resume`` runs a study in which all is
done, ``read`` reads all that a report needs, ``report`` writes it. ``cache`` puts and gets as many small entries. Each
at four sizes; the slope of a straight line through the logarithms is 1 where time is linear, and less where something
takes the same time at every size.
"""

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import numpy as np
import polars as pl
import torch

import verax.study.run
from verax.report.page import write_study_report
from verax.scoring.meter import Cost, Rows
from verax.study.compute import compute
from verax.study.explained_models import Machine
from verax.study.plan import plan_of
from verax.study.results import read_results
from verax.study.spec import StudySpec, parse_spec
from verax.study.store import Cache, Store, parquet
from verax.study.study import Study, open_study, prepare, versions

SIZES = (625, 1250, 2500, 5000)
HERE = Machine()


def main() -> None:
    options = common.arguments(__doc__)
    common.print_header("Growth of a study's bookkeeping")
    sizes = [size // (25 if options.quick else 1) for size in SIZES]
    verax.study.run.write_report = lambda study, workers: study.store.folder
    measured(sizes[0] // 5)  # whatever happens at the first call only
    seconds = {str(size): measured(size) for size in sizes}
    for name in seconds[str(sizes[0])]:
        times = [seconds[str(size)][name] for size in sizes]
        told = "  ".join(f"{size:,}: {each:7.2f} s" for size, each in zip(sizes, times, strict=True))
        print(f"{name:8} {told}   slope {slope(sizes, times):.2f}")
    path = common.write_results("study_growth", options, seconds=seconds)
    print(f"\nRaw repeats: {path}")


def measured(units: int) -> dict[str, float]:
    """Seconds of each part, at so many units."""
    with tempfile.TemporaryDirectory() as folder:
        spec = own_spec(Path(folder), units)
        store = Store(Path(folder) / "study")
        study = prepare(spec, store, HERE)
        found = {"plan": timed(lambda: plan(spec, store))}
        fill(study)
        found["status"] = timed(lambda: open_study(store.folder).store.contents("scores"))
        found["resume"] = timed(lambda: verax.study.run.run_study(spec, store.folder))
        found["read"] = timed(lambda: read_results(open_study(store.folder)))
        found["report"] = timed(lambda: write_study_report(open_study(store.folder)))
        found["cache"] = timed(lambda: use_cache(Path(folder) / "cache", units))
    return found


def own_spec(folder: Path, units: int) -> StudySpec:
    """A table with as many validation rows as units, and a model that is cheap."""
    draws = np.random.default_rng(0)
    rows = 5 * units
    inputs = draws.normal(size=(rows, 4))
    np.savez(folder / "own.npz", inputs=inputs, labels=(inputs[:, 0] > 0).astype(int))
    data = {
        "name": "file",
        "path": str(folder / "own.npz"),
        "part": "train",
        "limit": units,
        "chunk": 1,
        "background": 16,
        "models": [{"name": "Own", "architecture": "linear"}],
        "attributions": {"grid": False, "others": [{"method": "Gradient"}, {"method": "Random"}]},
    }
    content = {"name": "growth", "data": [data], "metrics": {"list": ["pc"], "steps": 2}, "examples": 0}
    return parse_spec(content, "growth")


def fill(study: Study) -> None:
    """A file for each unit; computed once, because what is measured is not the computing."""
    model = study.models["Own"]
    result = compute(model, slice(0, 1), study.metrics, HERE, Cache(study.store.folder, 0))
    for unit in study.units:
        facts = {"unit": unit.stem, "model": unit.model, "inputs": unit.inputs, "key": unit.key}
        row = int(model.rows[unit.rows.start])
        named = result.table.with_columns(
            pl.lit(row, result.table.schema["input"]).alias("input"), pl.lit(model.dataset.ids[row]).alias("input_id")
        )
        content = parquet(named, {**facts, **result.costs, "versions": versions()})
        study.store.put("scores", unit.stem, content, ".parquet")


def plan(spec: StudySpec, store: Store) -> None:
    study = Study(spec, store)
    found = store.contents("scores", [unit.stem for unit in study.units]).files
    plan_of(study, [unit for unit in study.units if unit.stem not in found], HERE)


def use_cache(folder: Path, entries: int) -> None:
    """Twice as many entries as there is room for."""
    cache = Cache(folder, entries * 1500 // 2)
    for number in range(entries):
        cache.put(f"{number:064x}", torch.zeros(16), Cost(Rows(1), 0.0))
        cache.get(f"{number // 2:064x}", (16,))


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def slope(sizes: list[int], times: list[float]) -> float:
    """Of the straight line through the logarithms."""
    return float(np.polyfit([math.log(size) for size in sizes], [math.log(each) for each in times], 1)[0])


if __name__ == "__main__":
    main()
