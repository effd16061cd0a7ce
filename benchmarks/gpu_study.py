"""One GPU: how close does a whole study come to the model alone, and where does its time go?

``python benchmarks/gpu_study.py study.toml --data ISIC_FOLDER --out DIR --limit 32 --precision tf32``

Runs the units of a study that are not there yet, as ``verax study run --device cuda --compile`` does, without its
report, and in turn with them the compiled model alone. Rows and seconds are those of the study's own tables.
"""

import argparse
import json
import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import common
import polars as pl
import torch

from verax.study.engine import run_local
from verax.study.explained_models import ExplainedModel
from verax.study.machine import Machine
from verax.study.progress import watching
from verax.study.spec import load_spec
from verax.study.store import Store, read_facts
from verax.study.study import Study, prepare
from verax.study.verify import verify

WANTED = 0.85
KEPT = ("seconds", "attribution_seconds", "guided_seconds", "sampled_seconds", "rows_forward", "rows_backward")
KEPT += ("rows_spared", "attribution_rows", "guided_rows", "sampled_rows", "inputs", "model")


def main() -> None:
    options = arguments()
    machine = Machine(options.device, None, options.device != "cpu")
    spec = load_spec(options.spec, data=options.data, limit=options.limit, precision=options.precision)
    began = time.perf_counter()
    study = prepare(spec, Store(options.out), machine, lambda line: print(line, flush=True))
    content: dict[str, Any] = {"precision": options.precision, "limit": options.limit, "device": machine.name}
    content["prepare_seconds"] = time.perf_counter() - began
    content["alone_rows_per_second"] = {name: alone(model, machine) for name, model in study.models.items()}
    print(content["alone_rows_per_second"], flush=True)
    kept = study.store.contents("scores", [unit.stem for unit in study.units]).found
    todo = [unit for unit in study.units if unit.stem not in kept]
    began = time.perf_counter()
    with watching(len(todo)) as watcher:
        run_local(study, todo, machine, watcher)
    content["wall_seconds"], content["computed"] = time.perf_counter() - began, len(todo)
    for name, model in study.models.items():
        content["alone_rows_per_second"][name] += alone(model, machine)
    report(study, content, options)
    print(f"Raw figures: {write(options, content)}", flush=True)
    if options.verify:
        verdict = verify(study, 0.0, machine, 0, lambda unit: print("computing again", unit, flush=True))
        content["verified"] = {"passed": verdict.passed, "bitwise": verdict.bitwise, "values": verdict.values}
        print(content["verified"], *verdict.different[:3])
        write(options, content)


def alone(model: ExplainedModel, machine: Machine, seconds: float = 1.0) -> list[float]:
    """Rows per second of the compiled model on batches that lie ready, three times."""
    scorer = model.scorer(machine.compile)
    device = torch.device(machine.device)
    with scorer.session(model.inputs, "torch", "logit", machine.batch_size, device) as session:
        rows = model.inputs[torch.arange(session.batch_size) % len(model.inputs)]
        ready = rows.to(device, session.runner.dtype, memory_format=session.runner.layout)
        run, found = session.runner.adapter, []
        for _ in range(3):
            run(ready, "torch")
            _wait(device)
            began, batches = time.perf_counter(), 0
            while time.perf_counter() - began < seconds:
                for _ in range(8):
                    run(ready, "torch")
                _wait(device)
                batches += 8
            found.append(batches * len(ready) / (time.perf_counter() - began))
    return found


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def report(study: Study, content: dict[str, Any], options: argparse.Namespace) -> None:
    files = study.store.contents("scores", [unit.stem for unit in study.units]).found
    rows = []
    for name in study.models:
        paths = [files[unit.stem] for unit in study.units if unit.model == name and unit.stem in files]
        facts = [read_facts(path) for path in paths]
        if not facts:
            continue
        units = [{key: fact[key] for key in KEPT} for fact in facts]
        steady = units[1:] or units  # the first one compiles
        rate = sum(unit["rows_forward"] for unit in steady) / sum(unit["seconds"] for unit in steady)
        bare = median(content["alone_rows_per_second"][name])
        methods = pl.concat([pl.read_parquet(path) for path in paths], how="diagonal_relaxed")
        spent = methods.group_by(pl.col("method").cast(pl.String)).agg(pl.sum("attribution_seconds"))
        content[name] = {"units": units, "rows_per_second": rate, "ratio": rate / bare}
        content[name]["attribution_seconds_by_method"] = dict(spent.sort("method").rows())
        whole = [f"{sum(unit[key] for unit in units):,.1f}" for key in KEPT[:4]]
        rows.append((name, f"{sum(unit['inputs'] for unit in units):,}", *whole, f"{rate:,.0f}", f"{bare:,.0f}"))
        rows[-1] += (f"{rate / bare:.3f}",)
    head = ("model", "inputs", "s", "explain, s", "guided, s", "draws, s", "rows/s", "alone, rows/s", "ratio")
    common.print_table(head, rows)
    print(f"wanted on a GPU in TF32: at least {WANTED}; {content['wall_seconds']:.1f} s in all")


def write(options: argparse.Namespace, content: dict[str, Any]) -> Path:
    facts = {"finished": datetime.now(UTC).isoformat(timespec="seconds"), "machine": common.machine()}
    facts |= {"python": platform.python_version(), "torch": torch.__version__}
    path = options.result or common.RESULTS / f"gpu_study-{options.precision or 'plain'}.json"
    path.write_text(json.dumps({**facts, **content}, indent=2) + "\n")
    return path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", help="demo, paper-isic, or a TOML file")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="the study's directory; goes on where it stopped")
    parser.add_argument("--limit", type=int, help="inputs of each data set")
    parser.add_argument("--precision")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--verify", action="store_true", help="compute one unit again and compare")
    parser.add_argument("--result", type=Path, help="where the figures go; benchmarks/results by default")
    return parser.parse_args()


if __name__ == "__main__":
    main()
