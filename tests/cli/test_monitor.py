"""``verax monitor`` as a scheduler uses it: a state file, lines of JSON, exit codes, and whatever can be wrong."""

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from verax.cli.common import Commands
from verax.cli.evaluate import SeveralPaths
from verax.cli.monitor import ALARM, monitor
from verax.models import save
from verax.paper.models import Linear

RUN = CliRunner()
APP = typer.Typer(pretty_exceptions_enable=False, cls=Commands)
APP.command("monitor", cls=SeveralPaths)(monitor)
APP.command("other")(lambda: None)
DRAWS = np.random.default_rng(0)


@pytest.fixture
def folder(tmp_path):
    own, rest = Linear(4).build(seed=0), {"dataset": None, "hyperparameters": {}, "metrics": {}, "seed": 0}
    save(tmp_path / "m.safetensors", own, Linear(4), **rest)
    save(tmp_path / "other.safetensors", Linear(4).build(seed=1), Linear(4), **rest)
    weights = next(iter(own.parameters())).detach().numpy()[0]
    for day in range(4):
        x = DRAWS.normal(size=(150, 4)).astype(np.float32)
        logit = x @ weights
        np.save(tmp_path / f"x{day}.npy", x)
        good = x * weights * np.sign(logit)[:, None]
        np.save(tmp_path / f"a{day}.npy", good if day < 3 else -good)
        np.save(tmp_path / f"slopes{day}.npy", weights * np.sign(logit)[:, None])
    return tmp_path


def invoke(folder, day, *more, model="m.safetensors", attributions="ig={}", kind="contributions"):
    files = ["--state", folder / "state.json", "--model", folder / model, "--inputs", folder / f"x{day}.npy"]
    given = ["--attributions", attributions.format(folder / f"a{day}.npy")]
    said = [] if kind is None else ["--kind", kind]
    return RUN.invoke(APP, ["monitor", *(str(one) for one in (*files, *given, *said, *more))])


def refused(result, words):
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert result.stdout == ""


def test_a_batch_a_day_until_the_fidelity_falls(folder) -> None:
    for day in range(3):
        result = invoke(folder, day, "--metric", "pc", "--label", f"day {day}")
        assert result.exit_code == 0, result.stderr
        (line,) = map(json.loads, result.stdout.splitlines())
        assert (line["window"], line["label"], line["rows"], line["reference"]) == (
            day + 1,
            f"day {day}",
            150,
            day == 0,
        )
        assert line["low"] <= line["mean"] <= line["high"]
        assert not line["alarm"]
    fallen = invoke(folder, 3, "--metric", "pc", "--report", folder / "r.html")
    assert fallen.exit_code == ALARM
    assert json.loads(fallen.stdout)["alarm"]
    assert "Yes: pc of ig" in (folder / "r.html").read_text()
    before = (folder / "state.json").read_bytes()
    again = invoke(folder, 3, "--metric", "pc")
    assert again.exit_code == ALARM
    assert "folded before" in again.stderr
    assert again.stdout == ""
    assert (folder / "state.json").read_bytes() == before


def test_notes_speak_of_options(folder) -> None:
    """Contributions against another baseline than that of the call, which is 0."""
    weights = next(iter(Linear(4).build(seed=0).parameters())).detach().numpy()[0]
    np.save(folder / "a0.npy", (np.load(folder / "x0.npy") + 0.5) * weights)
    result = invoke(folder, 0, "--window", 100, "--target", 1)
    assert result.exit_code == 0, result.stderr
    assert "Pass what it was explained against as --baselines, or explain it against this baseline." in result.stderr


def test_windows_of_so_many_rows(folder) -> None:
    early = invoke(folder, 3, "--window", "1000", "--state", folder / "early.json", "--report", folder / "early.html")
    assert early.exit_code == 0
    assert "no window is finished yet" in early.stderr
    assert (folder / "early.json").exists()
    assert not (folder / "early.html").exists()
    first = invoke(folder, 0, "--window", "100", "--alarm", "0.1", attributions="{}")
    second = invoke(folder, 1, attributions="{}")
    (text,) = invoke(folder, 2, "--text", "--label", "today", attributions="{}").stdout.splitlines()
    assert text.startswith("today, window 4: effect_correlation of attribution ")
    assert text.endswith("100 rows; no sign of a fall")
    lines = [json.loads(line) for line in (first.stdout + second.stdout).splitlines()]
    assert [(line["rows"], line["attribution"]) for line in lines] == [(100, "attribution")] * 3
    refused(invoke(folder, 3, "--window", "7", attributions="{}"), "--window: ")
    refused(invoke(folder, 3, "--alarm", "0.2", attributions="{}"), "began with 0.1, got 0.2")


def test_another_question_needs_another_state(folder) -> None:
    assert invoke(folder, 0).exit_code == 0
    refused(invoke(folder, 1, model="other.safetensors"), "another question: model differ")
    refused(invoke(folder, 1, "--metric", "pc"), "metrics differ")
    refused(invoke(folder, 1, kind="slopes"), "metrics differ")
    refused(invoke(folder, 1, attributions="lime={}"), "expected effect_correlation of ig, as in the batches before")
    (folder / "state.json").write_text("{}")
    refused(invoke(folder, 1), "no state of a monitor")


def test_it_asks_what_the_attributions_are(folder) -> None:
    refused(invoke(folder, 0, kind=None), "pass --kind contributions")
    refused(invoke(folder, 0, "--metric", "infidelity", kind=None), "--kind: infidelity must know")
    refused(invoke(folder, 0, kind="shap"), "--kind: expected one of 'contributions', 'slopes', got 'shap'")
    assert not (folder / "state.json").exists()
    assert invoke(folder, 0, "--metric", "pc", kind=None).exit_code == 0
    slopes = f"gradient={folder / 'slopes0.npy'}"
    short = "effect_correlation(sigma=0.5, perturbation=gaussian)"
    noise = invoke(folder, 0, "--state", folder / "n.json", "--metric", short, kind=None, attributions=slopes)
    assert json.loads(noise.stdout)["metric"] == "effect_correlation"
    assert json.loads((folder / "n.json").read_text())["about"]["metrics"] == "effect_correlation(sigma=0.5)"


def test_a_reference_that_is_not_above_chance_is_no_reference(folder) -> None:
    refused(invoke(folder, 3), "not better than chance (0)")
    assert not (folder / "state.json").exists()


def test_what_is_wrong_is_one_line(folder) -> None:
    refused(invoke(folder, 9), "No such file")
    refused(invoke(folder, 0, "--metric", "dcp"), "did you mean 'dpc'")
    refused(invoke(folder, 0, "--attributions", "ig=b.npy"), "a name of its own for each file")
    refused(invoke(folder, 0, "--report", folder / "r.pdf"), "ends in .html")
    refused(invoke(folder, 0, "--alarm", "7"), "alarm: expected a share")
    refused(invoke(folder, 0, "--reference", "0"), "reference: ")
    refused(invoke(folder, 0, model="none.safetensors"), "there is no file")
    assert not (folder / "state.json").exists()


def test_a_method_is_computed_and_watched(folder) -> None:
    start = ["monitor", "--state", folder / "watched.json", "--model", folder / "m.safetensors"]
    start += ["--kind", "contributions"]
    words = ["--method", "KernelShap", "--metric", "pc"]
    for day in range(2):
        result = RUN.invoke(APP, [str(one) for one in (*start, "--inputs", folder / f"x{day}.npy", *words)])
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout)["attribution"] == "KernelShap"
    other = RUN.invoke(APP, [str(one) for one in (*start, "--inputs", folder / "x2.npy", "--method", "Gradient")])
    refused(other, "metrics, methods differ")
    neither = RUN.invoke(APP, [str(one) for one in (*start, "--inputs", folder / "x2.npy")])
    refused(neither, "--attributions, --method: expected a file or a method, got neither.")
