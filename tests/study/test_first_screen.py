"""The first screen of real studies: which explanation it recommends, by which metric, and where it has no answer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import verax
from study.studies import images, ran, spec
from verax.attribution import Occlusion, Random
from verax.attribution.names import label_of
from verax.report.answers import Answer, cards
from verax.report.view import View
from verax.study.results import read_results

METHODS: list[dict[str, Any]] = [
    {"method": "Gradient"},
    {"method": "IntegratedGradients", "points": 4, "multiply_by_inputs": False},
    {"method": "IntegratedGradients", "points": 4},
    {"method": "SmoothGrad", "samples": 4},
    {"method": "Random"},
]
SLOPES = ("Gradient", "Integrated Gradients", "SmoothGrad")  # of a linear model, where they are one up to a factor


def first_screen(folder: Path, **metrics: Any) -> tuple[Answer, ...]:
    study = spec(images(METHODS, limit=16), metrics=metrics, uncertainty={"inputs": 0}, examples=0)
    found, _ = ran(study, folder)
    (card,) = cards(View(read_results(found.study).tables, ()))
    return card.answers


def test_of_digits_linear_the_gradient_is_the_local_answer(tmp_path: Path) -> None:
    local, baseline = first_screen(tmp_path)
    assert local.metric == "Effect correlation"
    assert (local.verdict, local.label) == ("Trust", SLOPES[0])
    assert (baseline.metric, baseline.verdict) == ("Effect correlation (removal)", "Trust")
    assert baseline.label == label_of("IntegratedGradients", local=False)
    assert "DPC" in dict(local.facts)
    assert "PC" in dict(baseline.facts)


def test_without_the_metrics_that_decide_it_says_what_the_others_miss(tmp_path: Path) -> None:
    local, baseline = first_screen(tmp_path, list=["pc", {"metric": "dpc", "as": "dpc_signed"}])
    assert (local.metric, baseline.metric) == ("DPC", "PC")
    for answer in (local, baseline):
        assert "verdicts should not rest on: It is blind to a constant" in dict(answer.facts)["Known limitations"]


@pytest.mark.filterwarnings("ignore")
def test_of_trees_it_ranks_nothing_by_small_changes(tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    x = draws.normal(size=(80, 3))
    trees = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2).fit(x, x[:, 0] > 0)
    found = verax.run_study(
        models={"trees": trees}, data=(x, x[:, 0] > 0), attributions=[Occlusion(), Random()], out=tmp_path, limit=12
    )
    (card,) = cards(View(read_results(found.study).tables, ()))
    local, baseline = card.answers
    assert local.verdict.startswith("There is no answer: the model is made of trees")
    assert (baseline.metric, baseline.label) == ("Effect correlation (removal)", "Occlusion")
