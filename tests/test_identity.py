"""Every result says what it is about, in its table and on its page: model, class by its label, baseline and date."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import verax
from verax.attribution import Occlusion
from verax.checking import Requirement

X = np.random.default_rng(0).normal(size=(30, 4))
CLASSIFIER = LogisticRegression().fit(X, np.where(X[:, 0] > 0, "yes", "no"))
PROBLEM = verax.Problem(CLASSIFIER, X, target="yes", background=X + 1, baselines="mean")
SLOPES = {"exact": np.tile(CLASSIFIER.coef_, (30, 1))}
MEAN = "removed features: mean of the background"

MADE: dict[str, Callable[[verax.Problem], Any]] = {
    "evaluation": lambda problem: verax.evaluate(problem, SLOPES, ["pc"]),
    "result": lambda problem: verax.evaluate(problem, SLOPES, ["pc"])["pc"],
    "comparison": lambda problem: verax.compare(problem, SLOPES),
    "totals": lambda problem: verax.stream(problem, None, SLOPES, ["pc"]).totals(),
    "limits": lambda problem: verax.limits(problem, ["pc"]),
    "limits of a metric": lambda problem: verax.limits(problem, ["pc"])["pc"],
    "reasons": lambda problem: verax.reasons(problem, SLOPES, 2),
    "check": lambda problem: verax.check(problem, SLOPES, [Requirement("pc", 0.1)]),
    "check of reasons": lambda problem: verax.check(problem, SLOPES, [Requirement("false_reasons", 0.1)]),
    "audit": lambda problem: verax.audit(problem, SLOPES, metrics=["pc"], trials=["tells_apart"]),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_results_name_model_class_baseline_and_date(make: Callable[[verax.Problem], Any], tmp_path: Path) -> None:
    found = make(PROBLEM)
    today = datetime.now(UTC).date().isoformat()
    shown = [repr(found), found._repr_html_()]
    assert f"tracked: probability of class 1 (yes); {MEAN}; date: {today}" in shown[0]
    if hasattr(found, "save"):
        found.save(tmp_path / "page.html")
        shown.append((tmp_path / "page.html").read_text())
    for text in shown:
        for words in ("LogisticRegression", "probability of class 1 (yes)", "mean of the background", today):
            assert words in text


def test_a_check_counts_the_predicted_classes_of_its_inputs_once() -> None:
    problem = verax.Problem(CLASSIFIER, X)
    yes = int((CLASSIFIER.predict(X) == "yes").sum())
    required = [Requirement("pc", 0.1), Requirement("pc", 0.1, inputs=20), Requirement("dpc", 0.1, inputs=10, seed=1)]
    facts = verax.check(problem, SLOPES, required).facts
    assert facts["tracked"] == f"probability of the predicted class: no ({30 - yes}), yes ({yes})"
    assert facts["model"] == "LogisticRegression"


@pytest.mark.parametrize(
    ("model", "target", "tracked"),
    [
        (CLASSIFIER, "yes", "probability of class 1 (yes)"),
        (CLASSIFIER, None, "probability of the predicted class"),
        (LinearRegression().fit(X, X[:, 0]), None, "value"),
    ],
)
def test_a_lake(model: Any, target: Any, tracked: str, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="needs the extra lake")
    table = pl.DataFrame({"id": range(30)} | {name: X[:, place] for place, name in enumerate("abcd")})
    (tmp_path / "rows").mkdir()
    table.write_parquet(tmp_path / "rows/part.parquet")
    problem = verax.Problem(model, table.drop("id"), target=target)
    methods = {"occlusion": Occlusion()}
    scores = verax.lakes.score_lake(problem, tmp_path / "rows", methods, tmp_path / "out", ["pc"], engine=1)
    assert f"tracked: {tracked}; removed features: 0; date: {datetime.now(UTC).date().isoformat()}." in repr(scores)
    assert tracked in scores._repr_html_()
