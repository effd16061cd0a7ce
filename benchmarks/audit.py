"""Audits: how long do they take, beside their model rows alone?

Wanted: the audit of all metrics, replacements and cases in at most five minutes on two cores, that of one's own table
model with 200 inputs in at most one. The model rows alone are as many rows of the paper's tabular network, in batches
of 2,048; the cases are smaller than it. Processor time is told beside the clock, which others on the machine slow down.
"""

import time
from collections.abc import Callable
from typing import Any

import common
import torch

import verax
from verax.auditing import Audit, audit, cases

CASES, OWN = "all metrics and cases", "one's own model"
WANTED = {CASES: 300.0, OWN: 60.0}  # seconds
BATCH = 2048


def main() -> None:
    options = common.arguments(__doc__)
    common.print_header(f"Audits, {torch.get_num_threads()} threads")
    many, few = (8, 40) if options.quick else (64, 200)
    model, inputs = common.paper_mlp(), common.normal_inputs(few)
    scorer, background = verax.Scorer(model, returns="logits"), common.normal_inputs(300, seed=2)
    work: dict[str, Callable[[], Audit]] = {
        CASES: lambda: audit(cases(inputs=many)),
        OWN: lambda: audit(verax.Problem(scorer, inputs, background=background)),
    }
    found = {name: measured(one, model) for name, one in work.items()}
    head = ("", "seconds", "processor seconds", "model rows", "rows alone, seconds")
    lines = [
        (name, f"{one['seconds']:.1f}", f"{one['processor']:.1f}", f"{one['rows']:,}", f"{one['bare']:.1f}")
        for name, one in found.items()
    ]
    common.print_table(head, lines)
    for name, one in found.items():
        reached = common.verdict(one["seconds"] <= WANTED[name])
        print(f"{name}: wanted at most {WANTED[name]:g} s: {reached}")
    path = common.write_results("audit", options, inputs={CASES: many, OWN: few}, found=found)
    print(f"\nRaw figures: {path}")


def measured(work: Callable[[], Audit], model: Any) -> dict[str, float]:
    clock, processor = time.perf_counter(), time.process_time()
    rows = work().rows
    spent = {"seconds": time.perf_counter() - clock, "processor": time.process_time() - processor, "rows": rows}
    batch = common.normal_inputs(BATCH)
    some = common.seconds(lambda: common.bare_forward(model, batch.repeat(20, 1), BATCH))
    return spent | {"bare": some / 20 * rows / BATCH}


if __name__ == "__main__":
    main()
