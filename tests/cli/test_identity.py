"""Every command says which model, class and baseline its numbers are about, by the label's name."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from verax.cli import app

skops_io = pytest.importorskip("skops.io", reason="needs the extra sklearn-files")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A logistic regression with labels, its rows, and exact contributions to the log-odds of "yes"."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415  # after the extra was looked for

    path, x = tmp_path_factory.mktemp("identity"), np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    model = LogisticRegression().fit(x, np.where(x[:, 0] + x[:, 1] > 0, "yes", "no"))
    skops_io.dump(model, path / "m.skops")
    np.save(path / "x.npy", x)
    np.save(path / "shap.npy", (x * model.coef_).astype(np.float32))
    return path


def called(folder: Path, command: str, *more: str) -> tuple[str, str]:
    files = ["--model", f"{folder}/m.skops", "--inputs", f"{folder}/x.npy"]
    found = CliRunner().invoke(app, [command, *files, *more])
    assert found.exit_code == 0, found.output
    return found.stdout, found.stderr


def test_evaluate(folder: Path) -> None:
    given = ["--attributions", f"{folder}/shap.npy", "--metric", "pc", "--target", "yes"]
    shown, _ = called(folder, "evaluate", *given, "--report", f"{folder}/page.html")
    assert "tracked: probability of class 1 (yes); removed features: 0; date: 20" in shown
    assert f"Model {folder}/m.skops, inputs {folder}/x.npy: " in shown
    facts = json.loads(called(folder, "evaluate", *given, "--json")[0])["about"]
    assert facts["tracked"] == "probability of class 1 (yes)"
    assert facts["date"] == datetime.now(UTC).date().isoformat()
    page = (folder / "page.html").read_text()
    for words in ("probability of class 1 (yes)", "m.skops", facts["date"]):
        assert words in page


def test_evaluate_without_a_class_names_the_predicted_ones_and_warns(folder: Path) -> None:
    with pytest.warns(
        UserWarning, match=r'predicted as class 0 \(no\) .* class 1 \(yes\) for all inputs, pass target="yes"'
    ):
        shown, _ = called(folder, "evaluate", "--attributions", f"{folder}/shap.npy", "--metric", "pc")
    assert "tracked: probability of the predicted class: no (" in shown


def test_monitor(folder: Path) -> None:
    state = ["--state", f"{folder}/s.json", "--kind", "contributions", "--report", f"{folder}/s.html"]
    given = ["--attributions", f"shap={folder}/shap.npy", "--target", "yes", *state]
    _, told = called(folder, "monitor", *given)
    assert "tracked: probability of class 1 (yes); removed features: 0; date: 20" in told
    assert "probability of class 1 (yes)" in (folder / "s.html").read_text()


def test_audit(folder: Path) -> None:
    given = ["--attributions", f"{folder}/shap.npy", "--metric", "pc", "--trial", "tells_apart", "--target", "yes"]
    shown, _ = called(folder, "audit", *given, "--out", f"{folder}/audit.html")
    assert "tracked: probability of class 1 (yes); removed features: 0; date: 20" in shown
    assert "probability of class 1 (yes)" in (folder / "audit.html").read_text()


def test_tune(folder: Path) -> None:
    pytest.importorskip("optuna", reason="needs the extra tune")
    shown, _ = called(folder, "tune", "--methods", "occlusion,random", "--trials", "3", "--target", "yes")
    assert "tracked: probability of class 1 (yes); removed features: 0; date: 20" in shown
