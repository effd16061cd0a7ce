"""``--import``: metrics, methods and data sets of one's own on the command line, known once their module has run."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from processes import ran_apart
from verax.models import save
from verax.paper.models import Linear

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


EVALUATE = "evaluate --model m.safetensors --inputs x.npy --attributions a.npy --metric first_step --json"
TRAIN = "train tumours linear --epochs 1 --device cpu --out t.safetensors --json"
TUNE = "tune --model m.safetensors --inputs x.npy --methods Itself,Random --trials 2 --json"
IMPORT = "--import own.things"


@pytest.fixture(scope="module")
def ended(folder: Path) -> dict[str, subprocess.CompletedProcess[str]]:
    """How commands ended in processes of their own: what they import must not stay known here."""
    without = [EVALUATE, TRAIN, TUNE]
    commands = [*without, f"{EVALUATE} {IMPORT}", f"{TRAIN} {IMPORT}", f"{TUNE} --metric first_step {IMPORT}"]
    return dict(zip(commands, ran_apart(commands, folder), strict=True))


def facts(found: subprocess.CompletedProcess[str]) -> Any:
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def test_a_metric_of_ones_own(ended: dict[str, subprocess.CompletedProcess[str]]) -> None:
    assert list(facts(ended[f"{EVALUATE} {IMPORT}"])["metrics"]) == ["first_step"]


def test_a_data_set_of_ones_own(ended: dict[str, subprocess.CompletedProcess[str]]) -> None:
    assert facts(ended[f"{TRAIN} {IMPORT}"])["dataset"] == "tumours"


def test_a_method_and_a_metric_of_ones_own_in_a_search(ended: dict[str, subprocess.CompletedProcess[str]]) -> None:
    pytest.importorskip("optuna", reason="needs the extra tune")
    found = facts(ended[f"{TUNE} --metric first_step {IMPORT}"])
    assert found["best"]["method"] in ("Itself", "Random")
    assert list(found["scores"]) == ["first_step"]


@pytest.mark.parametrize("command", [EVALUATE, TRAIN, TUNE])
def test_what_is_missing_without_it(command: str, ended: dict[str, subprocess.CompletedProcess[str]]) -> None:
    found = ended[command]
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert found.stderr.endswith("One of your own needs --import MODULE.\n")
