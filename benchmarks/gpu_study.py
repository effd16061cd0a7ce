"""One GPU: a study, as far as the time goes, with the seconds and model rows of each of its parts.

``python benchmarks/gpu_study.py isic.toml --data ISIC_FOLDER --out DIR --limit 512 --seconds 900 --verify``

Runs the units of a study that are not there yet, as ``verax study run --device cuda --compile`` does, in processes that
share the GPU, and writes no report: ``verax study run`` with the same directory writes it, on any machine. When time is
over, the study ends at the last input that all models have; it grows when it is run again.
"""

import argparse
import json
import random
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import common
import polars as pl
import torch

from verax.core.engine import Processes
from verax.study.engine import StudyWork, shares, study_engine
from verax.study.explained_models import Machine
from verax.study.run import Watcher, complete, watching
from verax.study.spec import load_spec
from verax.study.store import Store, read_facts
from verax.study.study import Study, prepare, versions
from verax.study.uncertainty import compute_uncertainty, uncertainty_tables
from verax.study.units import Unit
from verax.study.verify import verify, write_verdict

KEPT = ("seconds", "attribution_seconds", "guided_seconds", "sampled_seconds", "rows_forward", "rows_backward")
KEPT += ("rows_spared", "attribution_rows", "guided_rows", "sampled_rows", "inputs", "model")


class OutOfTimeError(Exception):
    """The time is over."""


class Deadline:
    """Passes on what a watcher is told, until the time is over."""

    def __init__(self, watcher: Watcher, end: float) -> None:
        self.watcher, self.end = watcher, end

    def __call__(self, event: str | int) -> None:
        self.watcher(event)
        if time.monotonic() > self.end:
            raise OutOfTimeError


def main() -> None:
    options = arguments()
    end = time.monotonic() + options.seconds
    machine = Machine(options.device, None, options.device != "cpu")
    spec = load_spec(options.spec, data=options.data, limit=options.limit, precision=options.precision)
    store = Store(options.out)
    content: dict[str, Any] = {"limit": options.limit, "device": machine.name, "processes": options.processes}
    with store.lock():
        store.sweep()
        began = time.monotonic()
        study = prepare(spec, store, machine, lambda line: print(line, flush=True))
        content["prepare_seconds"] = time.monotonic() - began
        content |= computed(study, machine, options.processes, end)
        study = ended(study)
        content["inputs"] = {name: len(model.inputs) for name, model in study.models.items()}
        report(study, content)
        write(options, content)
        began = time.monotonic()
        with watching(0) as watcher:
            complete(study, study_engine(study, machine, None, 1), [], machine, watcher)
        content["finish_seconds"] = time.monotonic() - began
        if options.verify:
            content["verified"] = verified(study, machine)
    print(f"Raw figures: {write(options, content)}", flush=True)


def computed(study: Study, machine: Machine, processes: int, end: float) -> dict[str, Any]:
    """Compute what is missing, and then how far Infidelity's own error reaches; both at once need too much memory."""
    present = study.store.contents("scores", study.stems).files
    todo = [unit for unit in study.units if unit.stem not in present]
    began, complete = time.monotonic(), True
    with watching(len(todo)) as watcher:
        try:
            work = StudyWork(str(study.store.folder.absolute()), tuple(study.imports), machine)
            with Processes([work] * processes) as engine:
                list(engine.run(shares(todo, processes), Deadline(watcher, end)))
        except OutOfTimeError:
            complete = False
    seconds = {"wall_seconds": time.monotonic() - began, "uncertainty_seconds": uncertainty(study, machine)}
    return {**seconds, "units_before": len(present), "complete": complete}


def uncertainty(study: Study, machine: Machine) -> float:
    """The resampling study of Infidelity; returns its seconds."""
    began = time.monotonic()
    tables = uncertainty_tables(study)
    present = study.store.contents("uncertainty", list(tables)).files
    for stem in tables:
        if stem not in present:
            compute_uncertainty(study, stem, machine)
    return time.monotonic() - began


def ended(study: Study) -> Study:
    """The study of those inputs, from the first on, that all models have; what was computed beyond them is removed."""
    present = study.store.contents("scores", study.stems).files
    data = []
    for each in study.spec.data:
        names = {model.name for model in each.models}
        units = [unit for unit in study.units if unit.model in names]
        missing = [unit.rows.start for unit in units if unit.stem not in present]
        if not missing:
            data.append(each)
            continue
        whole = min(missing)
        if not whole:
            raise SystemExit("The time was over before the first unit of each model was done; give more --seconds.")
        for unit in units:
            if unit.rows.start >= whole and unit.stem in present:
                present[unit.stem].unlink()
        data.append(each.model_copy(update={"limit": whole}))
    spec = study.spec.model_copy(update={"data": tuple(data)})
    study.store.freeze(spec, study.store.frozen().facts)
    return replace(study, spec=spec)


def verified(study: Study, machine: Machine) -> dict[str, Any]:
    """Compute some units again, of each model one at least, and compare."""
    count = len(study.models)

    def models(seed: int) -> set[str]:
        sample: list[Unit] = random.Random(seed).sample(list(study.units), count)  # noqa: S311  # as verify draws
        return {unit.model for unit in sample}

    seed = next(seed for seed in range(1000) if len(models(seed)) == count)
    began = time.monotonic()
    share = count / len(study.units)
    verdict = verify(study, share, machine, seed, lambda unit: print("computing again", unit, flush=True))
    write_verdict(study.store, verdict)
    facts = {"passed": verdict.passed, "bitwise": verdict.bitwise, "values": verdict.values, "units": verdict.sampled}
    return {**facts, "seconds": time.monotonic() - began, "different": verdict.different}


def report(study: Study, content: dict[str, Any]) -> None:
    files = study.store.contents("scores", study.stems).files
    rows = []
    for name in study.models:
        paths = [files[unit.stem] for unit in study.units if unit.model == name]
        units = [{key: facts[key] for key in KEPT} for facts in map(read_facts, paths)]
        methods = pl.concat([pl.read_parquet(path) for path in paths], how="diagonal_relaxed")
        spent = methods.group_by(pl.col("method").cast(pl.String)).agg(pl.sum("attribution_seconds"))
        content[name] = {"units": units, "attribution_seconds_by_method": dict(spent.sort("method").rows())}
        whole = [f"{sum(unit[key] for unit in units):,.1f}" for key in KEPT[:4]]
        asked, spared = (f"{sum(unit[key] for unit in units):,}" for key in ("rows_forward", "rows_spared"))
        rows.append((name, f"{sum(unit['inputs'] for unit in units):,}", *whole, asked, spared))
    common.print_table(("model", "inputs", "s", "explain, s", "guided, s", "draws, s", "rows", "left out"), rows)
    print(f"{content['wall_seconds']:.1f} s in {content['processes']} processes that share the device", flush=True)


def write(options: argparse.Namespace, content: dict[str, Any]) -> Path:
    facts = {"finished": datetime.now(UTC).isoformat(timespec="seconds"), "machine": common.machine()}
    path: Path = options.result or common.RESULTS / "gpu_study.json"
    path.write_text(
        json.dumps({**facts, "versions": versions(), "cuda": torch.version.cuda, **content}, indent=2) + "\n"
    )
    return path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", help="demo, paper-isic, or a TOML file")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="the study's directory; goes on where it stopped")
    parser.add_argument("--limit", type=int, help="inputs of each data set")
    parser.add_argument("--precision", help="of every model, instead of what the spec says")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--processes", type=int, default=2, help="that share the device (default 2)")
    parser.add_argument("--seconds", type=float, default=1e9, help="for the units; no limit by default")
    parser.add_argument("--verify", action="store_true", help="compute a unit of each model again and compare")
    parser.add_argument("--result", type=Path, help="where the figures go; benchmarks/results by default")
    return parser.parse_args()


if __name__ == "__main__":
    main()
