"""The paper's runtime table: Infidelity against DPC, and both kinds of Infidelity against PC and DPC, the same images.

``python benchmarks/runtime_table.py`` runs anywhere, on digits; ``--data ISIC_FOLDER`` is the paper's question, lesions
of 224 x 224 pixels, for which a GPU is wanted. One attribution, InceptionV1, 640 draws against 20 steps, cases in turn,
20 runs each after one that is not counted. Weights do not matter for the time: without ``--model`` they are random.
"""

import argparse
import importlib.metadata
import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import common
import torch
from torch import Tensor, nn

import verax
from verax.attribution import Gradient
from verax.datasets import load_digits, load_isic
from verax.metrics import DirectedPredictionChange, Infidelity, PredictionChange
from verax.models import InceptionV1, load
from verax.scoring.precision import DTYPES

CASES: dict[str, Sequence[Any]] = {
    "Infidelity": (Infidelity(),),
    "DPC": (DirectedPredictionChange(),),
    "Infidelity, local and baseline": (Infidelity(), Infidelity(perturbation="baseline")),
    "PC and DPC": (PredictionChange(), DirectedPredictionChange()),
    "PC and DPC, signed order": (PredictionChange(), DirectedPredictionChange(order="signed")),
}
AVERAGES: tuple[Callable[[list[float]], float], ...] = (mean, median)
PAIRS = {"DPC": "Infidelity"} | dict.fromkeys(list(CASES)[3:], "Infidelity, local and baseline")


def main() -> None:
    options = arguments()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    inputs, model = material(options, device)
    scorer = verax.Scorer(model, returns="logits", precision=options.precision, compile=options.compile)
    attribution = Gradient()(scorer, inputs)
    name = torch.cuda.get_device_name() if device.type == "cuda" else common.machine()["cpu"]
    print(f"{name}, torch {torch.__version__}, {options.precision or 'default precision'}, ", end="")
    print(f"{len(inputs)} images of {tuple(inputs.shape[1:])}\n", flush=True)

    def timed(metrics: Sequence[Any]) -> tuple[float, int]:
        waiting(device)
        start = time.perf_counter()
        rows = verax.evaluate(scorer, inputs, attribution, metrics).rows
        waiting(device)
        return time.perf_counter() - start, rows

    rows = {case: timed(metrics)[1] for case, metrics in CASES.items()}  # the run that is not counted
    seconds: dict[str, list[float]] = {case: [] for case in CASES}
    for number in range(options.repeats):
        order = list(CASES)[number % len(CASES) :] + list(CASES)[: number % len(CASES)]
        for case in order:
            seconds[case].append(timed(CASES[case])[0])
    report(rows, seconds, len(inputs))
    facts = {"device": name, "precision": options.precision, "compile": options.compile, "shape": inputs.shape}
    print(f"\nRaw runs: {write(options, {**facts, 'rows': rows, 'seconds': seconds})}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of ISIC images; digits without")
    parser.add_argument("--model", type=Path, help="a trained model, as verax train writes it; random weights without")
    parser.add_argument("--images", type=int, default=64, help="validation images (default 64; the paper has 3,072)")
    parser.add_argument("--repeats", type=int, default=20, help="timed runs of each case (default 20)")
    parser.add_argument("--precision", choices=sorted(DTYPES), help="of the model on a GPU; torch's own without")
    parser.add_argument("--compile", action="store_true", help="let torch.compile work on the model")
    parser.add_argument("--quick", action="store_true", help="few images and runs, to see that everything works")
    options = parser.parse_args()
    if options.quick:
        options.images, options.repeats = 4, 2
    return options


def material(options: argparse.Namespace, device: torch.device) -> tuple[Tensor, nn.Module]:
    """Standardised images and the network, on the device."""
    dataset = load_isic(options.data) if options.data else load_digits()
    inputs = dataset.part("validation", options.images)[0].to(device)
    model = load(options.model).module if options.model else InceptionV1(channels=inputs.shape[1]).build(seed=0)
    return inputs, model.eval().to(device)


def waiting(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def report(rows: dict[str, int], seconds: dict[str, list[float]], images: int) -> None:
    lines = []
    for case, times in seconds.items():
        gain = [f"{of(seconds[PAIRS[case]]) / of(times):.2f}" for of in AVERAGES] if case in PAIRS else ["", ""]
        figures = [f"{value:.3f}" for value in (mean(times), median(times), stdev(times))]
        lines.append((case, f"{rows[case] / images:,.0f}", *figures, *gain))
    head = ("", "rows/image", "mean, s", "median, s", "deviation, s", "speed-up, mean", "speed-up, median")
    common.print_table(head, lines)


def write(options: argparse.Namespace, content: dict[str, Any]) -> Path:
    """Write everything measured as JSON, without the versions of peers, which a machine with a GPU need not have."""
    what = "isic" if options.data else "digits"
    path = common.RESULTS / f"runtime_table-{what}{'-quick' if options.quick else ''}.json"
    versions = {name: importlib.metadata.version(name) for name in ("torch", "verax")}
    facts = {"finished": datetime.now(UTC).isoformat(timespec="seconds"), "machine": common.machine()}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**facts, "versions": versions, **content}, indent=2) + "\n")
    return path


if __name__ == "__main__":
    main()
