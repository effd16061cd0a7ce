"""Which rows a study explains: drawn at random by its seed, the same for all, fewer a part of more."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import verax
from study.studies import LINEAR, MLP, ran, scores, spec, table
from verax.datasets import load_breast_cancer
from verax.study.metrics import metrics_of
from verax.study.spec import load_spec
from verax.study.store import Store
from verax.study.study import Study, open_study

GRADIENT = [{"method": "Gradient"}]


def rows_of(folder: Path, limit: int | None, model: str = "Cancer-Linear", **settings: Any) -> list[int]:
    study = Study(spec(table(LINEAR, MLP, limit=limit, **settings)), Store(folder), planning=True)
    return study.models[model].rows.tolist()


def test_fewer_rows_are_the_beginning_of_more(tmp_path: Path) -> None:
    part = load_breast_cancer().split.validation.tolist()
    all_rows = rows_of(tmp_path, None)
    assert sorted(all_rows) == part
    assert all_rows != part
    for limit in (1, 10, 60):
        assert rows_of(tmp_path, limit) == all_rows[:limit]
        assert rows_of(tmp_path, limit, "Cancer-MLP") == all_rows[:limit]
    assert rows_of(tmp_path, 1000) == all_rows


def test_the_seed_draws_them(tmp_path: Path) -> None:
    first, second = (rows_of(tmp_path, 10, seed=seed) for seed in (0, 1))
    assert first == rows_of(tmp_path, 10, seed=0)
    part = load_breast_cancer(seed=1).split.validation.tolist()
    assert set(second) < set(part)
    assert second != part[:10]


def test_rows_in_the_order_of_their_classes_are_drawn_from_all(tmp_path: Path) -> None:
    """The first rows of a file are often alike: here the first 150 are of one class, the last 50 of another."""
    rng = np.random.default_rng(0)
    labels = np.repeat(["early", "late"], [150, 50])
    x = rng.normal(size=(200, 3)) + (labels == "late")[:, None]
    study = verax.run_study(
        out=tmp_path,
        models={"own": LogisticRegression().fit(x, labels)},
        data=(x, labels),
        held_out=range(0, 200, 2),
        attributions="Random",
        metrics=["pc"],
        limit=20,
        examples=0,
    ).study
    explained = study.models["own"].rows
    assert set(explained.tolist()) <= set(range(0, 200, 2))
    late = int((explained >= 150).sum())
    assert 1 <= late <= 12  # 5 expected; the first 20 validation rows have none
    assert (study.materials[0].dataset.split.validation[:20] < 150).all()


@pytest.mark.usefixtures("real_report")
def test_the_report_counts_each_class(trained: Path) -> None:
    found, _ = ran(spec(table(others=GRADIENT), examples=0, uncertainty={"inputs": 0}), trained)
    data, rows = load_breast_cancer(), found.study.models["Cancer-Linear"].rows
    counts = [int((data.labels[rows] == number).sum()) for number in (0, 1)]
    words = ", ".join(f"{name}: {count}" for name, count in zip(data.class_names, counts, strict=True))
    assert sum(counts) == 10
    assert f"labels of the explained rows: {words}" in found.report.read_text()


def test_the_command_lines_limit_is_that_of_the_data() -> None:
    assert [data.limit for data in load_spec("demo", limit=5).data] == [5, 5, 5]


def test_limits_of_metrics_take_the_beginning(trained: Path) -> None:
    listed = ["pc", {"metric": "infidelity", "limit": 3, "samples": 4}]
    ran(spec(table(others=GRADIENT), metrics={"list": listed}, uncertainty={"inputs": 0}, examples=0), trained)
    study, measured = open_study(trained), scores(trained)
    has = measured.filter(measured["infidelity"].is_not_null())["input"].to_list()
    assert has == study.models["Cancer-Linear"].rows[:3].tolist()
    assert metrics_of(study.spec.metrics).limits == {"infidelity": 3}
