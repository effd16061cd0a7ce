"""``--import``: metrics, methods and data sets of one's own on the command line, known once their module has run."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from verax.models import Linear, save

OWN = """
from dataclasses import dataclass, replace
from verax.attribution import Attribution
from verax.datasets import Source, load_breast_cancer, register
from verax.metrics import Experiment, GuidedMetric

@dataclass(frozen=True)
class FirstStep(GuidedMetric):
    name, higher_is_better, kind = "first_step", True, "baseline"
    experiment = Experiment("signed", steps=4)

    def reduce(self, scores):
        return scores.curves[:, :, 0, 0] - scores.curves[:, :, 0, 1]

@dataclass(frozen=True)
class Itself(Attribution):
    local = False

    def explain(self, explained):
        return explained.inputs.clone()

def load_tumours(seed=0):
    return replace(load_breast_cancer(seed), name="tumours")

register(Source("tumours", load_tumours, "tabular"))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module of one's own, a model, inputs and an attribution."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own").mkdir()
    (folder / "own" / "things.py").write_text(OWN)
    save(folder / "m.safetensors", Linear(4).build(0), Linear(4), dataset=None, hyperparameters={}, metrics={}, seed=0)
    for name in ("x", "a"):
        np.save(folder / f"{name}.npy", np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32))
    return folder


def ran(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own: what it imports must not stay known here."""
    program = [sys.executable, "-m", "verax", *command.split()]
    return subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)


EVALUATE = "evaluate --model m.safetensors --inputs x.npy --attributions a.npy --metric first_step --json"
TRAIN = "train tumours linear --epochs 1 --device cpu --out t.safetensors --json"
TUNE = "tune --model m.safetensors --inputs x.npy --methods Itself,Random --trials 2 --json"


def test_a_metric_of_ones_own(folder: Path) -> None:
    found = ran(folder, f"{EVALUATE} --import own.things")
    assert found.returncode == 0, found.stderr
    assert list(json.loads(found.stdout)["metrics"]) == ["first_step"]


def test_a_data_set_of_ones_own(folder: Path) -> None:
    found = ran(folder, f"{TRAIN} --import own.things")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["dataset"] == "tumours"


def test_a_method_and_a_metric_of_ones_own_in_a_search(folder: Path) -> None:
    pytest.importorskip("optuna", reason="needs the extra tune")
    found = ran(folder, f"{TUNE} --metric first_step --import own.things")
    assert found.returncode == 0, found.stderr
    facts = json.loads(found.stdout)
    assert facts["best"]["method"] in ("Itself", "Random")
    assert list(facts["scores"]) == ["first_step"]


@pytest.mark.parametrize("command", [EVALUATE, TRAIN, TUNE])
def test_what_is_missing_without_it(command: str, folder: Path) -> None:
    found = ran(folder, command)
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert found.stderr.endswith("One of your own needs --import MODULE.\n")
