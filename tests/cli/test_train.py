"""The command line as a person uses it: help, training, going on after an interruption, and wrong arguments."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import verax
from verax.cli import app
from verax.datasets import load_breast_cancer

RUN = CliRunner()


def test_version_and_help() -> None:
    assert RUN.invoke(app, ["--version"]).output == f"verax {verax.__version__}\n"
    assert "train" in RUN.invoke(app, ["--help"]).output


def test_train_saves_a_model_that_can_be_loaded(tmp_path: Path) -> None:
    out = tmp_path / "model.safetensors"
    settings = ["--recipe", "balanced", "--epochs", "5", "--device", "cpu"]
    found = RUN.invoke(app, ["train", "breast-cancer", "linear", "--out", str(out), *settings])
    assert found.exit_code == 0, found.output
    assert "test: AUROC" in found.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "model.safetensors"]
    saved = verax.models.load(out)
    assert saved.info["hyperparameters"]["recipe"] == "balanced"
    inputs, labels = load_breast_cancer().part("test")
    accuracy = float(((saved.module(inputs)[:, 0] > 0) == (labels == 1)).float().mean())
    assert accuracy == pytest.approx(json.loads((tmp_path / "model.json").read_text())["metrics"]["test"]["accuracy"])


def test_train_learns_a_column_of_a_file(tmp_path: Path) -> None:
    rows = "".join(f"{row},{'ab'[row % 2]},{row * 0.5}\n" for row in range(40))
    (tmp_path / "own.csv").write_text(f"size,kind,price\n{rows}")
    out = str(tmp_path / "model.safetensors")
    command = ["train", "file", "linear", "--data", str(tmp_path / "own.csv"), "--epochs", "2", "--out", out]
    found = RUN.invoke(app, [*command, "--device", "cpu", "--label", "price"])
    assert found.exit_code == 0, found.output
    assert "test: R^2 " in found.output
    saved = verax.models.load(out)
    assert (saved.returns, saved.feature_names) == ("values", ("size", "kind = a", "kind = b"))
    refused = RUN.invoke(app, [*command, "--label", "prize"])
    assert refused.exit_code == 2
    assert "label: expected size, kind or price, got 'prize'; did you mean 'price'?" in refused.output


def test_train_goes_on_after_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["train", "breast-cancer", "mlp", "--epochs", "4", "--device", "cpu", "--out"]
    assert RUN.invoke(app, [*command, str(tmp_path / "whole.safetensors")]).exit_code == 0

    def stop(epoch: object, epochs: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("verax.cli.train._show", stop)
        assert RUN.invoke(app, [*command, str(tmp_path / "cut.safetensors")]).exit_code != 0
    assert (tmp_path / "cut.checkpoint").exists()
    assert RUN.invoke(app, [*command, str(tmp_path / "cut.safetensors")]).exit_code == 0
    assert not (tmp_path / "cut.checkpoint").exists()
    whole, cut = (verax.models.load(tmp_path / f"{name}.safetensors").module for name in ("whole", "cut"))
    for one, other in zip(whole.state_dict().values(), cut.state_dict().values(), strict=True):
        assert torch.equal(one, other)


WRONG = {
    "no such file": (["heloc", "linear", "--data", "nowhere.csv"], "nowhere.csv"),
    "images without a folder": (["isic", "linear"], "--data: isic needs one; pass --data PATH"),
    "data that is not wanted": (["digits", "linear", "--data", "x"], "--data: digits takes none"),
    "a table for an image model": (["heloc", "inception"], "there is no recipe for inception on heloc"),
    "a label that is not wanted": (["digits", "linear", "--label", "x"], "label: digits says itself"),
    "a file without a path": (["file", "linear"], "--data: file needs one"),
    "a recipe for others": (["digits", "linear", "--recipe", "less-regularised"], "less-regularised is for mlp"),
    "no such recipe": (["digits", "linear", "--recipe", "loose"], "recipe: expected one of 'less-regularised'"),
    "no epochs": (["breast-cancer", "linear", "--epochs", "0"], "epochs: expected a whole number of at least 1"),
    "an unknown device": (["breast-cancer", "linear", "--device", "abacus"], "device: expected a torch device"),
    "a missing start": (["breast-cancer", "linear", "--init", "none.safetensors"], "none.safetensors"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_arguments_are_one_line_and_write_nothing(arguments: list[str], message: str, tmp_path: Path) -> None:
    found = RUN.invoke(app, ["train", *arguments, "--out", str(tmp_path / "model.safetensors")])
    assert found.exit_code == 2
    assert message in found.stderr
    assert found.stderr.count("\n") == 1
    assert "Traceback" not in found.output
    assert not list(tmp_path.iterdir())
