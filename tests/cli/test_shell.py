"""The command in a shell: completion, colours, pipes, exit codes, and what is on which stream."""

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

import verax
from verax.cli import app
from verax.cli.complete import METRICS
from verax.data.catalogue import names
from verax.models import save
from verax.paper.models import Linear
from verax.study.run import watching

RUN = CliRunner()
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "use-the-command-line.md"
VERAX = [sys.executable, "-m", "verax"]


def told(*arguments: object) -> Result:
    return RUN.invoke(app, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, inputs and an attribution."""
    folder = tmp_path_factory.mktemp("files")
    module = Linear(4).build(seed=0)
    save(folder / "m.safetensors", module, Linear(4), dataset=None, hyperparameters={}, metrics={}, seed=0)
    for name in ("x", "a"):
        np.save(folder / f"{name}.npy", np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32))
    return folder


@pytest.fixture
def evaluate(files: Path) -> list[str]:
    paths = {"--model": "m.safetensors", "--inputs": "x.npy", "--attributions": "a.npy"}
    return ["evaluate", "--metric", "pc", *(word for name, file in paths.items() for word in (name, f"{files}/{file}"))]


# Completion.

OFFERED = {
    "commands": ("", {"evaluate", "tune", "audit", "check", "monitor", "lake", "study", "verify", "train", "doctor"}),
    "commands about studies": ("study ", {"run", "status", "report", "claims"}),
    "specs": ("study run ", {"demo", "paper-heloc", "paper-isic", "own.toml"}),
    "the rest of a spec": ("study run paper-h", {"paper-heloc"}),
    "specs in a folder": ("study run specs/", {"specs/more.toml"}),
    "specs in a folder from here": ("study run ./o", {"./own.toml"}),
    "studies": ("study status ", {"my-study"}),
    "studies to verify": ("verify my", {"my-study"}),
    "data sets": ("train ", {"heloc", "isic", "breast-cancer", "digits", "file"}),
    "models": ("train heloc ", {"linear", "mlp", "inception"}),
    "metrics": ("evaluate --metric ", {"pc", "dpc", "infidelity", "sensitivity_n"}),
    "metrics after several files": ("evaluate --attributions a.npy b.npy --metric d", {"dpc", "deletion"}),
    "methods": ("tune --methods Ran", {"Random"}),
    "methods after others": ("tune --methods Gradient,Ed", {"Gradient,Edges"}),
    "devices": ("study run demo --device ", {"cpu", "cuda"}),
    "engines": ("study run demo --engine ", {"local", "ray"}),
    "what a model returns": ("evaluate --returns l", {"logits"}),
    "baselines": ("evaluate --baselines m", {"mean", "median", "mode", "missing"}),
    "what is done with gaps": ("tune --missing ", {"allow", "raise"}),
    "features of texts": ("evaluate --unit ", {"token", "word", "sentence"}),
    "what tokens become": ("evaluate --replace ", {"mask", "pad", "unk", "delete"}),
    "scores": ("tune --output ", {"probability", "logit"}),
    "options": ("study run --dr", {"--dry-run"}),
}


@pytest.mark.parametrize(("typed", "offered"), OFFERED.values(), ids=OFFERED.keys())
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_offers(
    typed: str, offered: set[str], shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "specs").mkdir()
    (tmp_path / "my-study").mkdir()
    for path in ("own.toml", "specs/more.toml", "my-study/study.toml"):
        (tmp_path / path).write_text("")
    line = f"verax {typed}"
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    asked |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    found = RUN.invoke(app, [], env=asked | {"_VERAX_COMPLETE": f"complete_{shell}"}, prog_name="verax")
    assert found.exit_code == 0, found.output
    words = re.findall(r'"([^"]+)"(?::"[^"]*")?', found.stdout) if shell == "zsh" else found.stdout.split("\n")
    shown = {word.split("\t")[0] for word in words} - {""}
    now = {"train ": set(names()), "evaluate --metric ": set(METRICS)}  # what comes with Verax
    assert offered <= shown == now.get(typed, offered)


def test_completion_of_the_command_itself() -> None:
    environment = {**os.environ, "_VERAX_COMPLETE": "complete_bash", "COMP_WORDS": "verax doc", "COMP_CWORD": "1"}
    found = subprocess.run(VERAX, env=environment, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "doctor\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_to_install(shell: str) -> None:
    found = RUN.invoke(app, [], env={"_VERAX_COMPLETE": f"source_{shell}"}, prog_name="verax")
    assert found.exit_code == 0
    assert f"_VERAX_COMPLETE=complete_{shell}" in found.stdout
    for option in ("--install-completion", "--show-completion"):
        assert option in told("--help").stdout


# Colours.


BOTH = """
import sys
from verax.cli import app
from verax.cli.complete import METRICS
for command in sys.argv[1:]:
    try:
        app(command.split(), prog_name="verax")
    except SystemExit as end:
        print("ended with", end.code)
"""


def on_a_terminal(*commands: str, **environment: str) -> str:
    """What commands print on a terminal, one after the other."""
    own, other = pty.openpty()
    surroundings = {**os.environ, "TERM": "xterm-256color", **environment}
    with subprocess.Popen(
        [sys.executable, "-c", BOTH, *commands], stdout=other, stderr=other, env=surroundings
    ) as process:
        os.close(other)
        found = b""
        while True:
            try:
                piece = os.read(own, 1 << 16)
            except OSError:  # the other end was closed, as Linux tells it
                break
            if not piece:
                break
            found += piece
        process.wait()
    os.close(own)
    return found.decode()


def test_no_escape_codes_even_on_a_terminal() -> None:
    found = on_a_terminal("--help", "study run nothing", NO_COLOR="1")
    assert "Usage: verax" in found
    assert "verax: SPEC: expected " in found
    assert re.findall(r"ended with (\d)", found) == ["0", "2"]
    assert "\x1b" not in found


def test_no_escape_codes_into_a_pipe_whatever_is_forced(files: Path) -> None:
    environment = {**os.environ, "FORCE_COLOR": "1", "GITHUB_ACTIONS": "true", "TERM": "xterm-256color"}
    found = subprocess.run([*VERAX, "--help"], env=environment, capture_output=True, text=True, check=True)
    assert "\x1b" not in found.stdout + found.stderr


def test_the_progress_bar_has_no_colours_if_none_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def colours() -> set[str]:
        screen = Terminal()
        monkeypatch.setattr("sys.stderr", screen)
        with watching(3) as watcher:
            watcher(10)
            watcher.log("a line")
        codes = ";".join(re.findall(r"\x1b\[([0-9;]+)m", screen.getvalue())).split(";")
        return {code for code in codes if code.startswith(("3", "4", "9"))}

    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    assert colours()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colours()


# Exit codes.


def test_the_exit_codes_of_the_help_are_those_of_the_guide() -> None:
    told_in_help = re.findall(r"^ +(\d+) +\w", told("--help").stdout.split("Exit codes:")[1], flags=re.MULTILINE)
    told_in_guide = re.findall(r"^\| (\d+) \|", GUIDE.read_text(), flags=re.MULTILINE)
    assert told_in_help == told_in_guide == ["0", "1", "2", "3", "4", "5", "130"]


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["--help"], 0), ([], 2), (["study"], 2)])
def test_without_a_command(arguments: list[str], code: int) -> None:
    found = told(*arguments)
    assert found.exit_code == code
    assert (found.stdout if code == 0 else found.stderr) == found.output
    assert "verax" in found.output


def test_ctrl_c_ends_any_command_with_130(evaluate: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("verax.problem.files.tables.read_inputs", stop)
    found = told(*evaluate)
    assert (found.exit_code, found.stdout, found.stderr) == (130, "", "verax: stopped. Nothing was written.\n")
    monkeypatch.setattr("verax.paper.models.shipped.train_shipped", stop)
    found = told("train", "digits", "linear", "--out", "m.safetensors")
    assert found.exit_code == 130
    assert found.stderr == "verax: stopped. Run the same command again to go on from the last whole epoch.\n"
    monkeypatch.setattr("verax.cli.doctor.examine", stop)
    assert told("doctor").exit_code == 130


def test_ctrl_c_in_a_process_of_its_own(tmp_path: Path) -> None:
    """A training that would take long is stopped, and says how to go on."""
    command = [*VERAX, "train", "digits", "linear", "--epochs", "100000", "--out", str(tmp_path / "m.safetensors")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "m.checkpoint").exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert said == ""
    assert errors.splitlines()[-1].startswith("verax: stopped. ")
    assert "Traceback" not in errors


def test_a_reader_that_has_read_enough(evaluate: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*arguments: object, **settings: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(typer, "echo", closed)
    found = told(*evaluate)
    assert found.exit_code == 1
    assert found.output == ""


def test_an_error_of_verax_itself_is_not_hidden(evaluate: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise KeyError("a mistake")

    monkeypatch.setattr("verax.problem.files.tables.read_inputs", broken)
    with pytest.raises(KeyError):
        RUN.invoke(app, evaluate, catch_exceptions=False)


# JSON.


def parsed(text: str) -> dict[str, object]:
    """JSON as the standard has it, without NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    found: dict[str, object] = json.loads(text, parse_constant=refuse)
    return found


def test_json_of_training(tmp_path: Path) -> None:
    out = tmp_path / "m.safetensors"
    found = told("train", "breast-cancer", "linear", "--epochs", 2, "--device", "cpu", "--out", out, "--json")
    assert found.exit_code == 0, found.output
    told_facts = parsed(found.stdout)
    assert told_facts["metrics"] == json.loads(out.with_suffix(".json").read_text())["metrics"]
    assert (told_facts["dataset"], told_facts["model"], told_facts["epochs"]) == ("breast-cancer", "linear", 2)
    assert told_facts["out"] == str(out)
    assert "epoch 2/2" in found.stderr


def test_json_of_evaluate_is_alone_on_its_stream(evaluate: list[str], tmp_path: Path) -> None:
    found = told(*evaluate, "--json", "--out", tmp_path / "r.parquet")
    assert parsed(found.stdout)["inputs"] == 6
    assert found.stderr == f"Saved as {tmp_path / 'r.parquet'}\n"


@pytest.mark.parametrize("wrong", [["--inputs", "none.npy"], ["--colour"]], ids=" ".join)
def test_an_error_leaves_the_stream_of_the_json_empty(evaluate: list[str], wrong: list[str]) -> None:
    found = told(*evaluate, "--json", *wrong)
    assert (found.exit_code, found.stdout) == (2, "")


def test_version() -> None:
    found = told("--version")
    assert (found.stdout, found.stderr) == (f"verax {verax.__version__}\n", "")


# Threads.

LOADED = "import sys; from verax.cli import app; app(['--version'], standalone_mode=False); import torch"


@pytest.mark.parametrize(("before", "after"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "active"}, "ACTIVE")])
def test_torchs_threads_wait_passively_unless_the_user_says_otherwise(before: dict[str, str], after: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {"OMP_DISPLAY_ENV": "true"} | before  # OpenMP says what it read when torch was loaded
    done = subprocess.run([sys.executable, "-c", LOADED], env=environment, capture_output=True, text=True, check=True)
    assert re.findall(r"OMP_WAIT_POLICY\W+(\w+)", done.stderr) == [after]
