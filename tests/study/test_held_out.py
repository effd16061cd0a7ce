"""How good a model of one's own is: on rows that the user names as held out, or on rows it may have learnt from."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeClassifier

import verax
from study.studies import ran, spec, table
from verax.attribution import Random
from verax.datasets import load_file
from verax.study.run import Finished
from verax.study.spec import SpecError
from verax.study.study import open_study

DRAWS = np.random.default_rng(0)
ROWS = DRAWS.normal(size=(200, 3))
LABELS = (ROWS[:, 0] + DRAWS.normal(size=200) > 0).astype(int)
TEST = np.sort(DRAWS.permutation(200)[:80])
TRAIN = np.setdiff1d(np.arange(200), TEST)
MASK = np.isin(np.arange(200), TEST)
LEARNT = "on rows that it may have learnt from"


def tree() -> DecisionTreeClassifier:
    """It knows its training rows by heart."""
    return DecisionTreeClassifier(random_state=0).fit(ROWS[TRAIN], LABELS[TRAIN])


def studied(folder: Path, **settings: Any) -> Finished:
    common = {"attributions": [Random()], "metrics": ["pc"], "examples": 0, "limit": 4}
    return verax.run_study(out=folder, models={"tree": tree()}, data=(ROWS, LABELS), **common, **settings)


@pytest.mark.usefixtures("real_report")
@pytest.mark.parametrize("held_out", [TEST, MASK, MASK.astype(int), TEST.tolist(), pd.Series(MASK)])
def test_named_rows_are_those_of_the_figures(tmp_path: Path, held_out: Any) -> None:
    found = studied(tmp_path, held_out=held_out)
    model = found.study.models["tree"]
    split = model.dataset.split
    assert split.train.tolist() == TRAIN.tolist()
    assert sorted([*split.validation, *split.test]) == TEST.tolist()
    assert (len(split.validation), len(split.test)) == (40, 40)
    assert set(model.rows) <= set(TEST)
    expected = roc_auc_score(LABELS[split.test], tree().predict_proba(ROWS[split.test])[:, 1])
    assert model.metrics["test"]["auroc"] == pytest.approx(expected)
    page = found.report.read_text()
    assert f"AUROC {100 * expected:.1f} % on held-out rows" in page.replace("\N{NO-BREAK SPACE}", " ")
    assert LEARNT not in page


@pytest.mark.usefixtures("real_report")
def test_without_names_the_figure_is_called_what_it_is(tmp_path: Path) -> None:
    found = studied(tmp_path)
    page = found.report.read_text()
    assert LEARNT in page
    assert "held_out" in page
    assert "test split" not in page


def own_file(folder: Path, mark: Any = MASK) -> Path:
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"]).assign(ill=LABELS, is_test=mark)
    frame.to_csv(folder / "own.csv", index=False)
    return folder / "own.csv"


def test_a_spec_names_the_column(tmp_path: Path) -> None:
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=2).fit(ROWS[TRAIN], LABELS[TRAIN])
    model.save_model(tmp_path / "own.json")
    data = {"name": "file", "path": str(own_file(tmp_path)), "label": "ill", "held_out": "is_test", "limit": 4}
    study = spec(table({"name": "Own", "path": str(tmp_path / "own.json")}, others=[{"method": "Random"}], **data))
    ran(study, tmp_path / "study")
    opened = open_study(tmp_path / "study").models["Own"]
    assert opened.dataset.feature_names == ("a", "b", "c")
    assert opened.dataset.split.train.tolist() == TRAIN.tolist()
    assert opened.dataset.split.named


def test_arrays_name_the_rows_too(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", inputs=ROWS, labels=LABELS, is_test=MASK)
    found = load_file(tmp_path / "own.npz", held_out="is_test")
    assert found.split.train.tolist() == TRAIN.tolist()


@pytest.mark.parametrize(
    ("held_out", "message"),
    [
        ([], "held_out: expected"),
        ([3], "held_out: expected at least 2 rows and not all of 200, got 1"),
        (np.ones(200, dtype=bool), "not all of 200"),
        ([5, 200], "row numbers from 0 to 199, got 5 to 200"),
        ([-1, 5], "row numbers from 0 to 199"),
        (MASK[:9], "expected 200 truth values"),
        (np.arange(200), "expected 200 truth values"),
        (["test"] * 200, "held_out: expected true or false"),
        (MASK[None], "held_out: expected true or false"),
    ],
)
def test_what_names_no_rows_is_refused(tmp_path: Path, held_out: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        studied(tmp_path / "none", held_out=held_out)
    assert not (tmp_path / "none").exists()


def test_refusals_of_files_and_specs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"held_out: .*did you mean 'is_test'"):
        load_file(own_file(tmp_path), label="ill", held_out="is_tset")
    with pytest.raises(ValueError, match="held_out: expected true or false"):
        load_file(own_file(tmp_path, ROWS[:, 0]), label="ill", held_out="is_test")
    with pytest.raises(SpecError, match="held_out: digits says itself"):
        spec(table(name="digits", held_out="is_test"))
    dataset = load_file(own_file(tmp_path), label="ill", held_out="is_test")
    with pytest.raises(ValueError, match="brings its own split"):
        verax.run_study(models={"tree": tree()}, data=dataset, out=tmp_path / "out", held_out=TEST)
