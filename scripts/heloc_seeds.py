"""The paper's HELOC study over seeds of the split and of training, and in how many of them each claim holds.

``python scripts/heloc_seeds.py heloc.csv --work SEEDS_FOLDER --out docs/results/paper/heloc-seeds.csv``

Each seed is a study of its own, ``paper-heloc`` with that seed for the split and for both models and with the metrics
of the claims alone, in a folder below ``--work``. In how many seeds each claim holds is printed, and written beside
``--out`` as ``...-shares.csv``. Call it again to go on after an interruption: what is complete is only read. A seed
that fails does not stop the others. On 16 cores: ``--at-once 5 --workers 2``.
"""

import argparse
import json
import os
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl
import tomli_w

from verax.core.files import write_atomically
from verax.paper.published import PAPER_DPC, PAPER_INFIDELITY, PAPER_PC

CLAIMED = (PAPER_PC, PAPER_DPC, PAPER_INFIDELITY)
VERDICTS = ("reproduced", "not reproduced", "cannot be told")
COLUMNS = ("number", "claim", "model", "paper", "ours", "verdict")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="HELOC as CSV")
    parser.add_argument("--work", type=Path, required=True, help="the studies' folders; goes on where it stopped")
    parser.add_argument("--out", type=Path, required=True, help="the answers, a row per seed, claim and model: .csv")
    parser.add_argument("--seeds", type=int, default=10, help="0, 1, ... (default 10)")
    parser.add_argument("--at-once", type=int, default=1, help="studies run at the same time (default 1)")
    parser.add_argument("--workers", type=int, default=2, help="processes of each study (default 2)")
    parser.add_argument("--limit", type=int, help="inputs of each study; all validation rows by default")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    seeds = range(options.seeds)
    with ThreadPoolExecutor(options.at_once) as pool:
        complete = list(pool.map(lambda seed: answered(options, seed), seeds))
    failed = [seed for seed, done in zip(seeds, complete, strict=True) if not done]
    if failed:
        raise SystemExit(f"not complete: seeds {failed}; their logs in {options.work} say why")
    answers = pl.concat([answers_of(options.work / f"seed-{seed}.json", seed) for seed in seeds])
    held = shares(answers)
    write_atomically(options.out, answers.write_csv().encode())
    write_atomically(options.out.with_stem(f"{options.out.stem}-shares"), held.write_csv(float_precision=2).encode())
    with pl.Config(tbl_rows=-1, tbl_width_chars=200, fmt_str_lengths=90, tbl_hide_dataframe_shape=True):
        print(held)


def answered(options: argparse.Namespace, seed: int) -> bool:
    """Run one study and answer its claims, by the commands that a user types; whether both are complete."""
    folder, spec, claims = (options.work / f"seed-{seed}{ending}" for ending in ("", ".toml", ".json"))
    if claims.exists():
        return True
    spec.write_text(tomli_w.dumps(spec_with(seed)))
    run = ["run", str(spec), "--data", str(options.data), "--out", str(folder), "--workers", str(options.workers)]
    run += [] if options.limit is None else ["--limit", str(options.limit)]
    commands = [run, ["claims", str(folder), "--out", str(claims)]]
    environment = {"OMP_NUM_THREADS": str(options.workers), **os.environ}
    with (options.work / f"seed-{seed}.log").open("a") as log:
        for command in commands:
            print(f"seed {seed}: verax study {command[0]}", flush=True)
            call = [sys.executable, "-m", "verax", "study", *command]
            process = subprocess.run(call, stdout=log, stderr=subprocess.STDOUT, env=environment, check=False)  # noqa: S603
            if process.returncode:
                print(f"seed {seed}: failed", flush=True)
                return False
    return True


def spec_with(seed: int) -> dict[str, Any]:
    """The shipped study with another seed of the split and of both trainings, and the metrics of the claims."""
    shipped = resources.files("verax.paper") / "specs" / "paper-heloc.toml"
    spec: dict[str, Any] = tomllib.loads(shipped.read_text(encoding="utf-8"))
    metrics = spec["metrics"]
    metrics["list"] = [one for one in metrics["list"] if (one if isinstance(one, str) else one["as"]) in CLAIMED]
    (data,) = spec["data"]
    data["seed"] = seed
    for model in data["models"]:
        model["seed"] = seed
    return spec


def answers_of(claims: Path, seed: int) -> pl.DataFrame:
    """A row per claim and model that was measured."""
    rows = [claim for claim in json.loads(claims.read_text()) if claim["verdict"] in VERDICTS]
    return pl.DataFrame(rows).select(pl.lit(seed).alias("seed"), *COLUMNS)


def shares(answers: pl.DataFrame) -> pl.DataFrame:
    """A row per claim and model: in what share of the seeds it holds, and how many come to each verdict."""
    counts = [(pl.col("verdict") == verdict).sum().alias(verdict) for verdict in VERDICTS]
    holds = (pl.col("verdict") == "reproduced").mean().alias("holds in")
    return answers.group_by("number", "claim", "model", "paper", maintain_order=True).agg(holds, *counts)


if __name__ == "__main__":
    main()
