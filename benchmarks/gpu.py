"""One GPU: how fast is the model alone, and how close do the metrics come to it, in each precision?

InceptionV1, images of 3 x 224 x 224 with values from a normal distribution, one attribution each, all on the GPU.
The model alone runs what Verax runs (batch norms folded, channels last, weights cast), on batches that lie ready; for
comparison, torch.compile also runs it with its batch norms as they are. The first call of each case, in which
torch.compile works, is timed on its own. With ``--model`` and ``--pictures`` (an .npz
of uint8 pixels named ``pixels``) the scores in each precision are compared with those in float32, on real images.
"""

import argparse
import copy
import importlib.metadata
import json
import math
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import common
import numpy as np
import torch
from torch import Tensor, nn

import verax
from verax.metrics import DirectedPredictionChange, Infidelity
from verax.paper.models import InceptionV1
from verax.scoring.inference import DTYPES, single_precision
from verax.scoring.scorer import automatic_batch_size

METRICS = ("pc", DirectedPredictionChange(order="signed"))
PRECISIONS = ("tf32", "float16", "bfloat16", "float32")
DRAWS = 640
IMAGES = 11487
WANTED_SECONDS = {"tf32": 18, "bfloat16": 11, "float16": 11}
WANTED_RATIO, WANTED_DIFFERENCE, WANTED_SPEARMAN = 0.95, 0.005, 0.99
SLOW = 20  # in exact single precision only so many times fewer images are evaluated


def main() -> None:
    options = arguments()
    place = Place(options)
    print(f"{place.name}, torch {torch.__version__}\n")
    content: dict[str, Any] = {"images": options.images, "size": place.size, "device": place.name, "cases": {}}
    for precision in options.precisions:
        content["cases"][precision] = measure(place, precision, options)
        write(options, content)
    content["infidelity"] = infidelity(place, options)
    if place.saved and options.pictures:
        content["accuracy"] = accuracy(place, options.pictures)
    report(content)
    print(f"\nRaw repeats: {write(options, content)}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    parser.add_argument("--repeats", type=int, default=5, help="timed repeats of each case (default 5)")
    parser.add_argument("--images", type=int, default=IMAGES, help="images for PC and DPC (default 11,487)")
    parser.add_argument("--few", type=int, default=64, help="images for Infidelity (default 64)")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--model", type=Path, help="a trained model, as verax.models.save writes it")
    parser.add_argument("--pictures", type=Path, help="an .npz with real images")
    options = parser.parse_args()
    if options.quick:
        options.images, options.few, options.repeats = 30, 3, 2
    return options


class Place:
    """The device, the model and the size of images; with ``--quick`` all is small."""

    def __init__(self, options: argparse.Namespace) -> None:
        if not options.quick and not torch.cuda.is_available():
            raise SystemExit("A CUDA device is needed; --quick runs anywhere.")
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
        self.size = 32 if options.quick else 224
        self.saved = verax.models.load(options.model) if options.model else None
        model = self.saved.module if self.saved else small() if options.quick else InceptionV1().build(seed=0)
        self.model = model.eval().to(self.device)
        self.scorers: dict[tuple[str, bool], verax.Scorer] = {}
        self.inputs = self.normal(options.images, 0)
        self.attributions = self.normal(options.images, 1)

    def scorer(self, precision: Any, compiled: bool) -> verax.Scorer:
        """Keep what was compiled."""
        key = precision, compiled
        if key not in self.scorers:
            self.scorers[key] = verax.Scorer(self.model, precision=precision, compile=compiled)
        return self.scorers[key]

    def normal(self, count: int, seed: int) -> Tensor:
        """Draw images."""
        generator = torch.Generator(self.device).manual_seed(seed)
        return torch.randn(count, 3, self.size, self.size, generator=generator, device=self.device)

    def wait(self) -> None:
        """Let the device finish."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, work: Callable[[], object]) -> float:
        """Time work until the device has done it."""
        self.wait()
        start = time.perf_counter()
        work()
        self.wait()
        return time.perf_counter() - start

    def peak(self, work: Callable[[], object]) -> int:
        """Bytes of the device's memory that a call needs beyond what was there."""
        if self.device.type != "cuda":
            return 0
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return torch.cuda.max_memory_allocated() - before


def small() -> nn.Module:
    layers = (nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(128, 1))


def bare_rate(place: Place, scorer: verax.Scorer, batches: int) -> float:
    """Rows per second of the model alone."""
    with scorer.session(place.inputs, "torch", "probability") as session:
        rows = place.normal(min(session.batch_size, 4096), 2)
        ready = rows.to(session.runner.dtype, memory_format=session.runner.layout)
        run = session.runner.adapter
        run(ready, "torch")
        taken = place.seconds(lambda: [run(ready, "torch") for _ in range(batches)])
        return batches * len(ready) / taken


def plain_rate(place: Place, precision: Any, batches: int, repeats: int) -> list[float]:
    """Rows per second of the module as it is, cast, channels last and compiled."""
    model = copy.deepcopy(place.model).to(DTYPES[precision]).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    run = torch.compile(model, dynamic=False)
    size = automatic_batch_size(place.inputs[0].numel(), place.device)
    ready = place.normal(min(size, 4096), 2).to(DTYPES[precision], memory_format=torch.channels_last)
    with single_precision(precision), torch.inference_mode():
        run(ready)
        run(ready)
        times = [place.seconds(lambda: [run(ready) for _ in range(batches)]) for _ in range(repeats)]
    return [batches * len(ready) / taken for taken in times]


def measure(place: Place, precision: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Measure the model alone, eager and compiled, and in turn with it PC and DPC on the compiled one."""
    eager, scorer = place.scorer(precision, False), place.scorer(precision, True)
    count = max(1, options.images // (SLOW if precision == "float32" else 1))
    inputs, attributions = place.inputs[:count], place.attributions[:count]

    def evaluate(rows: slice = slice(None)) -> Any:
        return verax.evaluate(verax.Problem(scorer, inputs[rows]), attributions[rows], METRICS)

    batches = 3 if options.quick else 20 if precision != "float32" else 5
    # a GPU under load for long runs slower, so where the ratio matters the model alone runs over as many rows
    whole = math.ceil(40 * count / 1024) if precision == "tf32" and not options.quick else batches
    found: dict[str, Any] = {
        "images": count,
        "eager": [bare_rate(place, eager, batches) for _ in range(options.repeats)],
    }
    found["plain"] = plain_rate(place, precision, batches, options.repeats)
    found["first_call_seconds"] = evaluate(slice(8)).seconds
    found["compiled"], found["seconds"] = [], []
    for _ in range(options.repeats):
        found["compiled"].append(bare_rate(place, scorer, whole))
        found["seconds"].append(place.seconds(evaluate))
    found["rows"] = evaluate().rows if options.quick else 40 * count
    found["peak_bytes"] = place.peak(lambda: evaluate(slice(1000)))
    rate = found["rows"] / median(found["seconds"])
    found["ratio_to_bare"] = rate / median(found["compiled"])
    print(
        f"{precision:9} alone {median(found['eager']):,.0f} rows/s eager, {median(found['compiled']):,.0f} compiled, "
        f"{median(found['plain']):,.0f} with batch norms as they are; "
        f"PC and DPC of {count:,} images {median(found['seconds']):.2f} s, {rate:,.0f} rows/s, "
        f"{found['ratio_to_bare']:.3f} of alone, peak {found['peak_bytes'] / 2**30:.1f} GiB",
        flush=True,
    )
    return found


def infidelity(place: Place, options: argparse.Namespace) -> dict[str, Any]:
    """Infidelity of one and of 46 attributions; the draws are shared, so the model is asked once."""
    inputs = place.inputs[: options.few]
    many = torch.stack([place.normal(options.few, 100 + one)[:, :1] for one in range(46)])
    found: dict[str, Any] = {"images": options.few, "draws": DRAWS}
    for precision in ("tf32", "float16"):
        scorer = place.scorer(precision, True)

        def measured(k: int, scorer: verax.Scorer = scorer) -> Any:
            return Infidelity(samples=DRAWS)(verax.Problem(scorer, inputs), many[:k])

        for k in (1, 46):
            work = partial(measured, k)
            rows = work().rows
            times = [place.seconds(work) for _ in range(options.repeats)]
            found[f"{precision}, {k}"] = {"seconds": times, "rows": rows, "peak_bytes": place.peak(work)}
            print(f"Infidelity, {precision}, {k} attributions: {median(times):.3f} s, {rows:,} rows", flush=True)
    return found


def accuracy(place: Place, pictures: Path) -> dict[str, Any]:
    """Compare the scores of real images in each precision with those in exact single precision."""
    pixels = torch.from_numpy(np.load(pictures)["pixels"]).float() / 255
    inputs = place.saved.standardisation.apply(pixels).float().to(place.device)  # type: ignore[union-attr]
    exactly = place.scorer("float32", False)
    problem = verax.Problem(exactly, inputs)
    gradient = verax.attribution.Gradient()(problem)
    attributions = {"gradient": gradient, "input*gradient": inputs * gradient}
    exact = verax.evaluate(problem, attributions, METRICS)
    found: dict[str, Any] = {"images": len(inputs)}
    cases = [(precision, compiled) for precision in PRECISIONS[:-1] for compiled in (False, True)]
    for precision, compiled in cases:
        # the same class: of an undecided image another precision may predict the other one
        scorer = place.scorer(precision, compiled)
        other = verax.evaluate(verax.Problem(scorer, inputs, target=exact["pc"].target), attributions, METRICS)
        for metric in ("pc", "dpc"):
            for name in attributions:
                ours, wanted = (result[metric].value[name].double().cpu() for result in (other, exact))
                label = f"{precision}{', compiled' if compiled else ''}, {metric}, {name}"
                found[label] = {
                    "mean_difference": float((ours - wanted).abs().mean()),
                    "largest_difference": float((ours - wanted).abs().max()),
                    "spearman": spearman(ours, wanted),
                    "mean_score": float(wanted.mean()),
                    "standard_deviation": float(wanted.std()),
                }
    return found


def spearman(first: Tensor, second: Tensor) -> float:
    places = torch.stack([values.argsort().argsort().double() for values in (first, second)])
    return float(torch.corrcoef(places)[0, 1])


def report(content: dict[str, Any]) -> None:
    rows = []
    for precision, case in content["cases"].items():
        taken = median(case["seconds"])
        cells = (*(median(case[name]) for name in ("eager", "compiled", "plain")), case["rows"] / taken)
        rates = [f"{cell:,.0f}" for cell in cells]
        memory = f"{case['peak_bytes'] / 2**30:.1f}"
        rows.append((precision, *rates, f"{case['ratio_to_bare']:.3f}", f"{case['images']:,}", f"{taken:.2f}", memory))
    head = (
        "rows/s",
        "alone, eager",
        "alone, compiled",
        "not folded",
        "PC and DPC",
        "ratio",
        "images",
        "seconds",
        "GiB",
    )
    print()
    common.print_table(head, rows)
    print()
    for precision, wanted in WANTED_SECONDS.items():
        if precision not in content["cases"] or content["images"] != IMAGES:
            continue
        taken = median(content["cases"][precision]["seconds"])
        print(f"{precision}: {taken:.2f} s ({common.verdict(taken <= wanted)}, wanted <= {wanted} s for 11,487 images)")
    ratio = content["cases"]["tf32"]["ratio_to_bare"]
    print(f"tf32: {ratio:.3f} of the model alone ({common.verdict(ratio >= WANTED_RATIO)}, wanted >= {WANTED_RATIO})")
    for label, values in content.get("accuracy", {}).items():
        if label != "images":
            near = values["mean_difference"] <= WANTED_DIFFERENCE and values["spearman"] >= WANTED_SPEARMAN
            print(
                f"{label}: mean |difference| {values['mean_difference']:.5f}, Spearman {values['spearman']:.4f} "
                f"({common.verdict(near)}, wanted <= {WANTED_DIFFERENCE} and >= {WANTED_SPEARMAN})"
            )


def write(options: argparse.Namespace, content: dict[str, Any]) -> Path:
    versions = {"python": platform.python_version(), "verax": verax.__version__, "torch": torch.__version__}
    for name in ("triton", "numpy"):
        if name in {one.name for one in importlib.metadata.distributions()}:
            versions[name] = importlib.metadata.version(name)
    path = common.RESULTS / f"gpu{'-quick' if options.quick else ''}.json"
    path.parent.mkdir(exist_ok=True)
    facts = {"finished": datetime.now(UTC).isoformat(timespec="seconds"), "machine": common.machine()}
    whole = {**facts, "versions": versions, "cuda": torch.version.cuda, "repeats": options.repeats, **content}
    path.write_text(json.dumps(whole, indent=2) + "\n")
    return path


if __name__ == "__main__":
    main()
