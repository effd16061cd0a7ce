"""The contract of every command: whatever is wrong is one line on stderr and exit code 2, and nothing is written.

To add a command: name it in ``CASES`` with what can be wrong with it. Words in braces are paths of the ``world`` below;
``{new}`` does not exist.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch
import typer.main
from typer.testing import CliRunner

from processes import ran_apart
from study.studies import LINEAR, content, flip, ran, spec, table
from verax.cli import app
from verax.models import save
from verax.paper.models import Linear

RUN = CliRunner()
ELSEWHERE = {"tune"}  # commands with a contract suite of their own
NO_CUDA = "cuda:99"  # there is no machine with so many
A_MISSING_DEVICE = f"--device: expected a device of this machine, got {NO_CUDA}; torch finds"

EVALUATE = "evaluate --model {model} --inputs {x.npy} --attributions {a.npy}"
LAKE = "lake --model {model} --inputs {new} --out {new}/scores --method Gradient"
TRAIN = "train breast-cancer linear --epochs 1 --device cpu"
STUDY = "study run {study.toml} --out {new}"
MONITOR = "monitor --state {new}.json --model {model} --inputs {x.npy} --attributions ig={a.npy} --kind contributions"

# What can be wrong, by command: what is typed, and what the line must say.
CASES: dict[str, dict[str, tuple[str, str]]] = {
    "audit": {
        "an unknown metric": ("audit --metric dcp", "got 'dcp'; did you mean 'dpc'?"),
        "an unknown case": ("audit --case liner", "got 'liner'; did you mean 'linear'?"),
        "an unknown trial": ("audit --trial truth_win", "got 'truth_win'; did you mean 'truth_wins'?"),
        "rows without a model": ("audit --inputs {x.npy}", "--inputs: it belongs to a model"),
        "a model without rows": ("audit --model {model}", "--inputs: a model of your own needs rows"),
        "missing inputs": ("audit --model {model} --inputs {new}.npy", "no such file"),
        "no rights": ("audit --out {forbidden}/audit", "--out: {forbidden}/audit cannot be"),
    },
    "check freeze": {
        "no arguments": ("check freeze", "Missing argument 'FILE'"),
        "a missing file": ("check freeze {new}.toml", "o such file"),
        "no check": ("check freeze {junk.toml}", "junk.toml: cannot be read as TOML"),
        "an unknown key": ("check freeze {study.toml}", "study.toml: name: no such key"),
    },
    "check run": {
        "no arguments": ("check run", "Missing argument 'FILE'"),
        "an unknown option": ("check run {check.toml} --colour red", "No such option: --colour"),
        "a missing file": ("check run {new}.toml", "o such file"),
        "a study": ("check run {study.toml}", "study.toml: name: no such key"),
        "no rights": ("check run {check.toml} --report {forbidden}/r.html", "--report: {forbidden}/r.html cannot"),
        "another ending": ("check run {check.toml} --junit {new}.txt", "--junit: expected a file name that ends in"),
        "mismatched lengths": ("check run {short.toml}", "expected one row for each of the 8 inputs"),
    },
    "monitor": {
        "no arguments": ("monitor", "Missing option '--state'"),
        "an unknown metric": (f"{MONITOR} --metric dcp", "got 'dcp'; did you mean 'dpc'?"),
        "attributions of no kind": (MONITOR.removesuffix(" --kind contributions"), "pass --kind contributions"),
        "a share that is none": (f"{MONITOR} --alarm 7", "alarm: expected a share of false alarms"),
        "a state that is none": (
            f"{MONITOR} --state {{study.toml}}",
            "--state: expected a file name that ends in .json",
        ),
        "missing attributions": (MONITOR.replace("{a.npy}", "{new}.npy"), "o such file"),
        "mismatched lengths": (MONITOR.replace("a.npy", "short.npy"), "expected one row for each of the 8 inputs"),
    },
    "lake": {
        "no arguments": ("lake", "Missing option '--model'"),
        "an unknown option": (f"{LAKE} --report {{new}}.html", "No such option: --report"),
        "an unknown metric": (f"{LAKE} --metric dcp", "got 'dcp'; did you mean 'dpc'?"),
        "an unknown method": (f"{LAKE} --method Gradeint", "got 'Gradeint'; did you mean 'Gradient'?"),
        "nothing to rate": (LAKE.removesuffix(" --method Gradient"), "expected files or a method, got neither"),
        "a missing model": (LAKE.replace("{model}", "{new}.onnx"), "there is no file"),
        "missing inputs": (LAKE, "no such"),
    },
    "evaluate": {
        "no arguments": ("evaluate", "Missing option '--model'"),
        "an unknown option": (f"{EVALUATE} --colour red", "No such option: --colour"),
        "no number": (f"{EVALUATE} --metric pc(steps=0)", "steps: expected a whole number"),
        "a missing model": ("evaluate --model {new}.onnx --inputs {x.npy} --attributions {a.npy}", "there is no file"),
        "a damaged model": (
            "evaluate --model {damaged/models/Cancer-Linear.safetensors} --inputs {x.npy} --attributions {a.npy}",
            "Cancer-Linear",
        ),
        "an unknown metric": (
            f"{EVALUATE} --metric dcp",
            "got 'dcp'; did you mean 'dpc'? One of your own needs --import",
        ),
        "no method": (f"{EVALUATE} --method Gradeint", "got 'Gradeint'; did you mean 'Gradient'?"),
        "missing inputs": ("evaluate --model {model} --inputs {new}.npy --attributions {a.npy}", "no such file"),
        "missing attributions": ("evaluate --model {model} --inputs {x.npy} --attributions {new}.npy", "no such file"),
        "damaged attributions": ("evaluate --model {model} --inputs {x.npy} --attributions {junk.npy}", "junk.npy"),
        "unknown columns": (
            "evaluate --model {model} --inputs {x.csv} --attributions {unknown.csv}",
            "unknown height and missing d",
        ),
        "mismatched lengths": (
            "evaluate --model {model} --inputs {x.npy} --attributions {short.npy}",
            "expected one row for each of the 8 inputs",
        ),
        "attributions of another data set": (
            "evaluate --model {model} --inputs {x.npy} --attributions {other.npy}",
            "attributions['other']: shape (8, 6)",
        ),
        "inputs of another data set": (
            "evaluate --model {model} --inputs {other.npy} --attributions {a.npy}",
            "cannot score rows of shape (6,)",
        ),
        "targets of another data set": (f"{EVALUATE} --target {{labels.npy}}", "target"),
        "a folder as a file": ("evaluate --model {model} --inputs {folder} --attributions {a.npy}", "folder"),
        "a file as a folder": (f"{EVALUATE} --out {{regular}}/r.parquet", "regular is no folder"),
        "no rights": (f"{EVALUATE} --out {{forbidden}}/r.parquet", "--out: {forbidden}/r.parquet cannot be written"),
        "no rights for a report": (f"{EVALUATE} --report {{forbidden}}/r.html", "--report: {forbidden}/r.html cannot"),
        "its own model": (f"{EVALUATE} --out {{table.parquet}} --attributions {{table.parquet}}", "also read"),
        "a missing device": (f"{EVALUATE} --device {NO_CUDA} --out {{new}}.parquet", A_MISSING_DEVICE),
    },
    "train": {
        "no arguments": ("train", "Missing argument 'dataset'"),
        "an unknown data set": (
            "train helco linear --out {new}.safetensors",
            "got 'helco'; did you mean 'heloc'? One of your own needs --import MODULE.",
        ),
        "an unknown model": (
            "train digits forest --out {new}.safetensors",
            "model: expected linear, mlp or inception, got 'forest'",
        ),
        "no place": ("train digits linear", "Missing option '--out'"),
        "missing data": ("train heloc mlp --data {new}.csv --out {new}.safetensors", "{new}.csv"),
        "damaged data": ("train heloc mlp --data {junk.npy} --out {new}.safetensors", "junk.npy"),
        "unknown columns": ("train heloc mlp --data {x.csv} --out {new}.safetensors", "x.csv"),
        "a missing folder": ("train isic linear --data {new} --out {new}.safetensors", "{new}"),
        "a file as a folder": ("train isic linear --data {regular} --out {new}.safetensors", "{regular}"),
        "missing weights": (f"{TRAIN} --init {{new}}.safetensors --out {{new}}.safetensors", "{new}.safetensors"),
        "weights of another data set": (f"{TRAIN} --init {{model}} --out {{new}}.safetensors", "m.safetensors"),
        "another kind of file": (f"{TRAIN} --out {{new}}.pt", "--out: expected a file name that ends in .safetensors"),
        "a place below a file": (f"{TRAIN} --out {{regular}}/m.safetensors", "regular is no folder"),
        "no rights": (f"{TRAIN} --out {{forbidden}}/m.safetensors", "--out: {forbidden}/m.safetensors cannot be"),
        "its own start": (f"{TRAIN} --init {{model}} --out {{model}}", "--out: {model} is also read"),
        "an unknown device": (f"{TRAIN} --device abacus --out {{new}}.safetensors", "device: expected a torch device"),
        "a folder of other things": ("train isic linear --data {folder} --out {new}.safetensors", "{folder}"),
        "a missing device": (f"{TRAIN} --device {NO_CUDA} --out {{new}}.safetensors", A_MISSING_DEVICE),
    },
    "study run": {
        "no arguments": ("study run", "Missing argument 'spec'"),
        "an unknown spec": ("study run paper --out {new}", "SPEC: expected demo, paper-heloc, paper-isic"),
        "a missing spec": ("study run {new}.toml --out {new}", "{new}.toml"),
        "a damaged spec": ("study run {junk.toml} --out {new}", "junk.toml: no TOML"),
        "an unknown key": ("study run {key.toml} --out {new}", "colour: no such key; expected one of"),
        "no inputs": (f"{STUDY} --limit 0", "Invalid value for '--limit'"),
        "missing data": ("study run paper-heloc --data {new}.csv --out {new}", "{new}.csv"),
        "unknown columns": ("study run paper-heloc --data {x.csv} --out {new}", "x.csv"),
        "mismatched lengths": ("study run {file.toml} --data {uneven.npz} --out {new}", "uneven.npz"),
        "a model of another data set": ("study run {file.toml} --data {even.npz} --out {new}", "m: was trained"),
        "a missing model": ("study run {lost.toml} --out {new}", "lost.safetensors"),
        "another study's directory": ("study run demo --out {study}", "{study}: holds another study"),
        "a file as a folder": ("study run {study.toml} --out {regular}", "regular is no folder"),
        "no rights": ("study run {study.toml} --out {forbidden}/study", "--out: {forbidden}/study cannot be written"),
        "a missing device": (f"{STUDY} --device {NO_CUDA}", A_MISSING_DEVICE),
        "a device for nothing": (f"{STUDY} --device meta", "--device: expected cpu, cuda or mps, got meta"),
        "a plan without rights": ("study run {study.toml} --out {forbidden}/study --dry-run", "cannot be written"),
        "a plan without data": ("study run paper-heloc --data {new}.csv --out {new} --dry-run --json", "{new}.csv"),
    },
    "study status": {},
    "study report": {},
    "study claims": {
        "another kind of file": (
            "study claims {study} --out {new}.html",
            "ends in .md, .csv, .json, or a folder, got {new}.html",
        ),
        "no rights for a folder": ("study claims {study} --out {forbidden}/claims", "{forbidden}/claims cannot be"),
        "no rights for a file": ("study claims {study} --out {forbidden}/claims.md", "{forbidden}/claims.md cannot be"),
        "a missing runtime table": ("study claims {study} --runtime {new}.json", "{new}.json: cannot be read as JSON"),
        "something else than a runtime table": ("study claims {study} --runtime {regular}", "{regular}: cannot be"),
        "a model twice": ("study claims {study} {other}", "Cancer-Linear in {study} and {other}"),
    },
    "verify": {
        "no share": ("verify {study} --sample half", "--sample: expected a share such as 1%"),
        "a missing device": (f"verify {{study}} --device {NO_CUDA}", A_MISSING_DEVICE),
    },
    "doctor": {
        "an unknown option": ("doctor --cure", "No such option: --cure"),
        "an argument": ("doctor me", "unexpected extra argument"),
    },
}
for name in ("study status", "study report", "study claims", "verify"):
    CASES[name] |= {
        "no arguments": (name, f"Missing argument 'DIR{'...' if name == 'study claims' else ''}'"),
        "a missing directory": (f"{name} {{new}}", "{new}: no study here"),
        "a directory of other things": (f"{name} {{folder}}", "{folder}: no study here"),
        "a file as a folder": (f"{name} {{regular}}", "{regular}"),
        "no rights": (f"{name} {{forbidden}}/study", "{forbidden}/study"),
        "a damaged spec": (f"{name} {{changed}}", "study.toml: was changed by hand or damaged"),
        "a damaged model": (f"{name} {{damaged}}", "Run the study again to have it made anew"),
        "a lost model": (f"{name} {{bereft}}", "Run the study again to have it made anew"),
    }
for name, beginning in (
    ("evaluate", EVALUATE),
    ("train", f"{TRAIN} --out {{new}}.safetensors"),
    ("study run", STUDY),
    ("study status", "study status {study}"),
    ("study report", "study report {study}"),
    ("study claims", "study claims {study}"),
    ("verify", "verify {study}"),
):
    CASES[name]["a missing module"] = (
        f"{beginning} --import nobodys.module",
        "--import: there is no module 'nobodys.m",
    )
for name in ("study report", "study claims", "verify"):
    CASES[name]["nothing finished"] = (f"{name} {{unbegun}}", "no finished unit")

ALL = [pytest.param(*case, id=f"{name}: {kind}") for name, cases in CASES.items() for kind, case in cases.items()]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good and bad files of every kind, and a finished study with spoilt copies."""
    world = tmp_path_factory.mktemp("world")
    _arrays(world)
    _checks(world)
    _specs(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("verax.study.run.write_report", lambda study, workers: study.store.folder / "report.html")
        patch.setattr("verax.study.plan._seconds_per_input", lambda *arguments: 0.0)
        ran(spec(_small()), world / "study")
    for name in ("damaged", "changed", "bereft", "unbegun", "other"):
        shutil.copytree(world / "study", world / name)
    flip(world / "damaged" / "models" / "Cancer-Linear.safetensors", -3)
    flip(world / "changed" / "study.toml", 40)
    (world / "bereft" / "models" / "Cancer-Linear.safetensors").unlink()
    shutil.rmtree(world / "unbegun" / "scores")
    return world


def _small() -> dict[str, Any]:
    return table(LINEAR, others=[{"method": "Gradient"}], limit=2, chunk=2)


def _arrays(world: Path) -> None:
    draws = np.random.default_rng(0)
    x = draws.normal(size=(8, 4)).astype(np.float32)
    module = Linear(4).build(seed=0)
    save(world / "m.safetensors", module, Linear(4), dataset=None, hyperparameters={}, metrics={}, seed=0)
    for name, values in {"x": x, "a": x, "short": x[:3], "other": np.c_[x, x[:, :2]], "labels": np.arange(5)}.items():
        np.save(world / f"{name}.npy", values)
    for name, columns in {"x": "a,b,c,d", "unknown": "a,b,c,height"}.items():
        np.savetxt(world / f"{name}.csv", x, delimiter=",", header=columns, comments="")
    np.savez(world / "uneven.npz", inputs=x, labels=np.arange(7) % 2)
    np.savez(world / "even.npz", inputs=draws.normal(size=(60, 6)), labels=np.arange(60) % 2)
    for name in ("junk.npy", "junk.toml", "regular", "table.parquet"):
        (world / name).write_bytes(b"this is something else")
    (world / "folder").mkdir()


def _checks(world: Path) -> None:
    must = [{"metric": "pc", "threshold": 0.0, "justification": "why"}]
    files = {"model": "m.safetensors", "inputs": "x.npy"}
    for name, attribution in {"check": "a.npy", "short": "short.npy"}.items():
        text = {"problem": files, "explanation": {"file": attribution}, "requirements": must}
        (world / f"{name}.toml").write_text(tomli_w.dumps(text))


def _specs(world: Path) -> None:
    own = {"name": "m", "file": str(world / "study" / "models" / "Cancer-Linear.safetensors")}
    lost = {"name": "m", "file": str(world / "lost.safetensors")}
    methods = [{"method": "Gradient"}]
    specs = {
        "study": content(_small()),
        "key": content(_small(), colour="red"),
        "file": content(table(own, others=methods, name="file", path="even.npz")),
        "lost": content(table(lost, others=methods)),
    }
    for name, one in specs.items():
        (world / f"{name}.toml").write_text(tomli_w.dumps(one))


def filled(text: str, world: Path) -> str:
    """Paths in the place of the words in braces."""
    places = {"{model}": "m.safetensors", "{forbidden}": "/proc/verax"}  # no process, not even root's, can make it
    for word, place in places.items():
        text = text.replace(word, str(world / place))
    return text.replace("{", f"{world}/").replace("}", "")


def contents(*folders: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder, with what shows that a file was written; locks are, and folders are tried."""
    found = {}
    for path in (one for folder in folders for one in sorted(folder.rglob("*"))):
        status = path.stat()
        found[str(path)] = (status.st_ino, 0 if path.is_dir() or path.name == ".lock" else status.st_mtime_ns)
    return found


@pytest.mark.parametrize(("command", "message"), ALL)
def test_one_line_exit_code_2_and_nothing_written(
    command: str, message: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = contents(world)
    found = RUN.invoke(app, filled(command, world).split())
    assert found.exit_code == 2, found.output
    (line,) = (line for line in found.stderr.splitlines() if not line.startswith("m: from "))  # what it was about to do
    assert line.startswith("verax: ")
    assert filled(message, world) in line
    assert found.stdout == ""
    assert contents(world) == before
    assert not list(tmp_path.iterdir())


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name)) if hasattr(command, "commands") else [" ".join((*path, name))]


def test_every_command_is_under_the_contract() -> None:
    assert set(commands(typer.main.get_command(app))) - ELSEWHERE == set(CASES)


@pytest.mark.parametrize("command", sorted(CASES.keys() | ELSEWHERE))
def test_every_command_has_help_with_an_example_and_json(command: str) -> None:
    found = RUN.invoke(app, [*command.split(), "--help"])
    assert found.exit_code == 0
    assert f"verax {command} " in found.stdout.split("Example", 1)[1] + " "
    assert "--json" in found.stdout
    assert "\x1b" not in found.stdout


OTHER_PROCESS = {
    "evaluate": CASES["evaluate"]["mismatched lengths"],
    "train": CASES["train"]["unknown columns"],
    "study run": CASES["study run"]["missing data"],
    "verify": CASES["verify"]["a damaged model"],
    "usage": ("study rn", "No such command 'rn'. Did you mean 'run'? See 'verax study --help'."),
}


def test_the_same_in_a_process_of_its_own(world: Path, tmp_path: Path) -> None:
    """Where warnings would be printed, and nothing is caught by a test runner."""
    ended = ran_apart([filled(command, world) for command, _ in OTHER_PROCESS.values()], tmp_path)
    for found, (_, message) in zip(ended, OTHER_PROCESS.values(), strict=True):
        assert found.returncode == 2, found.args
        assert filled(message, world) in found.stderr
        assert found.stderr.count("\n") == 1, found.stderr
        assert found.stdout == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("command", [EVALUATE, TRAIN + " --out {new}.safetensors", STUDY, "verify {study}"])
def test_a_gpu_that_is_not_there(command: str, world: Path) -> None:
    found = RUN.invoke(app, [*filled(command, world).split(), "--device", "cuda"])
    assert found.exit_code == 2
    expected = "expected a device of this machine, got cuda; torch finds no CUDA device; use cpu."
    assert found.stderr == f"verax: --device: {expected}\n"


@pytest.mark.parametrize(
    "command",
    [
        "evaluate --model {model} --inputs {locked}/x.npy --attributions {a.npy}",
        EVALUATE + " --out {locked}/r.parquet",
        TRAIN + " --out {locked}/m.safetensors",
        "study run {study.toml} --out {locked}/study",
        "study status {locked}/study",
        "study report {locked}/study",
        "study claims {locked}/study",
        "verify {locked}/study",
    ],
)
def test_a_folder_without_rights(command: str, world: Path, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0)
    if os.access(tmp_path / "locked", os.R_OK):
        pytest.skip("who is root may read and write everywhere")
    found = RUN.invoke(app, filled(command.replace("{locked}", str(tmp_path / "locked")), world).split())
    assert found.exit_code == 2
    assert found.stderr.startswith("verax: ")
    assert found.stderr.count("\n") == 1
    assert str(tmp_path / "locked") in found.stderr


def test_a_study_that_cannot_begin_leaves_other_things_alone(world: Path, tmp_path: Path) -> None:
    """What was there stays; folders that were made for the study go."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "notes.txt").write_text("mine")
    for place in ("there", "there/new/study"):
        command = f"study run paper-heloc --data {tmp_path}/none.csv --out {tmp_path}/{place}"
        assert RUN.invoke(app, command.split()).exit_code == 2
    assert [path.name for path in tmp_path.rglob("*")] == ["there", "notes.txt"]
