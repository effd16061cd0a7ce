"""The commands about studies as a person uses them: what they say, and how they end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tomli_w
import torch
from typer.testing import CliRunner, Result

from study.studies import LINEAR, MLP, content, flip, images, ran, same, scores, table, whole
from study.test_verify import nudged, resealed
from verax.cli import app
from verax.core.files import Sealed
from verax.study.run import run_study
from verax.study.spec import load_spec

RUN = CliRunner()


def told(*arguments: object) -> Result:
    return RUN.invoke(app, [str(one) for one in arguments])


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(tomli_w.dumps(content(table(LINEAR, MLP), images())))
    return path


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("study",), ["run", "status", "report"]),
        (("study", "run"), ["demo, paper-heloc, paper-isic", "--limit", "--dry-run", "--engine", "--workers"]),
        (("study", "status"), ["DIR", "how far"]),
        (("study", "report"), ["DIR"]),
        (("verify",), ["--sample", "0: all agrees, 1: not, 2: cannot be done"]),
    ],
    ids=" ".join,
)
def test_help_says_what_there_is(command: tuple[str, ...], words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    found = told(*command, "--help")
    assert found.exit_code == 0
    for word in words:
        assert word in found.output


def test_run_tells_plan_progress_and_report(toml: Path, trained: Path, finished: Path) -> None:
    found = told("study", "run", toml, "--out", trained)
    assert found.exit_code == 0, found.output
    assert found.stdout == f"8 units computed. Report: file://{trained}/report.html\n"
    lines = found.stderr.splitlines()
    assert lines[0] == "small: 8 of 8 units to compute"
    assert "  Cancer-MLP: 15 configurations x 10 inputs" in lines
    assert any(line.startswith("8 of 8 units, ") for line in lines)
    assert "\x1b" not in found.stderr  # plain lines, because this is no terminal
    assert same(scores(trained), scores(finished))
    again = told("study", "run", toml, "--out", trained)
    assert again.exit_code == 0
    assert again.stdout.startswith("0 units computed. Report: ")


def test_run_has_a_place_of_its_own(
    toml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    os.makedirs("small-study")
    os.symlink(finished / "models", "small-study/models")
    found = told("study", "run", toml, "--limit", 2)
    assert found.exit_code == 0, found.output
    assert (tmp_path / "small-study" / "study.toml").is_file()
    result = scores(tmp_path / "small-study")
    assert result.group_by("model").agg(pl.col("input").n_unique())["input"].to_list() == [2, 2, 2]


def test_dry_run_prints_the_plan_and_nothing_else(toml: Path, tmp_path: Path) -> None:
    found = told("study", "run", toml, "--out", tmp_path / "study", "--dry-run")
    assert found.exit_code == 0, found.output
    assert found.stderr == ""
    lines = found.stdout.splitlines()
    assert lines[0] == "small: 8 of 8 units to compute"
    assert len(lines) == 1 + 3 * 2 + 2
    assert not (tmp_path / "study").exists()


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "an unknown spec": (("paper",), "SPEC: expected demo, paper-heloc, paper-isic or a path that ends in .toml"),
    "no such file": (("none.toml",), "none.toml: cannot be read"),
    "data that the study does not take": (("demo", "--data", "x.csv"), "--data: the study has 0 data sets that take"),
    "data that are not there": (("paper-heloc", "--data", "none.csv"), "none.csv"),
    "images without a folder": (("paper-isic",), "path: isic needs one; pass --data PATH"),
    "an unknown device": (("demo", "--device", "abacus"), "device: expected a torch device"),
    "no inputs": (("demo", "--limit", "0"), "Invalid value for '--limit'"),
    "an unknown engine": (("demo", "--engine", "steam"), "--engine: expected one of 'local', 'ray', got 'steam'"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_arguments_are_told_and_write_nothing(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    found = told("study", "run", *arguments, "--out", "study")
    assert found.exit_code == 2
    assert message in found.stderr
    assert "Traceback" not in found.output
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] in ([], [".lock"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_gpu_that_is_not_there_is_refused(toml: Path, finished: Path, tmp_path: Path) -> None:
    for arguments in (("study", "run", toml, "--out", tmp_path / "study"), ("verify", finished)):
        found = told(*arguments, "--device", "cuda")
        assert found.exit_code == 2
        expected = "expected a device of this machine, got cuda; torch finds no CUDA device; use cpu."
        assert found.stderr == f"verax: --device: {expected}\n"
    assert not (tmp_path / "study").exists()


def test_a_wrong_spec_is_told(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(tomli_w.dumps(content(table(limit=0), colour="red")))
    found = told("study", "run", path)
    assert found.exit_code == 2
    first, second = found.stderr.splitlines()
    assert first.startswith(f"verax: {path}: ")
    assert second.startswith(f"{path}: ")
    assert {"data.0.limit", "colour"} == {line.split(f"{path}: ")[1].split(": ")[0] for line in (first, second)}


def test_another_study_in_the_directory_is_told(toml: Path, finished: Path) -> None:
    toml.write_text(toml.read_text().replace("samples = 16", "samples = 15", 1))
    found = told("study", "run", toml, "--out", finished)
    assert found.exit_code == 2
    assert "holds another study: metrics.samples: expected 16, got 15" in found.stderr


def test_a_full_disk_is_told(toml: Path, trained: Path, monkeypatch: pytest.MonkeyPatch, finished: Path) -> None:
    left = [12]

    def sync(file: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", sync)
        found = told("study", "run", toml, "--out", trained)
    assert found.exit_code == 2
    last = found.stderr.splitlines()[-1]
    assert last.startswith(f"verax: {trained}/")
    assert "make room" in last or "limit on the size of files" in last
    assert "Traceback" not in found.output
    assert told("study", "run", toml, "--out", trained).exit_code == 0
    assert same(scores(trained), scores(finished))


# What there is.


def test_status_of_a_finished_study(finished: Path) -> None:
    found = told("study", "status", finished)
    assert found.exit_code == 0
    lines = found.stdout.splitlines()
    assert lines[0].startswith("small: 8 of 8 units, ")
    assert lines[1:4] == [
        "  Cancer-Linear: 3 of 3 units",
        "  Cancer-MLP: 3 of 3 units",
        "  Digits-Linear: 2 of 2 units",
    ]
    assert lines[4].startswith("attributions kept: ")
    assert len(lines) == 5


def test_status_names_what_is_strange(copied: Path) -> None:
    paths = sorted((copied / "scores").iterdir())
    flip(paths[0], 60)
    paths[4].unlink()
    (copied / "scores" / "notes.txt").write_text("x")
    (copied / "scores" / ".x.0a1b2c3d.part").write_text("x")
    found = told("study", "status", copied)
    assert found.exit_code == 0
    assert found.stdout.startswith("small: 6 of 8 units, ")
    for line in (
        f"scores/{paths[0].name}: damaged: its content is not what its name says; the next run sets it aside",
        "scores/notes.txt: not a file of a study; the next run sets it aside",
        "scores/.x.0a1b2c3d.part: half written, by a run that works now or was killed; the next run sets it aside",
    ):
        assert line in found.stdout.splitlines()
    assert paths[0].exists()  # it only looks


@pytest.mark.parametrize("command", [("study", "status"), ("study", "report"), ("verify",)], ids=" ".join)
def test_a_directory_that_is_no_study_is_told(command: tuple[str, ...], tmp_path: Path) -> None:
    found = told(*command, tmp_path)
    assert found.exit_code == 2
    assert found.stderr == f"verax: {tmp_path}: no study here: there is no study.toml.\n"


@pytest.mark.parametrize("command", [("study", "status"), ("study", "report"), ("verify",)], ids=" ".join)
def test_a_damaged_model_is_told(command: tuple[str, ...], copied: Path) -> None:
    flip(copied / "models" / "Cancer-MLP.safetensors", -3)
    found = told(*command, copied)
    assert found.exit_code == 2
    assert "Cancer-MLP" in found.stderr
    assert "Run the study again" in found.stderr


def test_nothing_to_report_yet(copied: Path) -> None:
    for path in (copied / "scores").iterdir():
        path.unlink()
    found = told("study", "report", copied)
    assert found.exit_code == 2
    assert "no finished unit yet, so there is nothing to report" in found.stderr


def test_a_report_of_what_is_finished(copied: Path) -> None:
    """Two of the models have not been explained yet; the report is about the third."""
    for path in (copied / "scores").iterdir():
        if not path.name.startswith("Cancer-Linear.000000"):
            path.unlink()
    told("verify", copied)
    found = told("study", "report", copied)
    assert found.exit_code == 0, found.output
    assert found.stdout == f"Report: file://{copied}/report.html\n"
    page = (copied / "report.html").read_text()
    assert "This study is incomplete: 7 of 8 units are missing." in page


# Verification.


def test_verify_agrees(copied: Path) -> None:
    found = told("verify", copied, "--sample", "30%")
    assert found.exit_code == 0, found.output
    assert found.stdout.startswith("agrees: ")
    assert "values of 3 out of 8 units, compared bit for bit" in found.stdout
    assert found.stderr.count("computing ") == 3
    assert (copied / "verified.json").is_file()


def test_verify_finds_a_changed_number(copied: Path) -> None:
    path = sorted((copied / "scores").iterdir())[2]
    resealed(path, nudged("dpc_magnitude", 11, 0.001))
    found = told("verify", copied, "--sample", "1.0")
    assert found.exit_code == 1
    first, last = found.stdout.splitlines()
    assert first.startswith(f"{Sealed.stem(path)}: dpc_magnitude: ")
    assert last.startswith("DIFFERS: ")
    assert '"passed": false' in (copied / "verified.json").read_text()


def test_verify_tells_of_missing_units(copied: Path) -> None:
    sorted((copied / "scores").iterdir())[0].unlink()
    found = told("verify", copied)
    assert found.exit_code == 1
    assert "1 of 8 units are missing; run the study to the end." in found.stdout


@pytest.mark.parametrize("sample", ["0", "0%", "-1%", "101%", "2", "some", "", "%", "nan", "inf%"])
def test_a_sample_is_a_share(sample: str, finished: Path) -> None:
    found = told("verify", finished, f"--sample={sample}")
    assert found.exit_code == 2
    assert found.stderr == f"verax: --sample: expected a share such as 1% or 0.01, got {sample!r}.\n"


# Another process.


def test_ctrl_c_stops_and_the_next_run_goes_on(tmp_path: Path, finished: Path) -> None:
    path, folder = tmp_path / "several.toml", tmp_path / "study"
    path.write_text(tomli_w.dumps(content(table(limit=4, chunk=1), examples=0, uncertainty={"inputs": 0})))
    (folder / "models").mkdir(parents=True)
    for one in (finished / "models").iterdir():
        (folder / "models" / one.name).write_bytes(one.read_bytes())
    held = Path(__file__).parent / "held.py"
    command = [sys.executable, str(held), "study", "run", str(path), "--out", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(held.parents[1])}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        while not list(folder.glob("scores/*.parquet")):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert said == ""
    assert errors.splitlines()[-1] == (
        f"verax: stopped. What was finished is stored in {folder}; run it again to go on."
    )
    assert "Traceback" not in errors
    assert not list(folder.rglob("*.part"))
    assert len(list(folder.glob("scores/*.parquet"))) == 1
    assert ran(load_spec(path), folder)[0].computed == 3


def test_a_second_process_is_kept_out(toml: Path, trained: Path) -> None:
    """The lock holds between processes, and its message says who has it."""
    command = [sys.executable, "-m", "verax", "study", "run", str(toml), "--out", str(trained)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    found: list[subprocess.CompletedProcess[str]] = []

    def log(line: str) -> None:
        if "units to compute" in line:
            found.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=False))

    run_study(whole(), trained, log=log)
    (other,) = found
    assert other.returncode == 2
    assert f"{trained}: process {os.getpid()} on " in other.stderr
    assert "works on this study; wait for it, or use another --out." in other.stderr
    assert other.stderr.count("\n") == 1
    assert told("study", "status", trained).stdout.startswith("small: 8 of 8 units")
