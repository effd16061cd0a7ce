"""Metrics and methods of one's own: one class in a file outside the package, through a whole study."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tomli_w

from study.forking import Forking
from study.tiny import tiny_content

MODULE = """
from dataclasses import dataclass

import torch
from verax.attribution import Attribution
from verax.metrics import Experiment, GuidedMetric


@dataclass(frozen=True)
class FirstStep(GuidedMetric):
    steps: int = 5
    weight: float = 0.5
    offset: float | None = None
    name, label, higher_is_better, kind = "first_step", "First step", True, "baseline"

    @property
    def experiment(self):
        return Experiment("signed", self.steps)

    def reduce(self, scores):
        return self.weight * (scores.curves[:, :, 0, 0] - scores.curves[:, :, 0, 1])


@dataclass(frozen=True)
class Inputs(Attribution):
    factor: float = 1.0
    local = False

    def explain(self, explained):
        return self.factor * explained.inputs
"""
OWN: dict[str, Any] = {"metric": "first_step", "as": "heavy", "weight": 2.0}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A working directory with a module of one's own and a spec that uses it."""
    (tmp_path / "own_code.py").write_text(MODULE)
    others = [{"method": "Gradient"}, {"method": "Inputs"}, {"method": "Inputs", "factor": -1.0}]
    own = tiny_content(tmp_path, 2, others) | {"metrics": {"list": ["pc", "first_step", OWN]}}
    (tmp_path / "own.toml").write_text(tomli_w.dumps(own))
    return tmp_path


@pytest.fixture(scope="module")
def forking() -> Iterator[Forking]:
    """Runs commands, each in a process that has not imported anything of one's own."""
    with Forking() as process:
        yield process


def test_own_code_goes_through_a_study_with_workers(forking: Forking, place: Path) -> None:
    ran = forking.verax(place, "study", "run", "own.toml", "--out", "study", "--workers", "2", "--import", "own_code")
    assert ran.returncode == 0, ran.stderr
    assert "2 units computed" in ran.stdout
    scores = pl.concat([pl.read_parquet(path) for path in (place / "study" / "scores").iterdir()])
    assert scores["method"].unique().sort().cast(pl.String).to_list() == ["Gradient", "Inputs"]
    assert (scores["heavy"] == 4 * scores["first_step"]).all()
    assert scores["first_step"].abs().max() > 0  # type: ignore[operator]
    page = (place / "study" / "report.html").read_text()
    assert "First step" in page
    assert "Inputs" in page

    frozen = tomllib.loads((place / "study" / "study.toml").read_text())
    assert frozen["facts"]["imports"] == ["own_code"]
    full = {"metric": "first_step", "as": "heavy", "steps": 5, "weight": 2.0, "none": ["offset"]}
    assert frozen["study"]["metrics"]["list"][2] == full

    agrees = forking.verax(place, "verify", "study", "--sample", "100%", "--import", "own_code")
    assert (agrees.returncode, agrees.stdout.split(":")[0]) == (0, "agrees"), agrees.stderr

    lacking = forking.verax(place, "study", "status", "study")
    assert lacking.returncode == 2
    assert all(f"got '{name}'" in lacking.stderr for name in ("Inputs", "first_step"))
    assert lacking.stderr.count("What is not part of Verax needs --import own_code.\n") == 4


def test_a_module_that_was_not_imported_is_named(forking: Forking, place: Path) -> None:
    lacking = forking.verax(place, "study", "run", "own.toml", "--out", "study")
    assert lacking.returncode == 2
    for line, name in zip(lacking.stderr.splitlines(), ("Inputs",) * 2 + ("first_step",) * 2, strict=True):
        assert f"got '{name}'" in line
        assert line.endswith("What is not part of Verax needs --import MODULE.")
    assert not (place / "study" / "scores").exists()
