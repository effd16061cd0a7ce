"""Do applicants keep their reasons when a method's seed changes? The top four of HELOC's validation rows, by seed.

``python scripts/heloc_reasons.py --data heloc.csv --out docs/results/heloc-reasons.csv``

The paper's perceptron is trained, and KernelShap and LIME explain the log-odds of "Bad" for every validation row, at
their default number of draws and at ten times as many. LIME's slopes are multiplied by the input, which is 0 at the
mean, so that both name contributions. An applicant has other reasons under a seed if the four features named are not
the four that seed 0 names; their order does not count. On one core it takes about an hour, most of it KernelShap at ten
times the draws; ``--processes`` share the applicants out.
"""

import argparse
import functools
import time
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

import verax
from verax.attribution import Attribution, KernelShap, LimeTabular
from verax.checking.reason_effects import Direction
from verax.core.blocks import pieces
from verax.core.engine import Processes, ThisProcess
from verax.core.files import write_atomically
from verax.datasets import load_heloc
from verax.paper.models import MLP
from verax.paper.models.recipes import recipe_for
from verax.paper.models.training import train

METHODS: dict[str, type[Attribution]] = {"KernelShap": KernelShap, "LIME": LimeTabular}
DIRECTIONS: tuple[Direction, ...] = ("either", "raises")
TIMES = (10, 1)  # as many draws as the default; the longest tasks first
BAD, REASONS = 1, 4
BLOCK = 128  # applicants of a task; random numbers depend on the applicant and the seed alone

Top = dict[str, Any]  # the reasons of each applicant, by direction


@dataclass(frozen=True)
class Task:
    """A method under one seed, for some applicants."""

    times: int
    name: str
    seed: int
    rows: slice


def main() -> None:
    """Print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="HELOC as CSV")
    parser.add_argument("--out", type=Path, help="the table, a .csv file")
    parser.add_argument("--seeds", type=int, default=3, help="0, 1, ... (default 3)")
    parser.add_argument("--limit", type=int, help="the first so many applicants; all by default")
    parser.add_argument("--processes", type=int, default=1, help="of one thread each (default 1)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dataset = load_heloc(options.data)
    module = train(MLP(20), dataset, recipe_for("heloc", "mlp")).module
    rows = dataset.part("validation", options.limit)[0]
    tasks = [
        Task(times, name, seed, part)
        for times in TIMES
        for name in METHODS
        for seed in range(options.seeds)
        for part in pieces(len(rows), BLOCK)
    ]
    work = functools.partial(named, module, rows)
    start = time.perf_counter()
    tops: dict[int, Top] = {}
    with Processes([work] * options.processes) if options.processes > 1 else ThisProcess(work) as engine:
        for count, (number, top) in enumerate(engine.run(enumerate(tasks)), 1):
            tops[number] = top
            print(f"{count} of {len(tasks)} tasks, {time.perf_counter() - start:.0f} s", flush=True)
    table = pl.DataFrame(lines([(task, tops[number]) for number, task in enumerate(tasks)]))
    if options.out:
        write_atomically(options.out, table.write_csv().encode())
    print(markdown(table))


def named(module: torch.nn.Module, rows: torch.Tensor, task: tuple[int, Task], tell: object) -> tuple[int, Top]:
    """The top reasons of a task's applicants, in each direction."""
    number, what = task
    problem = verax.Problem(verax.Scorer(module, returns="logits"), rows[what.rows], target=BAD)
    method = METHODS[what.name](samples=draws(what.name, what.times), seed=what.seed)  # type: ignore[call-arg]
    values = method(problem)
    values = values * problem.inputs if method.local else values
    reasons = (verax.reasons(problem, values, REASONS, direction=way, repeats=0, rows=0) for way in DIRECTIONS)
    return number, {way: of_way.top.sort(1).values.numpy() for way, of_way in zip(DIRECTIONS, reasons, strict=True)}


def draws(name: str, times: int) -> int:
    """So many times the default draws of a method."""
    return times * next(field.default for field in fields(METHODS[name]) if field.name == "samples")


def lines(tops: list[tuple[Task, Top]]) -> list[dict[str, str | int]]:
    """How many applicants have other reasons under another seed, a line for each method and direction."""
    table: list[dict[str, str | int]] = []
    seeds = 1 + max(task.seed for task, _ in tops)
    for times, name, way in product(sorted(TIMES), METHODS, DIRECTIONS):
        same = [(task, top[way]) for task, top in tops if (task.times, task.name) == (times, name)]
        first, *others = (np.concatenate([top for task, top in same if task.seed == seed]) for seed in range(seeds))
        changed = np.stack([(other != first).any(1) for other in others])
        counts = changed.sum(1)
        table.append(
            {
                "method": name,
                "draws": draws(name, times),
                "reasons": way,
                "applicants": len(first),
                "fewest": int(counts.min()),
                "most": int(counts.max()),
                "under_any_seed": int(changed.any(0).sum()),
                "seeds": seeds,
            }
        )
    return table


def markdown(table: pl.DataFrame) -> str:
    """The table for the docs."""
    lines = ["| method | draws | reasons | other reasons under another seed | under any |", "|---|---|---|---|---|"]
    words = {"either": "the four largest", "raises": "the four that speak for refusal"}
    for row in table.iter_rows(named=True):
        count, most = row["applicants"], row["most"]
        between = f"{row['fewest']:,} to {most:,}" if row["fewest"] < most else f"{most:,}"
        any_seed = f"{row['under_any_seed']:,} of {count:,} ({100 * row['under_any_seed'] / count:.0f} %)"
        lines.append(f"| {row['method']} | {row['draws']:,} | {words[row['reasons']]} | {between} | {any_seed} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
