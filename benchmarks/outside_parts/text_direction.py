"""RapidOCR: its classifier of the direction of text, an ONNX file inside a package of the index, is audited.

Twelve images of a word, every second one upside down. The file is found in whichever of the two packages is installed.
"""

import importlib.util
import math
import time
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import outside
import torch
from PIL import Image, ImageDraw, ImageFont

import verax
from verax.attribution import KernelShap
from verax.metrics import EffectCorrelation, Infidelity, PredictionChange, SymmetricRelevanceGain

WORDS = (
    *("Invoice", "October", "Delivery", "Postage", "Total", "Customer"),
    *("Address", "Account", "Receipt", "Balance", "Payment", "Reference"),
)
HEIGHT, WIDTH, PATCH = 48, 192, 12
SAMPLES = 512
METRICS: dict[str, Any] = {
    "SRG": SymmetricRelevanceGain(),
    "PC": PredictionChange(),
    "Effect correlation (removal), 160 draws": EffectCorrelation(perturbation="baseline", samples=160),
    "Effect correlation (removal), 640 draws": EffectCorrelation(perturbation="baseline"),
    "Infidelity (removal), 640 draws": Infidelity(perturbation="baseline"),
}


def measure(data: Path) -> dict[str, Any]:
    """Audit by default, and a few metrics on patches; no data of the folder are needed."""
    torch.set_num_threads(1)
    model, rows = _model(), images()
    return {"model": model.name, "default": _by_default(model, rows), "patches": _on_patches(model, rows)}


def _model() -> Path:
    for name in ("rapidocr", "rapidocr_onnxruntime"):
        spec = importlib.util.find_spec(name)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            for path in sorted(Path(folder).glob("models/*mobile_v2.0_cls*.onnx")):
                return path
    raise SystemExit("text_direction: expected the package rapidocr, got none; pip install rapidocr.")


def images() -> Any:
    """White images with one black word, scaled as the package scales them."""
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), 34)
    rows = []
    for number, word in enumerate(WORDS):
        image = Image.new("RGB", (WIDTH, HEIGHT), "white")
        ImageDraw.Draw(image).text((8, 2), word, font=font, fill="black")
        pixels = np.asarray(image, dtype=np.float32)
        rows.append((pixels[::-1, ::-1] if number % 2 else pixels).transpose(2, 0, 1) / 127.5 - 1)
    return np.stack(rows).astype(np.float32)


def _by_default(model: Path, rows: Any) -> dict[str, Any]:
    """Rows, seconds, and how often it told how far it was."""
    lines: list[str] = []
    clock, start = time.process_time(), time.perf_counter()
    found = verax.audit(verax.Problem(model, rows), progress=lines.append)
    return {
        "rows": found.rows,
        "processor_seconds": round(time.process_time() - clock, 1),
        "seconds": round(time.perf_counter() - start, 1),
        "lines_of_progress": len(lines),
        "metrics": len({one.metric for one in found.findings}),
    }


def _on_patches(model: Path, rows: Any) -> list[dict[str, Any]]:
    """How many inputs metrics need to tell Kernel SHAP of 64 patches, removed to white, from what is worse."""
    numbers = torch.arange(HEIGHT * WIDTH // PATCH**2).reshape(HEIGHT // PATCH, WIDTH // PATCH)
    patches = numbers.repeat_interleave(PATCH, 0).repeat_interleave(PATCH, 1).expand(3, -1, -1)
    problem = verax.Problem(model, rows, features=patches, baselines=1.0)
    explained = {"Kernel SHAP": KernelShap(samples=SAMPLES)}
    found = verax.audit(problem, explained, metrics=METRICS, trials=["tells_apart"])
    return [{"metric": name, "inputs": _or_none(found.inputs_needed.get(name, math.inf))} for name in METRICS]


def _or_none(count: float) -> float | None:
    return None if math.isinf(count) else count


def tables(measured: dict[str, Any]) -> dict[str, str]:
    """The default audit, and the inputs that metrics need on patches."""
    default = measured["default"]
    line = [
        str(default["metrics"]),
        f"{default['rows']:,}",
        f"{default['processor_seconds']:.0f}",
        str(default["lines_of_progress"]),
    ]
    needed = [
        [one["metric"], "never" if one["inputs"] is None else f"{one['inputs']:,.0f}"] for one in measured["patches"]
    ]
    return {
        "default": outside.markdown(["metrics", "model rows", "seconds of the processor", "lines of progress"], [line]),
        "patches": outside.markdown(["metric", "inputs needed"], needed),
    }
