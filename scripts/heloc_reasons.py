"""Do applicants keep their reasons when a method's seed changes? The top four of HELOC's validation rows, by seed.

``python scripts/heloc_reasons.py --data heloc.csv --out docs/results/heloc-reasons.csv``

The paper's perceptron is trained, and KernelShap and LIME explain the log-odds of "Bad" for every validation row, at
their default number of draws and at ten times as many. LIME's slopes are multiplied by the input, which is 0 at the
mean, so that both name contributions. An applicant has other reasons under a seed if the four features named are not
the four that seed 0 names; their order does not count. On one core it takes about an hour, most of it KernelShap at ten
times the draws.
"""

import argparse
import time
from dataclasses import fields
from pathlib import Path

import polars as pl
import torch

import verax
from verax.attribution import Attribution, KernelShap, LimeTabular
from verax.core.files import write_atomically
from verax.datasets import load_heloc
from verax.paper.models import MLP
from verax.paper.models.recipes import recipe_for
from verax.paper.models.training import train

METHODS: dict[str, type[Attribution]] = {"KernelShap": KernelShap, "LIME": LimeTabular}
DIRECTIONS = ("either", "raises")
TIMES = (1, 10)  # as many draws as the default
BAD, REASONS = 1, 4


def main() -> None:
    """Print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="HELOC as CSV")
    parser.add_argument("--out", type=Path, help="the table, a .csv file")
    parser.add_argument("--seeds", type=int, default=3, help="0, 1, ... (default 3)")
    parser.add_argument("--limit", type=int, help="the first so many applicants; all by default")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dataset = load_heloc(options.data)
    module = train(MLP(20), dataset, recipe_for("heloc", "mlp")).module
    rows = dataset.part("validation", options.limit)[0]
    problem = verax.Problem(verax.Scorer(module, returns="logits"), rows, target=BAD)
    lines = []
    for times in TIMES:
        for name, kind in METHODS.items():
            lines += counted(problem, name, kind, times, options.seeds)
            table = pl.DataFrame(lines)
            if options.out:
                write_atomically(options.out, table.write_csv().encode())
    print(markdown(table))


def counted(
    problem: verax.Problem, name: str, kind: type[Attribution], times: int, seeds: int
) -> list[dict[str, str | int]]:
    """How many applicants have other reasons under another seed, a line for each direction."""
    draws = times * next(field.default for field in fields(kind) if field.name == "samples")
    top: dict[str, list[torch.Tensor]] = {direction: [] for direction in DIRECTIONS}
    for seed in range(seeds):
        start = time.perf_counter()
        method = kind(samples=draws, seed=seed)
        values = method(problem)
        values = values * problem.inputs if method.local else values
        for direction, several in top.items():
            named = verax.reasons(problem, values, REASONS, direction=direction, repeats=0, rows=0).top
            several.append(named.sort(1).values)
        print(f"{name}, {draws:,} draws, seed {seed}: {time.perf_counter() - start:.0f} s", flush=True)
    lines = []
    for direction, (first, *others) in top.items():
        changed = torch.stack([(other != first).any(1) for other in others])
        counts = changed.sum(1)
        lines.append(
            {
                "method": name,
                "draws": draws,
                "reasons": direction,
                "applicants": len(first),
                "fewest": int(counts.min()),
                "most": int(counts.max()),
                "under_any_seed": int(changed.any(0).sum()),
                "seeds": seeds,
            }
        )
    return lines


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
