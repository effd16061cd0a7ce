"""SHAP values of a tree watched by ``verax monitor``: a fault in some of them raises the alarm, none does not."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from verax.cli import app

shap = pytest.importorskip("shap", reason="needs the extra shap")
skops_io = pytest.importorskip("skops.io", reason="needs the extra sklearn-files")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, three batches, their SHAP values of the predicted class, and those of the last with 30 % permuted."""
    from sklearn.ensemble import GradientBoostingClassifier  # noqa: PLC0415  # after the extras were looked for

    path, draws = tmp_path_factory.mktemp("monitor"), np.random.default_rng(0)

    def rows() -> np.ndarray:
        return draws.normal(size=(400, 6)).astype(np.float32)

    train = rows()
    labels = (train[:, 0] + train[:, 1] * train[:, 2] + 0.5 * train[:, 3] > 0).astype(int)
    model = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(train, labels)
    skops_io.dump(model, path / "m.skops")
    explainer = shap.TreeExplainer(model, train[:50])
    for day in range(3):
        x = rows()
        sign = 2 * model.predict(x)[:, None] - 1
        values = sign * explainer.shap_values(x)
        np.save(path / f"x{day}.npy", x)
        np.save(path / f"shap{day}.npy", values)
    broken = draws.choice(len(values), size=3 * len(values) // 10, replace=False)
    values[broken] = draws.permuted(values[broken], axis=1)
    np.save(path / "permuted2.npy", values)
    np.save(path / "train.npy", train)
    return path


def monitor(folder: Path, day: int, values: str, *more: str) -> tuple[int, list[dict[str, object]], str]:
    files = ["--model", f"{folder}/m.skops", "--inputs", f"{folder}/x{day}.npy"]
    given = ["--attributions", f"shap={folder}/{values}{day}.npy", "--baselines", "mean"]
    call = ["monitor", *files, *given, "--background", f"{folder}/train.npy", *more]
    found = CliRunner().invoke(app, call)
    return found.exit_code, [json.loads(line) for line in found.stdout.splitlines()], found.stderr


def test_a_fault_in_some_shap_values_raises_the_alarm(folder: Path) -> None:
    state = ["--state", f"{folder}/state.json", "--kind", "contributions"]
    for day in range(2):
        code, (window,), told = monitor(folder, day, "shap", *state)
        assert "shap: its values sum to f(x) " in told  # against 50 rows, and the baseline is a mean
        assert (code, window["metric"], window["alarm"]) == (0, "effect_correlation", False)
        assert window["low"] > 0.5
    untouched = ["--state", f"{folder}/untouched.json", *state[2:]]
    (folder / "untouched.json").write_bytes((folder / "state.json").read_bytes())
    assert monitor(folder, 2, "shap", *untouched)[0] == 0
    code, (window,), _ = monitor(folder, 2, "permuted", *state)
    assert (code, window["alarm"]) == (3, True)
