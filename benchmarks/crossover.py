"""DPC against Infidelity: which costs more, for one attribution and for many of the same inputs?

DPC asks the model 40 rows for every attribution, less those that coincide; Infidelity 640 for every input, once for
all of its attributions. The paper's tabular network, 1,658 inputs with 20 features, attributions as in a study.
"""

from functools import partial
from typing import Any

import common

import verax
from verax.metrics import DirectedPredictionChange, Infidelity

COUNTS = (1, 4, 8, 16, 24, 46, 92)
METRICS = {"dpc": DirectedPredictionChange(), "infidelity": Infidelity(samples=640)}


def main() -> None:
    options = common.arguments(__doc__)
    n = 100 if options.quick else 1658
    common.print_header("DPC against Infidelity with shared draws")
    model, inputs = common.paper_mlp(), common.normal_inputs(n)
    attributions = common.attributions_like_a_study(model, inputs, max(COUNTS))
    cases, rows = {}, {}

    def evaluate(k: int, metric: Any) -> Any:
        return verax.evaluate(verax.Problem(model, inputs), attributions[:k], [metric])

    for k in COUNTS:
        for name, metric in METRICS.items():
            case = f"{name}, {k}"
            cases[case] = partial(evaluate, k, metric)
            rows[case] = cases[case]().rows
    times = common.interleaved(cases, options.repeats)
    report(rows, common.medians(times), n)
    path = common.write_results("crossover", options, rows=rows, seconds=times)
    print(f"\nRaw repeats: {path}")


def report(rows: dict[str, int], times: dict[str, float], n: int) -> None:
    lines = []
    for k in COUNTS:
        ours, theirs = f"dpc, {k}", f"infidelity, {k}"
        cells: list[Any] = [f"{rows[name] / n:,.0f}" for name in (ours, theirs)]
        cells += [f"{times[name]:.3f}" for name in (ours, theirs)]
        lines.append((str(k), *cells, f"{times[theirs] / times[ours]:.2f}"))
    head = ("attributions", "DPC, rows/input", "Infidelity, rows/input", "DPC, s", "Infidelity, s", "Infidelity / DPC")
    common.print_table(head, lines)
    print()
    for what, found in (("rows", rows), ("seconds", times)):
        dearer = [k for k in COUNTS if found[f"dpc, {k}"] > found[f"infidelity, {k}"]]
        print(
            f"DPC takes more {what} from {dearer[0]} attributions on"
            if dearer
            else f"DPC takes fewer {what} throughout"
        )


if __name__ == "__main__":
    main()
