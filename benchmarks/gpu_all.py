"""Everything that needs a GPU, one stage after the other, with what each came to in one JSON file.

``python benchmarks/gpu_all.py --data ISIC_FOLDER --out DIR --seconds 1500``

- train: ISIC-Linear, its classes weighted, and ISIC-Inception, as shipped
- runtime: the paper's runtime table on lesions
- tests: tests/test_device.py
- study: paper-isic on as many images as the time allows, with those models, and a part of it computed again; its
  claims, means and ranks as small files in DIR/results, for the study itself is too large to travel
- benchmarks: PC and DPC against the model alone

Run it again with the same DIR to go on: stages that are complete are left out, the study grows. A stage that fails or
takes too long does not stop the next. Without a CUDA device it says so and stops; ``--quick`` runs anywhere, on images
of noise, to see that everything works.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import common
import numpy as np
import tomli_w
import torch
from PIL import Image

from verax.datasets import load_isic
from verax.study.study import versions

HERE = Path(__file__).parent
MODELS = {"linear": ("--recipe", "balanced"), "inception": ()}
PRECISIONS = {"linear": "tf32", "inception": "float16"}  # a linear model's sums of many pixels are too long for float16
FEW = {"dpc_coherent": 96, "lpc": 96}  # readings that cost as much as all others together: images they are measured on
VERIFY_SECONDS = 150.0  # of the study's time, for its end
CLAIMS_SECONDS = 150.0  # likewise; at least these are given
GRACE = 30.0
Result = dict[str, Any]


def main() -> None:
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    content = read(options)
    if not options.quick and not torch.cuda.is_available():
        reason = "torch.cuda.is_available() is false: no CUDA device, or a build of torch without CUDA"
        write(options, content | {"stopped": reason})
        raise SystemExit(f"{reason}. Nothing was run; --quick runs anywhere.")
    if options.quick:
        options.data = images_of_noise(options.out / "noise", 40)
    end = time.monotonic() + options.seconds
    for name in options.stages:
        if content["stages"].get(name, {}).get("complete"):
            print(f"{name}: complete already", flush=True)
            continue
        left = end - time.monotonic()
        print(f"{name}: {left:.0f} s are left", flush=True)
        began = time.monotonic()
        result = STAGES[name](options, left) if left > 0 else {"complete": False, "reason": "no time left"}
        content["stages"][name] = {"seconds": time.monotonic() - began, **result}
        reason = "" if result["complete"] else f", not complete: {result['reason']}"
        print(f"{name}: {time.monotonic() - began:.0f} s{reason}", flush=True)
        write(options, content)
    print(f"Results: {write(options, content)}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of ISIC images")
    parser.add_argument("--out", type=Path, required=True, help="for models, the study, logs; goes on where it stopped")
    parser.add_argument("--stages", type=names, default=list(STAGES), help=f"some of {','.join(STAGES)} (default all)")
    parser.add_argument("--limit", type=int, default=512, help="images of the study (default 512)")
    parser.add_argument("--seconds", type=float, default=1e9, help="for all stages; no limit by default")
    parser.add_argument("--processes", type=int, default=2, help="of the study, which share the GPU (default 2)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    options = parser.parse_args()
    if not options.quick and options.data is None:
        parser.error("--data: the folder of ISIC images is needed; --quick makes images of noise")
    return options


def names(text: str) -> list[str]:
    """Stages by name, separated by commas."""
    chosen = text.split(",")
    if unknown := [name for name in chosen if name not in STAGES]:
        raise argparse.ArgumentTypeError(f"expected some of {','.join(STAGES)}, got {unknown[0]!r}")
    return chosen


# Stages


def train(options: argparse.Namespace, seconds: float) -> Result:
    """Both models at once."""
    folder = options.out / "models"
    short = ("--epochs", "1") if options.quick else ()
    script = [sys.executable, str(HERE.parent / "scripts" / "isic_models.py"), str(options.data), "--out", str(folder)]
    commands = {
        f"train-{name}": [*script, "--models", name, *recipe, *short]
        for name, recipe in MODELS.items()
        if not (folder / f"isic-{name}.csv").is_file()  # written last
    }
    if commands:
        load_isic(options.data)  # decodes the images once for both
    result = run(options, commands, seconds)
    for name in MODELS:
        if (folder / f"isic-{name}.csv").is_file():
            result[name] = json.loads((folder / f"isic-{name}.json").read_text())["metrics"]
            result[name]["epochs"] = (folder / f"isic-{name}.csv").read_text().count("\n") - 1
    return result


def runtime(options: argparse.Namespace, seconds: float) -> Result:
    """The paper's runtime table; the dry run's is of digits."""
    if options.quick:
        return benchmark(options, "runtime_table-digits", ["runtime_table.py"], seconds)
    model = options.out / "models" / "isic-inception.safetensors"
    command = ["runtime_table.py", "--data", str(options.data), "--model", str(model)]
    return benchmark(options, "runtime_table-isic", [*command, "--precision", "tf32", "--compile"], seconds)


def tests(options: argparse.Namespace, seconds: float) -> Result:
    """The tests that need a CUDA device."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/test_device.py",
        "-p",
        "no:cacheprovider",
        "-rfE",
        "--durations=5",
    ]
    return run(options, {"tests": command}, seconds)


def study(options: argparse.Namespace, seconds: float) -> Result:
    """The study, its verification and its results as small files."""
    end, computing = time.monotonic() + seconds, max(1.0, seconds - VERIFY_SECONDS - CLAIMS_SECONDS)
    spec, raw = options.out / "isic.toml", options.out / "gpu_study.json"
    spec.write_text(tomli_w.dumps(study_spec(options)))
    command = [sys.executable, str(HERE / "gpu_study.py"), str(spec), "--out", str(options.out / "study")]
    command += ["--data", str(options.data), "--limit", str(2 if options.quick else options.limit)]
    command += [
        "--seconds",
        str(computing),
        "--processes",
        str(options.processes),
    ]
    command += ["--verify", "--result", str(raw), "--device", "cuda" if torch.cuda.is_available() else "cpu"]
    raw.unlink(missing_ok=True)
    result = run(options, {"study": command}, seconds)
    if raw.is_file():
        result |= json.loads(raw.read_text())
        if result["complete"] and not result.get("verified", {}).get("passed"):
            result |= {"complete": False, "reason": "not verified"}
        elif not result["complete"]:
            result["reason"] = "the time was over; the study is as large as it says"
        result |= claims(options, result, max(CLAIMS_SECONDS, end - time.monotonic()))
    return result


def claims(options: argparse.Namespace, result: Result, seconds: float) -> Result:
    """What ``verax study claims`` makes of the study, with the runtime table where there is one."""
    command = [sys.executable, "-m", "verax", "study", "claims", str(options.out / "study")]
    command += ["--out", str(options.out / "results")]
    timed = common.RESULTS / "runtime_table-isic.json"
    command += ["--runtime", str(timed)] if timed.is_file() and not options.quick else []
    written = run(options, {"claims": command}, seconds)
    reasons = [each["reason"] for each in (result, written) if "reason" in each]
    return {
        "complete": result["complete"] and written["complete"],
        "output": result["output"] | written["output"],
        **({"reason": "; ".join(reasons)} if reasons else {}),
    }


def study_spec(options: argparse.Namespace) -> dict[str, Any]:
    """The shipped study with the trained models, ten random attributions, and units and precisions for one GPU."""
    shipped = resources.files("verax.paper") / "specs" / "paper-isic.toml"
    spec: dict[str, Any] = tomllib.loads(shipped.read_text(encoding="utf-8"))
    for metric in spec["metrics"]["list"]:
        if isinstance(metric, dict) and (few := FEW.get(metric.get("as") or metric["metric"])):
            metric["limit"] = few
    (data,) = spec["data"]
    for model in data["models"]:
        name = model.pop("architecture")
        model.pop("recipe", None)
        model |= {"path": str((options.out / "models" / f"isic-{name}.safetensors").absolute())}
        if torch.cuda.is_available():  # a processor takes minutes for an image in float16
            model["precision"] = PRECISIONS[name]
    data |= {"chunk": 16, "attributions": {"random_seeds": 5}}
    if options.quick:
        others = [{"method": "Gradient"}, {"method": "Random"}, {"method": "LimeImage", "samples": 8}]
        data |= {"chunk": 1, "attributions": {"grid": False, "others": others}, "background": 4}
        spec["metrics"] |= {"samples": 4, "steps": 2}
        spec["uncertainty"] |= {"inputs": 1, "samples": 4, "sizes": [2, 4]}
    return spec


def benchmarks(options: argparse.Namespace, seconds: float) -> Result:
    """PC and DPC of many images against the model alone."""
    sizes = ["--images", "2048", "--repeats", "3", "--precisions", "tf32", "float16"]
    return benchmark(options, "gpu", ["gpu.py", *([] if options.quick else sizes)], seconds)


STAGES: dict[str, Callable[[argparse.Namespace, float], Result]] = {
    stage.__name__: stage for stage in (train, runtime, tests, study, benchmarks)
}


# How they are run


def benchmark(options: argparse.Namespace, name: str, command: Sequence[str], seconds: float) -> Result:
    """A script of this folder, with the raw figures that it writes."""
    raw = common.RESULTS / f"{name}{'-quick' if options.quick else ''}.json"
    before = raw.read_bytes() if raw.is_file() else None
    quick = ["--quick"] if options.quick else []
    result = run(options, {name: [sys.executable, str(HERE / command[0]), *command[1:], *quick]}, seconds)
    written = raw.is_file() and raw.read_bytes() != before
    return result | ({"raw": json.loads(raw.read_text())} if written else {})


def run(options: argparse.Namespace, commands: dict[str, list[str]], seconds: float) -> Result:
    """Run commands at once, each with its log in the directory, until all have ended or the time is over."""
    end, running = time.monotonic() + seconds, {}
    for name, command in commands.items():
        with (options.out / f"{name}.log").open("w") as log:
            running[name] = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, cwd=HERE.parent, start_new_session=True
            )
    reasons = []
    for name, process in running.items():
        try:
            code = process.wait(max(0.0, end - time.monotonic()) + GRACE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            reasons.append(f"{name} was stopped after {seconds + GRACE:.0f} s")
        else:
            if code:
                reasons.append(f"{name} ended with {code}")
    tails = {name: (options.out / f"{name}.log").read_text(errors="replace")[-3000:] for name in commands}
    return {"complete": not reasons, **({"reason": "; ".join(reasons)} if reasons else {}), "output": tails}


def images_of_noise(folder: Path, count: int) -> Path:
    """Small images as a folder of lesions, every fourth malignant, of one colour with noise."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    lines = ["isic_id,malignant"]
    for number in range(count):
        pixels = generator.integers(0, 99, (224, 224, 3)) + generator.integers(0, 99, 3) + 50 * (number % 4 == 0)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"ISIC_{number:07d}.png")
        lines.append(f"ISIC_{number:07d},{int(number % 4 == 0)}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder


def read(options: argparse.Namespace) -> dict[str, Any]:
    """What an earlier run in this directory came to."""
    path = options.out / "gpu_all.json"
    content: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"stages": {}}
    return content


def write(options: argparse.Namespace, content: dict[str, Any]) -> Path:
    """Write the results into the directory, and to those of all benchmarks if something was measured."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    facts = {"finished": datetime.now(UTC).isoformat(timespec="seconds"), "device": device, "machine": common.machine()}
    text = json.dumps({**facts, "versions": versions(), "cuda": torch.version.cuda, **content}, indent=2) + "\n"
    path = options.out / "gpu_all.json"
    path.write_text(text)
    if "stopped" not in content and not options.quick:
        path = common.RESULTS / "gpu_all.json"
        path.write_text(text)
    return path


if __name__ == "__main__":
    main()
