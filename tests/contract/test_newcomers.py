"""A metric, a method, a replacement, a kind of model file and a data set of a newcomer's: one short file each.

Each is used in Python, on the command line and in a study from a TOML file.
"""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import tomli_w
import torch

import verax
from processes import ran_apart
from verax.attribution import METHODS
from verax.data import catalogue
from verax.metrics import METRICS
from verax.replacement import REPLACEMENTS
from verax.scoring.model_files.opening import _OPENERS

LONGEST = 30
FILES = {
    "new_metric": '''
from dataclasses import dataclass

from verax.metrics import AttributionMetric


@dataclass(frozen=True)
class LargestShare(AttributionMetric):
    """The share of the attribution that its largest feature has."""

    power: float = 1.0
    name, label, higher_is_better, kind = "largest_share", "Largest share", True, "baseline"

    def reduce(self, attributions, problem):
        sizes = attributions.abs() ** self.power
        return sizes.amax(-1) / sizes.sum(-1)
''',
    "new_method": '''
from dataclasses import dataclass

import torch

from verax.attribution import Attribution


@dataclass(frozen=True)
class DropOfEach(Attribution):
    """The drop of the score when a feature becomes a value."""

    value: float = 0.0
    local = False

    def explain(self, problem):
        x = problem.inputs
        inputs, features = x.shape
        without = torch.where(torch.eye(features, dtype=torch.bool), self.value, x[:, None])
        scores = problem.scores(without.flatten(0, 1), torch.arange(inputs).repeat_interleave(features))
        return problem.scores()[:, None] - scores.reshape(inputs, features)
''',
    "new_replacement": '''
from dataclasses import dataclass

import torch

from verax.replacement import Replacement


@dataclass(frozen=True)
class PartOfTheWay(Replacement):
    """A removed feature goes a part of the way to its baseline."""

    share: float = 0.5

    def fill(self, rows, removed=None):
        return torch.lerp(rows.values, rows.baselines, self.share)
''',
    "new_adapter": '''
from dataclasses import dataclass

import numpy as np
import torch

import verax


@dataclass(frozen=True)
class Rule:
    """The probability of class 1 grows with a weighted sum; a .rule file holds the weights, one in a line."""

    weights: torch.Tensor
    returns: str = "probabilities"
    module: None = None

    def __call__(self, batch, kind):
        return torch.sigmoid(batch.double() @ self.weights)


verax.models.register_model_file(".rule", lambda path: Rule(torch.from_numpy(np.loadtxt(path))))
''',
    "new_data": """
import numpy as np

from verax.datasets import Dataset, Source, fingerprint, make_split, register, standardise_columns


def load_coins(seed=0):
    inputs = np.random.default_rng(0).normal(size=(60, 4))
    labels = (inputs.sum(1) > 0).astype(int)
    ids = tuple(map(str, range(60)))
    split = make_split(60, seed)
    standardisation = standardise_columns(inputs[split.train])
    names = ("a", "b", "c", "d"), ("tails", "heads")
    return Dataset("coins", inputs, labels, ids, *names, split, standardisation, fingerprint(inputs, labels, ids))


register(Source("coins", load_coins, "tabular"))
""",
}
IMPORTS = [word for name in FILES for word in ("--import", name)]
WEIGHTS = np.array([3.0, -2.0, 1.0, 0.0])
STUDY = {
    "name": "new",
    "examples": 0,
    "uncertainty": {"inputs": 0},
    "metrics": {
        "list": [
            "pc",
            {"metric": "largest_share", "power": 2.0, "as": "squared"},
            {"metric": "pc", "replacement": {"name": "part_of_the_way", "share": 1.0}, "as": "whole_way"},
        ]
    },
    "data": [
        {
            "name": "coins",
            "limit": 4,
            "models": [{"name": "Rule", "path": "m.rule", "returns": "probabilities"}],
            "attributions": {"grid": False, "others": [{"method": "DropOfEach"}, {"method": "Random"}]},
        }
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a newcomer, a model, inputs and a study."""
    folder = tmp_path_factory.mktemp("new")
    for name, content in FILES.items():
        (folder / f"{name}.py").write_text(content.lstrip())
    np.savetxt(folder / "m.rule", WEIGHTS)
    np.save(folder / "x.npy", np.random.default_rng(1).normal(size=(12, 4)))
    (folder / "new.toml").write_text(tomli_w.dumps(STUDY))
    return folder


@pytest.fixture(scope="module")
def modules(folder: Path) -> Iterator[None]:
    """The newcomer's files, imported; what they define is forgotten afterwards."""
    registries = (METHODS._known, METRICS._known, REPLACEMENTS._known, _OPENERS, catalogue._SOURCES)
    before = [dict(registry) for registry in registries]
    sys.path.insert(0, str(folder))
    for name in FILES:
        importlib.import_module(name)
    yield
    sys.path.remove(str(folder))
    for registry, known in zip(registries, before, strict=True):
        registry.clear()
        registry.update(known)


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_short(name: str) -> None:
    assert len(FILES[name].strip().splitlines()) <= LONGEST


@pytest.mark.usefixtures("modules")
def test_in_python(folder: Path) -> None:
    model = verax.models.open_model(folder / "m.rule")
    x = torch.from_numpy(np.load(folder / "x.npy"))
    method = sys.modules["new_method"].DropOfEach()
    halfway = sys.modules["new_replacement"].PartOfTheWay()
    problem = verax.Problem(model, x, target=1, replacement=halfway, explained="logit")
    attributions = verax.explain(problem, {"drop": method})
    torch.testing.assert_close(attributions["drop"], x * torch.from_numpy(WEIGHTS))  # a linear logit's exact drops
    evaluation = verax.evaluate(problem, attributions, ["largest_share", "pc"])
    sizes = (x * torch.from_numpy(WEIGHTS)).abs()
    torch.testing.assert_close(evaluation["largest_share"].value["drop"], sizes.amax(1) / sizes.sum(1))
    toward = verax.Problem(model, x, target=1, replacement=verax.replacement.Toward(0.5))
    assert torch.equal(evaluation["pc"].value["drop"], verax.evaluate(toward, attributions, ["pc"])["pc"].value["drop"])


def test_on_the_command_line_and_in_a_study(folder: Path) -> None:
    words = "--model m.rule --inputs x.npy --method DropOfEach(value=0.5) --method Random --json"
    metrics = "--metric largest_share(power=2) --metric pc --replacement part_of_the_way:share=0.5"
    imports = " ".join(IMPORTS)
    study = f"study run new.toml --out study {imports}"
    evaluated, without, ran = ran_apart(
        [f"evaluate {words} {metrics} {imports}", f"evaluate {words} {metrics}", study], folder
    )
    assert evaluated.returncode == 0, evaluated.stderr
    assert list(json.loads(evaluated.stdout)["metrics"]) == ["largest_share", "pc"]
    assert without.returncode == 2
    assert without.stderr.endswith("needs --import MODULE.\n")
    assert ran.returncode == 0, ran.stderr
    scores = pl.concat([pl.read_parquet(path) for path in (folder / "study" / "scores").iterdir()])
    assert set(scores["method"].cast(pl.String)) == {"DropOfEach", "Random"}
    assert scores["squared"].is_between(0.25, 1).all()
    assert (scores["whole_way"] == scores["pc"]).all()
