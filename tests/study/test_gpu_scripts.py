"""The scripts for a machine with a GPU, as far as they run without one."""

import importlib
import json
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
import tomli_w

from study.studies import LINEAR, MLP, content, images, ran, same, scores, table, whole
from verax.paper.models.checkpoints import Epoch
from verax.study.run import watching
from verax.study.study import open_study

ROOT = Path(__file__).parents[2]


@pytest.fixture
def gpu_study(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("gpu_study")


def without(folder: Path, start: str) -> None:
    """Remove a unit."""
    (path,) = (folder / "scores").glob(f"{start}*")
    path.unlink()


def test_a_study_ends_at_the_inputs_that_all_models_have_and_grows_again(gpu_study, copied, finished) -> None:
    without(copied, "Cancer-MLP.000004-000008")
    ended = gpu_study.ended(open_study(copied))
    assert [data.limit for data in ended.spec.data] == [4, 3]
    assert [data.limit for data in open_study(copied).spec.data] == [4, 3]
    names = sorted(path.name[: len("Cancer-MLP.000000-000004")] for path in (copied / "scores").iterdir())
    digits = ["Digits-Linear.000000-000", "Digits-Linear.000002-000"]
    assert names == ["Cancer-Linear.000000-000", "Cancer-MLP.000000-000004", *digits]
    again, _ = ran(whole(), copied)
    assert again.computed == 4
    assert same(scores(copied), scores(finished))


def test_a_study_that_is_whole_stays_as_it_is(gpu_study, copied) -> None:
    study = open_study(copied)
    assert gpu_study.ended(study).spec == study.spec


def test_a_study_without_a_first_unit_is_no_study(gpu_study, copied) -> None:
    without(copied, "Cancer-Linear.000000-000004")
    with pytest.raises(SystemExit, match="before the first unit of each model was done"):
        gpu_study.ended(open_study(copied))


def test_units_are_counted_until_the_time_is_over(gpu_study) -> None:
    with watching(2) as watcher:
        gpu_study.Deadline(watcher, time.monotonic() + 1000)(5)
        assert watcher.finished == 1
        for event in (5, "LIME"):
            with pytest.raises(gpu_study.OutOfTimeError):
                gpu_study.Deadline(watcher, time.monotonic() - 1)(event)


def test_the_study_is_computed_and_verified(copied, finished, tmp_path) -> None:
    without(copied, "Cancer-MLP.000004-000008")
    path, raw = tmp_path / "small.toml", tmp_path / "raw.json"
    path.write_text(tomli_w.dumps(content(table(LINEAR, MLP), images())))
    script = [sys.executable, str(ROOT / "benchmarks" / "gpu_study.py"), str(path), "--out", str(copied)]
    settings = ["--device", "cpu", "--verify", "--result", str(raw)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*script, *settings], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(raw.read_text())
    assert figures["inputs"] == {"Cancer-Linear": 10, "Cancer-MLP": 10, "Digits-Linear": 3}
    assert figures["complete"]
    assert figures["units_before"] == 7
    assert figures["verified"]["passed"]
    assert figures["verified"]["units"] == 3
    assert len(figures["Cancer-MLP"]["units"]) == 3
    assert same(scores(copied), scores(finished))


def test_without_a_gpu_the_reason_is_told_and_written(tmp_path) -> None:
    script = [sys.executable, str(ROOT / "benchmarks" / "gpu_all.py"), "--data", str(tmp_path), "--out", str(tmp_path)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    reason = "torch.cuda.is_available() is false: no CUDA device, or a build of torch without CUDA"
    assert done.returncode == 1
    assert done.stderr == f"{reason}. Nothing was run; --quick runs anywhere.\n"
    written = json.loads((tmp_path / "gpu_all.json").read_text())
    assert (written["stopped"], written["stages"]) == (reason, {})


@pytest.mark.parametrize(("auroc", "r2"), [(0.75, None), (None, 0.5)])
def test_epochs_are_written_with_the_columns_that_they_have(auroc, r2, tmp_path) -> None:
    write_epochs = runpy.run_path(str(ROOT / "scripts" / "isic_models.py"))["write_epochs"]
    write_epochs(tmp_path / "epochs.csv", [Epoch(1, 0.5, 0.25, auroc, 0.1, 2.0, True, r2)])
    head, line = (tmp_path / "epochs.csv").read_text().splitlines()
    wanted = {"number": "1", "loss": "0.5", "accuracy": "0.25", "learning_rate": "0.1", "seconds": "2", "best": "1"}
    score = {"auroc": "0.75"} if r2 is None else {"r2": "0.5"}
    assert dict(zip(head.split(","), line.split(","), strict=True)) == wanted | score
