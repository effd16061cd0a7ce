"""A study's report says what it is about: study, date, model, score that is explained, baseline and rows."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression

import verax
from study.studies import ran, spec, table
from verax.attribution import Random
from verax.report.page import write_study_report
from verax.study.run import Finished
from verax.study.study import open_study

pytestmark = pytest.mark.usefixtures("real_report")
ROWS = np.random.default_rng(0).normal(size=(60, 3))
FRAME = pd.DataFrame(ROWS, columns=["a", "b", "c"])
HEALTH = pd.Series(np.where(ROWS[:, 0] > 0, "ill", "well"), name="health")
PRICE = pd.Series(ROWS @ [3.0, 1.0, 0.0], name="price")


def studied(folder: Path, model: Any, labels: Any, data: Any = FRAME, **settings: Any) -> Finished:
    common = {"attributions": [Random()], "metrics": ["pc"], "examples": 0, "name": "clinic"}
    return verax.run_study(out=folder, models={"own": model}, data=(data, labels), **common, **settings)


def page(*given: Any, **settings: Any) -> str:
    return studied(*given, **settings).report.read_text()


def test_a_classifier(tmp_path: Path) -> None:
    model = LogisticRegression().fit(FRAME, HEALTH)
    text = page(tmp_path, model, HEALTH, limit=5)
    assert (
        "5 rows drawn at random with seed 0 from 12 validation rows of a random split with seed 0, 60 rows in all"
        in text
    )
    said = re.search(r"the probability of the predicted class of each input; health: (\w+) \((\d)\)", text)
    assert said
    assert said[1] in ("ill", "well")
    assert "a removed number becomes its mean over the training rows (36 training rows in the background)" in text
    assert re.search(r"Study clinic, begun \d{4}-\d\d-\d\d\.", text)


def test_every_predicted_class_is_counted(tmp_path: Path) -> None:
    model = LogisticRegression().fit(FRAME, HEALTH)
    study = studied(tmp_path, model, HEALTH.to_numpy())
    text = study.report.read_text()
    found = dict(re.findall(r"(ill|well) \((\d+)\)", text))
    predicted = model.predict(FRAME.iloc[study.study.models["own"].rows]).tolist()
    assert found == {name: str(predicted.count(name)) for name in set(predicted)}
    assert "of each input: " in text


def test_a_regressor_and_held_out_rows(tmp_path: Path) -> None:
    text = page(tmp_path, LinearRegression().fit(FRAME, PRICE), PRICE, held_out=range(40, 60))
    assert "the predicted value of price" in text
    assert "all 10 validation rows of the rows that were named as held out, 60 rows in all" in text


def test_labels_without_a_name(tmp_path: Path) -> None:
    module = torch.nn.Linear(3, 1).double()
    text = page(tmp_path, verax.Scorer(module, returns="values"), torch.tensor(PRICE.to_numpy()), ROWS)
    assert "<dd>the predicted value</dd>" in text


def test_the_date_stays_that_of_the_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = spec(table(limit=2))
    monkeypatch.setattr("verax.study.study.datetime", Clock)
    ran(own, tmp_path / "study")
    monkeypatch.undo()
    ran(own, tmp_path / "study")
    study = open_study(tmp_path / "study")
    assert "begun 2001-02-03." in write_study_report(study).read_text()


class Clock(datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: Any = None) -> "Clock":
        return cls(2001, 2, 3, tzinfo=tz or UTC)
