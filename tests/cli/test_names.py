"""Names come from files, and files from strangers: no name commands the terminal that shows it."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import calls
from verax.cli import app, common
from verax.core.text_tables import Table
from verax.models import Linear, save

RUN = CliRunner()
NAME = "red\x1b[31m\x9b2J\r\x07\u202e"
SHOWN = r"red\x1b[31m\x9b2J\r\x07\u202e"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    save(
        tmp_path / "m.safetensors",
        Linear(3).build(seed=0),
        Linear(3),
        dataset=None,
        hyperparameters={},
        metrics={},
        seed=0,
    )
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "a.npz", **{NAME: x, "other": -x})
    (tmp_path / "x.csv").write_text(f"a,b,{NAME}\n1,2,words\n".replace("\r", ""))
    return tmp_path


def harmless(text: str) -> bool:
    return all(sign.isprintable() or sign == "\n" for sign in text)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--inputs", "{x.npy}", "--attributions", "{a.npz}"],
        ["--inputs", "{x.npy}", "--attributions", "{a.npz}", "--out", f"{{r{NAME}.parquet}}"],
        ["--inputs", "{x.csv}", "--attributions", "{a.npz}"],
        ["--inputs", f"{{{NAME}.npy}}", "--attributions", "{a.npz}"],
        ["--inputs", "{x.npy}", "--attributions", "{a.npz}", "--metric", NAME],
        ["--inputs", "{x.npy}", "--attributions", "{a.npz}", f"--{NAME}"],
        ["--inputs", "{x.npy}", "--attributions", "{a.npz}", "--json"],
    ],
)
def test_no_name_reaches_the_terminal_as_it_is(arguments: list[str], folder: Path) -> None:
    given = [one.replace("{", f"{folder}/").replace("}", "") for one in arguments]
    found = RUN.invoke(app, ["evaluate", "--model", f"{folder}/m.safetensors", *given])
    assert found.exit_code in (0, 2)
    assert "red" in found.output
    assert harmless(found.stdout)
    assert harmless(found.stderr)


def test_tables_in_a_terminal_show_names_whole_and_on_one_line() -> None:
    text = Table((NAME, "b"), ((f"{NAME}\nforged", "1"),), NAME, (NAME,)).text()
    assert text.count(SHOWN) == 4
    assert harmless(text)
    assert len(text.splitlines()) == 5


def test_results_print_names_harmlessly() -> None:
    x = torch.ones(3, 2)
    found = calls.compare(torch.nn.Linear(2, 2), x, {NAME: x, "b": -x}, ["pc"])
    assert harmless(str(found))
    assert harmless(str(found.evaluation))


def test_warnings_are_lines_too() -> None:
    with common._warnings_in_a_line():
        line = warnings.formatwarning("\x1bodd;\n  mend it.", UserWarning, "module.py", 1)
    assert line == "verax: warning: \\x1bodd; mend it.\n"
    assert "module.py" in warnings.formatwarning("odd", UserWarning, "module.py", 1)


def test_exhausted_memory_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(common.typer.Exit), common.one_line_errors():
        raise MemoryError
    assert capsys.readouterr().err == "verax: not enough memory; free some, or use a machine with more.\n"
