"""The paper's runtime table: Infidelity against DPC, and both kinds of Infidelity against PC and DPC, the same inputs.

``python benchmarks/runtime_table.py --data heloc.csv`` times HELOC-MLP; without ``--data`` it is InceptionV1 on digits;
``--data ISIC_FOLDER`` is the paper's question, lesions of 224 x 224 pixels, for which a GPU is needed. One attribution,
640 draws against 20 steps, 20 runs of each case after one that is not counted; cases take turns within a run, so that
ratios are of the same moments. Weights do not matter for the time: without ``--model`` they are random.
"""

import argparse
import json
import os
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
from verax.datasets import load_digits, load_heloc, load_isic
from verax.metrics import DirectedPredictionChange, Infidelity, PredictionChange
from verax.models import load
from verax.paper.models import MLP, InceptionV1
from verax.scoring.inference import DTYPES
from verax.scoring.model_files.saved import Architecture
from verax.study.study import versions

CASES: dict[str, Sequence[Any]] = {
    "Infidelity": (Infidelity(),),
    "DPC": (DirectedPredictionChange(order="signed"),),
    "Infidelity, local and baseline": (Infidelity(), Infidelity(perturbation="baseline")),
    "PC and DPC": (PredictionChange(), DirectedPredictionChange(order="magnitude")),
    "PC and DPC, signed order": (PredictionChange(), DirectedPredictionChange(order="signed")),
}
AVERAGES: tuple[Callable[[list[float]], float], ...] = (mean, median)
PAIRS = {"DPC": "Infidelity"} | dict.fromkeys(list(CASES)[3:], "Infidelity, local and baseline")


def main() -> None:
    options = arguments()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    load_before = os.getloadavg()
    subject, inputs, model = material(options, device)
    scorer = verax.Scorer(model, returns="logits", precision=options.precision, compile=options.compile)
    attribution = Gradient()(verax.Problem(scorer, inputs))
    name = torch.cuda.get_device_name() if device.type == "cuda" else common.machine()["cpu"]
    print(f"{subject}, {len(inputs)} inputs of {tuple(inputs.shape[1:])}, {name}, torch {torch.__version__}, ", end="")
    print(f"{options.precision or 'default precision'}\n", flush=True)

    def timed(metrics: Sequence[Any]) -> tuple[float, float, int]:
        waiting(device)
        start, busy = time.perf_counter(), time.process_time()
        rows = verax.evaluate(verax.Problem(scorer, inputs), attribution, metrics).rows
        waiting(device)
        return time.perf_counter() - start, time.process_time() - busy, rows

    rows = {case: timed(metrics)[2] for case, metrics in CASES.items()}  # the run that is not counted
    seconds: dict[str, list[float]] = {case: [] for case in CASES}
    processor: dict[str, list[float]] = {case: [] for case in CASES}
    for number in range(options.repeats):
        order = list(CASES)[number % len(CASES) :] + list(CASES)[: number % len(CASES)]
        for case in order:
            wall, busy, _ = timed(CASES[case])
            seconds[case].append(wall)
            processor[case].append(busy)
    report(rows, seconds, len(inputs))
    facts = {"model": subject, "device": name, "precision": options.precision, "compile": options.compile}
    facts |= {"weights": "trained" if options.model else "random", "shape": inputs.shape, "load_before": load_before}
    if device.type == "cpu":  # where other programs run beside, the processor's time is the quieter measure
        print("\nTime of the processor:")
        report(rows, processor, len(inputs))
        facts["processor_seconds"] = processor
    print(f"\nRaw runs: {write(options, {**facts, 'rows': rows, 'seconds': seconds})}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the CSV file of HELOC or the folder of ISIC images; digits without")
    parser.add_argument("--model", type=Path, help="a trained model, as verax train writes it; random weights without")
    parser.add_argument("--inputs", type=int, default=64, help="validation inputs (default 64; the paper has 3,072)")
    parser.add_argument("--repeats", type=int, default=20, help="timed runs of each case (default 20)")
    parser.add_argument("--precision", choices=sorted(DTYPES), help="of the model on a GPU; torch's own without")
    parser.add_argument("--compile", action="store_true", help="let torch.compile work on the model")
    parser.add_argument("--quick", action="store_true", help="few inputs and runs, to see that everything works")
    options = parser.parse_args()
    if options.quick:
        options.inputs, options.repeats = 4, 2
    return options


def material(options: argparse.Namespace, device: torch.device) -> tuple[str, Tensor, nn.Module]:
    """What is timed, as a name, standardised inputs and the network, on the device."""
    architecture: Architecture = InceptionV1()
    if options.data is None:
        subject, dataset, architecture = "Inception on digits", load_digits(), InceptionV1(channels=1, outputs=10)
    elif options.data.is_file():
        subject, dataset, architecture = "HELOC-MLP", load_heloc(options.data), MLP(20)
    else:
        subject, dataset = "ISIC-Inception", load_isic(options.data)
    inputs = dataset.part("validation", options.inputs)[0].to(device)
    model = load(options.model).module if options.model else architecture.build(seed=0)
    return subject, inputs, model.eval().to(device)


def waiting(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def report(rows: dict[str, int], seconds: dict[str, list[float]], inputs: int) -> None:
    lines = []
    for case, times in seconds.items():
        gain = [f"{of(seconds[PAIRS[case]]) / of(times):.2f}" for of in AVERAGES] if case in PAIRS else ["", ""]
        figures = [f"{value:.3f}" for value in (mean(times), median(times), stdev(times))]
        lines.append((case, f"{rows[case] / inputs:,.0f}", *figures, *gain))
    head = ("", "rows/input", "mean, s", "median, s", "deviation, s", "speed-up, mean", "speed-up, median")
    common.print_table(head, lines)


def write(options: argparse.Namespace, content: dict[str, Any]) -> Path:
    """Write everything measured as JSON."""
    what = "digits" if options.data is None else "heloc" if options.data.is_file() else "isic"
    path = common.RESULTS / f"runtime_table-{what}{'-quick' if options.quick else ''}.json"
    facts = {"finished": datetime.now(UTC).isoformat(timespec="seconds"), "machine": common.machine()}
    path.write_text(
        json.dumps({**facts, "versions": versions(), "draws": Infidelity().samples, **content}, indent=2) + "\n"
    )
    return path


if __name__ == "__main__":
    main()
