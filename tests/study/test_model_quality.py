"""A model that has learnt nothing is not crowned with a best method in silence."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from study.studies import ran, spec, table
from verax.report.page import provenance
from verax.study.results import read_results, weak_models
from verax.study.study import open_study

FEW = [{"method": "Gradient"}, {"method": "Random"}]


@pytest.fixture(scope="module")
def blind(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A table whose labels are drawn at random: there is nothing to learn."""
    folder, draws = tmp_path_factory.mktemp("blind"), np.random.default_rng(0)
    path = folder / "blind.npz"
    np.savez(path, inputs=draws.normal(size=(200, 4)), labels=draws.integers(0, 2, 200))
    own = table({"name": "Blind", "architecture": "linear"}, others=FEW, name="file", path=str(path))
    return folder, spec(own, examples=0, uncertainty={"inputs": 0})


def test_the_run_and_the_report_say_so(blind: tuple[Path, Any], real_report: None) -> None:
    folder, own = blind
    _, lines = ran(own, folder / "study")
    (warning,) = (line for line in lines if line.startswith("WARNING: "))
    assert "Blind is no better than its base rate: AUROC 0." in warning
    study = open_study(folder / "study")
    said = provenance(study, read_results(study))["warning"]
    assert warning == f"WARNING: {said}"
    page = (folder / "study" / "report.html").read_text(encoding="utf-8")
    assert page.index("Blind is no better than its base rate") < page.index('class="lead"')


def test_a_good_model_is_not_warned_of(finished: Path) -> None:
    study = open_study(finished)
    assert weak_models(study.models.values()) == []
    assert "warning" not in provenance(study, read_results(study))


def judged(finished: Path, **figures: dict[str, float]) -> list[str]:
    model = next(iter(open_study(finished).models.values()))
    return weak_models([dataclasses.replace(model, metrics=figures)])


def test_chance_reaches_as_far_as_its_own_error(finished: Path) -> None:
    """The standard error of the AUROC of random scores, from many of them."""
    model = next(iter(open_study(finished).models.values()))
    labels = model.dataset.labels[model.dataset.split.test]
    draws = np.random.default_rng(0)
    ones, zeros = int(labels.sum()), int((1 - labels).sum())
    found = [(draws.random((ones, 1)) > draws.random((1, zeros))).mean() for _ in range(4000)]
    bound = 0.5 + 1.64 * float(np.std(found))
    assert judged(finished, test={"auroc": bound - 0.01})
    assert not judged(finished, test={"auroc": bound + 0.01})
    assert judged(finished, test={"auroc": 0.2})


def test_accuracy_decides_where_nothing_else_is_known(finished: Path) -> None:
    model = next(iter(open_study(finished).models.values()))
    share = float(model.dataset.labels[model.dataset.split.validation].mean())
    most = max(share, 1 - share)
    assert judged(finished, validation={"accuracy": most})
    assert not judged(finished, validation={"accuracy": most + 0.01})
    assert not judged(finished, test={"auroc": 0.9, "accuracy": 0.1})  # a rare class, found well
    assert not judged(finished)
