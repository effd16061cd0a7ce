"""Split steps: how close do DPC's coherent rule and LPC come to the model alone, over the rows that they need?

InceptionV1 on one GPU as in ``gpu.py``: images of 3 x 224 x 224 with values from a normal distribution, one attribution
each. The model alone and the metric run in turn. ``--quick`` runs anywhere.
"""

import argparse
import json
import math
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import common
import torch
from gpu import Place, bare_rate

import verax
from verax.metrics import DirectedPredictionChange, LocalPredictionChange

METRICS = {
    "DPC, sum": DirectedPredictionChange("magnitude"),
    "DPC, dot": DirectedPredictionChange("magnitude", rule="dot"),
    "DPC, coherent": DirectedPredictionChange("magnitude", rule="coherent"),
    "DPC, coherent, morf": DirectedPredictionChange("magnitude", rule="coherent", area="morf"),
    "LPC": LocalPredictionChange(epsilon=1e-3),
}
WANTED = 0.9


def main() -> None:
    options = arguments()
    place = Place(options)
    print(f"{place.name}, {options.precision}, {options.images:,} images\n")
    scorer = place.scorer(options.precision, compiled=not options.quick)
    few = verax.Problem(scorer, place.inputs[:8])
    verax.evaluate(few, place.attributions[:8], list(METRICS.values()))  # compiles
    rows: list[tuple[str, ...]] = []
    content: dict[str, Any] = {"images": options.images, "device": place.name, "precision": options.precision}
    for name, metric in METRICS.items():

        def evaluate(metric: Any = metric) -> Any:
            return verax.evaluate(verax.Problem(scorer, place.inputs), place.attributions, [metric])

        found = evaluate()
        batches = 3 if options.quick else math.ceil(found.rows / 1024)
        alone, taken = [], []
        for _ in range(options.repeats):
            alone.append(bare_rate(place, scorer, batches))
            taken.append(place.seconds(evaluate))
        ratio = found.rows / median(taken) / median(alone)
        content[name] = {"rows": found.rows, "alone_rows_per_second": alone, "seconds": taken, "ratio": ratio}
        rows.append((name, f"{found.rows:,}", f"{median(taken):.2f}", f"{median(alone):,.0f}", f"{ratio:.3f}"))
    common.print_table(("metric", "rows", "seconds", "alone, rows/s", "ratio"), rows)
    print(f"\nwanted for coherent: at least {WANTED}")
    print(f"Raw repeats: {write(options, content)}")


def write(options: argparse.Namespace, content: dict[str, Any]) -> Path:
    path = common.RESULTS / f"coherent{'-quick' if options.quick else ''}.json"
    facts = {"finished": datetime.now(UTC).isoformat(timespec="seconds"), "machine": common.machine()}
    path.write_text(json.dumps({**facts, "torch": torch.__version__, **content}, indent=2) + "\n")
    return path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    parser.add_argument("--repeats", type=int, default=3, help="timed repeats of each case (default 3)")
    parser.add_argument("--images", type=int, default=1024, help="images (default 1,024)")
    parser.add_argument("--precision", default="tf32")
    options = parser.parse_args()
    options.model = None
    if options.quick:
        options.images, options.repeats = 30, 2
    return options


if __name__ == "__main__":
    main()
