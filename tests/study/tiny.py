"""A study that costs next to nothing, for tests of processes: a table and a model of its own, nothing to train."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from study.studies import content, ran, table
from verax.data.file import load_file
from verax.models import save
from verax.paper.models import Linear
from verax.study.spec import StudySpec, parse_spec

UNITS = 6
METHODS: list[dict[str, Any]] = [{"method": "Gradient"}, {"method": "SmoothGrad", "samples": 4}, {"method": "Random"}]


def tiny_content(folder: Path, units: int = UNITS, others: list[dict[str, Any]] = METHODS) -> dict[str, Any]:
    """Write data and model beside the study's directory, and return what a spec's file says of them."""
    folder.mkdir(parents=True, exist_ok=True)
    data, model = folder / "data.npz", folder / "own.safetensors"
    if not model.exists():
        rows = np.random.default_rng(0).random((60, 5))
        np.savez(data, inputs=rows, labels=(rows @ np.arange(5) > 5).astype(int))
        quality = {"test": {"auroc": 0.8, "accuracy": 0.8}}
        given = {"dataset": load_file(data), "hyperparameters": {}, "metrics": quality, "seed": 0}
        save(model, Linear(5).build(0), Linear(5), **given)
    own = {"name": "Own", "file": str(model)}
    data_set = table(own, others=others, name="file", path=str(data), limit=2 * units, chunk=2)
    return content(data_set, uncertainty={"inputs": 0}, examples=0)


def tiny(folder: Path, units: int = UNITS) -> StudySpec:
    """The study, in so many units."""
    return parse_spec(tiny_content(folder, units), "tiny")


def finished_here(place: Path, name: str) -> Path:
    """The study, run in this process into a folder of that name beside its data, without plan and report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("verax.study.run.write_report", lambda study, workers: study.store.folder)
        patch.setattr("verax.study.plan._seconds_per_input", lambda *arguments: 0.0)
        ran(tiny(place), place / name)
    return place / name
