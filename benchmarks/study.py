"""The whole HELOC study of the paper: both models, 1,550 configurations, all metrics. Where does its time go?

``python benchmarks/study.py heloc.csv``: runs ``verax study run paper-heloc`` from nothing to the report in a fresh
process and a fresh directory, then reads from the study's files what each unit cost, and from their dates when each
part of the command was done. ``--quick`` explains 64 inputs.
Memory is that of all its processes together, looked at twice a second; what they share is counted in each (Linux only).
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import common
import polars as pl

from verax.study.results import read_results
from verax.study.store import read_facts
from verax.study.study import open_study

WANTED_SECONDS, WANTED_BYTES, WANTED_SHARE = 150, 8 * 2**30, 0.7
PARTS = ("attribution_seconds", "guided_seconds", "sampled_seconds")
# by its last file, what of the command is done
STAGES = {
    "start-up and training": "models/*",
    "plan, worker processes and units": "scores/*",
    "uncertainty of Infidelity": "uncertainty/*",
    "examples": "examples/*",
    "figures": "figures/*",
    "claims": "claims.md",
    "page": "report.html",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="heloc.csv")
    parser.add_argument("--quick", action="store_true", help="64 inputs, to see that everything runs")
    parser.add_argument("--out", type=Path, help="keep the study in this directory")
    options = parser.parse_args()
    options.repeats = 1
    common.print_header("The paper's HELOC study")
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or Path(scratch) / "study"
        command = [sys.executable, "-m", "verax", "study", "run", "paper-heloc"]
        command += ["--data", str(options.data), "--out", str(folder), *(["--limit", "64"] if options.quick else [])]
        began, used = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
        wall, peak = watched(command)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
        stages = timeline(folder, began)
        units = [read_facts(path) for path in sorted((folder / "scores").glob("*.parquet"))]
        costs = read_results(open_study(folder)).tables.costs
    show(wall, peak, units, costs)
    print(f"Processor time of all processes: {processor:.0f} s\n")
    common.print_table(("part", "seconds until it was done"), [(name, f"{end:.1f}") for name, end in stages.items()])
    figures = {"wall_seconds": wall, "processor_seconds": processor, "stages": stages, "peak_bytes": peak}
    path = common.write_results("study", options, **figures, units=units)
    print(f"\nRaw figures: {path}")


def timeline(folder: Path, began: float) -> dict[str, float]:
    """When each part was done, in seconds from the beginning."""
    ends = {name: [path.stat().st_mtime for path in folder.glob(found)] for name, found in STAGES.items()}
    return {name: max(dates) - began for name, dates in ends.items() if dates}


def watched(command: list[str]) -> tuple[float, int]:
    """Run a command; return its seconds and the most memory that it and its workers took at once."""
    began, peak = time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, family_bytes(process.pid))
            time.sleep(0.5)
        wall = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {process.returncode}")
    return wall, peak


def family_bytes(root: int) -> int:
    """The resident memory of a process and of those that it started."""
    found = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if root in (parent, int(entry.name)):
                found += int((entry / "statm").read_text().split()[1]) * resource.getpagesize()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
    return found


def show(wall: float, peak: int, units: list[dict[str, Any]], costs: pl.DataFrame) -> None:
    """Print rows with and without sharing, and the share of time inside the model."""
    rows = []
    for name in (*dict.fromkeys(unit["model"] for unit in units), "both"):
        own = [unit for unit in units if name in (unit["model"], "both")]
        shared = costs if name == "both" else costs.filter(pl.col("model") == name)
        seconds = sum(unit["seconds"] for unit in own)
        inside = sum(unit["model_seconds"] for unit in own) / seconds
        times = [f"{sum(unit[part] for unit in own):.1f}" for part in PARTS]
        forward, alone = (float(shared[column].sum()) for column in ("rows_forward", "rows_forward_unshared"))
        rows.append(
            (
                name,
                f"{forward:,.0f}",
                f"{alone:,.0f}",
                f"{alone / forward:.0f}",
                *times,
                f"{seconds:.1f}",
                f"{inside:.2f}",
            )
        )
    head = (
        "model",
        "rows",
        "without sharing",
        "ratio",
        "explain, s",
        "guided, s",
        "drawn, s",
        "all, s",
        "in the model",
    )
    common.print_table(head, rows)
    print(
        f"\nWhole command: {wall:.0f} s ({common.verdict(wall < WANTED_SECONDS)}, wanted < {WANTED_SECONDS} s), ",
        end="",
    )
    print(f"peak {peak / 2**30:.2f} GiB ({common.verdict(peak < WANTED_BYTES)}, wanted < 8 GiB)")
    share = sum(unit["model_seconds"] for unit in units) / sum(unit["seconds"] for unit in units)
    print(f"Time of the units inside the model: {share:.2f} ({common.verdict(share >= WANTED_SHARE)}, wanted 0.7)")


if __name__ == "__main__":
    main()
