"""A small study of every method and metric on models whose weights no training makes: the same on every machine.

``python tests/study/golden/small_study.py FOLDER`` runs it and writes ``scores.csv`` and ``made_on.json`` beside this
file: the table that ``test_golden.py`` holds every later version to.
"""

import hashlib
import json
import platform
import sys
from pathlib import Path

import polars as pl
import torch

from verax.datasets import load_breast_cancer, load_digits
from verax.models import save
from verax.paper.models import MLP, Linear

HERE = Path(__file__).parent
SCORES, MADE_ON = HERE / "scores.csv", HERE / "made_on.json"
KEYS = ("model", "configuration", "input_id")
VALUES = (
    "target",
    "pc",
    "dpc_magnitude",
    "dpc_signed",
    "dpc_literal",
    "infidelity",
    "infidelity_se",
    "infidelity_baseline",
    "infidelity_baseline_se",
    "attribution_norm",
)
MODELS = {
    "Cancer-Linear": (load_breast_cancer, Linear(30), 1),
    "Cancer-MLP": (load_breast_cancer, MLP(30, hidden=(16, 8)), 2),
    "Digits-Linear": (load_digits, Linear((1, 8, 8)), 3),
}
SPEC = """
name = "golden"
examples = 0
cache_gib = 0.0

[metrics]
samples = 40

[uncertainty]
inputs = 0

[[data]]
name = "breast-cancer"
limit = 4
attributions = {{ every = 97 }}
models = [
    {{ name = "Cancer-Linear", file = "{folder}/Cancer-Linear.safetensors" }},
    {{ name = "Cancer-MLP", file = "{folder}/Cancer-MLP.safetensors" }},
]

[[data]]
name = "digits"
limit = 2
attributions = {{ every = 194 }}
models = [{{ name = "Digits-Linear", file = "{folder}/Digits-Linear.safetensors" }}]
"""


def write_spec(folder: Path) -> Path:
    """Save the models and the spec that names them."""
    for name, (load, architecture, seed) in MODELS.items():
        path = folder / f"{name}.safetensors"
        save(path, architecture.build(seed), architecture, dataset=load(), hyperparameters={}, metrics={}, seed=seed)
    spec = folder / "golden.toml"
    spec.write_text(SPEC.format(folder=folder.as_posix()))
    return spec


def scores_of(study: Path) -> pl.DataFrame:
    """The scores of a study in one table, in an order that does not depend on its files."""
    parts = [pl.read_parquet(path) for path in sorted((study / "scores").glob("*.parquet"))]
    table = pl.concat([part.select(pl.col(*KEYS).cast(pl.String), *VALUES) for part in parts])
    return table.sort(KEYS)


def machine() -> dict[str, str]:
    """What the last bits depend on."""
    described = Path("/proc/cpuinfo")
    first = described.read_text().split("\n\n", 1)[0].splitlines() if described.is_file() else []
    facts = [line for line in first if line.startswith(("vendor_id", "cpu family", "model", "stepping", "flags"))]
    processor = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    return {"processor": processor, "torch": torch.__version__, "machine": platform.machine()}


def main(folder: Path) -> None:
    """Run the study and keep its scores."""
    from verax.cli import app  # noqa: PLC0415  # a command line only where it is one

    folder.mkdir(parents=True)
    app(["study", "run", str(write_spec(folder)), "--out", str(folder / "study")], standalone_mode=False)
    scores_of(folder / "study").write_csv(SCORES)
    MADE_ON.write_text(json.dumps(machine(), indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
