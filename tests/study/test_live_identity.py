"""Studies of objects: which models count as the same one when a directory is used again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

import verax
from verax.attribution import Random
from verax.study.run import Finished

ROWS = np.repeat(np.random.default_rng(0).normal(size=(60, 1)), 2, axis=1)  # two columns, one a copy of the other
LABELS = (ROWS[:, 0] > 0).astype(int)


def studied(folder: Path, model: Any, task: str = "classification") -> Finished:
    labels = LABELS if task == "classification" else ROWS[:, 0]
    settings = {"attributions": [Random()], "metrics": ["pc"], "examples": 0, "limit": 4, "task": task}
    return verax.run_study(out=folder, models={"model": model}, data=(ROWS, labels), **settings)


def tree(column: int) -> DecisionTreeClassifier:
    """A tree that can split on one column alone, and has seen both."""
    rows = np.zeros_like(ROWS)
    rows[:, column] = ROWS[:, column]
    return DecisionTreeClassifier(random_state=0).fit(rows, LABELS)


def function(column: int) -> Callable[[Any], Any]:
    def predict(rows: Any) -> Any:
        ones = (np.asarray(rows)[:, column] > 0).astype(float)
        return np.stack((1 - ones, ones), axis=1)

    return predict


class Column(torch.nn.Module):
    """The same weights, whichever column they look at."""

    def __init__(self, column: int) -> None:
        super().__init__()
        self.column = column
        self.weight = torch.nn.Parameter(torch.tensor([[-1.0, 1.0]]))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows[:, self.column, None] @ self.weight.to(rows)


class Closed(Column):
    """One whose settings cannot be serialised."""

    def __init__(self, column: int) -> None:
        super().__init__(0)
        self.pick = lambda rows: rows[:, column, None]

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.pick(rows) @ self.weight.to(rows)


def probabilities(column: int) -> verax.Scorer:
    return verax.Scorer(function(column), returns="probabilities")


@pytest.mark.parametrize("made", [tree, probabilities, Column, Closed])
def test_models_that_predict_alike_on_the_data_share_no_scores(tmp_path: Path, made: Callable[[int], Any]) -> None:
    """One looks at a column, the other at its copy: removing a column does not do the same to both."""
    first, second = (studied(tmp_path / "alone" / str(column), made(column)).to_frame() for column in (0, 1))
    studied(tmp_path / "both", made(0))
    again = studied(tmp_path / "both", made(1))
    assert again.computed > 0
    assert again.to_frame()["pc"].to_list() == second["pc"].to_list()
    assert first["pc"].to_list() != second["pc"].to_list()


@pytest.mark.parametrize("made", [tree, probabilities, Column, Closed])
def test_a_model_that_is_made_again_is_the_same(tmp_path: Path, made: Callable[[int], Any]) -> None:
    assert studied(tmp_path, made(0)).computed > 0
    assert studied(tmp_path, made(0)).computed == 0


def test_a_mode_is_no_other_model(tmp_path: Path) -> None:
    studied(tmp_path, Column(0).train())
    assert studied(tmp_path, Column(0).eval()).computed == 0


def test_a_model_that_counts_its_calls_stays_the_same(tmp_path: Path) -> None:
    """The trees of nearest neighbours count how often they were asked, and serialise the count."""
    model = KNeighborsRegressor(3, algorithm="kd_tree").fit(ROWS, ROWS[:, 0])
    studied(tmp_path, model, "regression")
    assert studied(tmp_path, model, "regression").computed == 0
