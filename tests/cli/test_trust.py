"""Which model files are opened: a ``.pt2`` file is code, and needs a word of trust."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from verax.cli import app
from verax.datasets import load_breast_cancer
from verax.models import save
from verax.paper.models import Linear

RUN = CliRunner()
X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    batch = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(torch.nn.Linear(4, 2), (torch.tensor(X[:3]),), dynamic_shapes=batch)
    torch.export.save(program, tmp_path / "m.pt2")
    np.save(tmp_path / "x.npy", X)
    return tmp_path


def evil(folder: Path) -> Path:
    """A file that makes another one when torch reads the size of its batch."""
    mark = folder / "ran"
    code = f"__import__('pathlib').Path({str(mark)!r}).touch() or Symbol('s0')"
    with zipfile.ZipFile(folder / "m.pt2") as old, zipfile.ZipFile(folder / "evil.pt2", "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename.endswith("models/model.json"):
                content = json.dumps(_with_code(json.loads(content), code)).encode()
            new.writestr(entry, content)
    return mark


def _with_code(value: object, code: str) -> object:
    if isinstance(value, dict):
        return {key: code if key == "expr_str" else _with_code(entry, code) for key, entry in value.items()}
    return [_with_code(entry, code) for entry in value] if isinstance(value, list) else value


def command(name: str, folder: Path, model: str) -> list[str]:
    files = [name, "--model", str(folder / model), "--inputs", str(folder / "x.npy")]
    return files + (["--attributions", str(folder / "x.npy")] if name == "evaluate" else ["--methods", "gradient"])


@pytest.mark.parametrize("name", ["evaluate", "tune"])
def test_a_pt2_file_is_not_opened_without_trust(name: str, folder: Path) -> None:
    mark = evil(folder)
    found = RUN.invoke(app, command(name, folder, "evil.pt2"))
    assert found.exit_code == 2
    assert found.stderr.count("\n") == 1
    assert found.stderr.startswith(f"verax: --model: {folder}/evil.pt2 is not opened")
    for word in ("--trust-model", ".onnx", ".safetensors"):
        assert word in found.stderr
    assert not mark.exists()


@pytest.mark.parametrize("name", ["evaluate", "tune"])
def test_with_trust_it_is(name: str, folder: Path) -> None:
    extra = ["--trials", "1"] if name == "tune" else ["--metric", "pc"]
    found = RUN.invoke(app, [*command(name, folder, "m.pt2"), "--trust-model", *extra])
    assert found.exit_code == 0, found.stderr


def test_why_trust_is_asked_for(folder: Path) -> None:
    """Such a file does run code: should torch mend that one day, the question can go."""
    mark = evil(folder)
    RUN.invoke(app, [*command("evaluate", folder, "evil.pt2"), "--trust-model"])
    assert mark.exists()


def test_a_damaged_archive_is_told_in_a_line(folder: Path) -> None:
    content = (folder / "m.pt2").read_bytes()
    for end in (10, len(content) // 2, len(content) - 30):
        (folder / "cut.pt2").write_bytes(content[:end])
        found = RUN.invoke(app, [*command("evaluate", folder, "cut.pt2"), "--trust-model"])
        assert found.exit_code == 2
        assert found.stderr.startswith(f"verax: --model: {folder}/cut.pt2: cannot be opened as program of torch.export")
        assert found.stderr.count("\n") == 1


def test_targets_may_be_labels(tmp_path: Path) -> None:
    data = load_breast_cancer()
    shape = len(data.feature_names)
    save(
        tmp_path / "m.safetensors",
        Linear(shape).build(seed=0),
        Linear(shape),
        dataset=data,
        hyperparameters={},
        metrics={},
        seed=0,
    )
    x = data.part("test", 4)[0].numpy()
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "t.csv").write_text("class\nmalignant\nbenign\nbenign\nmalignant\n")
    np.save(tmp_path / "t.npy", np.array([1, 0, 0, 1]))

    def told(target: str) -> dict[str, object]:
        found = RUN.invoke(
            app, [*command("evaluate", tmp_path, "m.safetensors"), "--metric", "pc", "--json", "--target", target]
        )
        assert found.exit_code == 0, found.stderr
        facts = dict(json.loads(found.stdout))
        assert facts.pop("seconds") > 0
        return facts

    assert told("malignant") == told("1") == told("label:malignant") != told("benign")
    assert told(f"{tmp_path}/t.csv") == told(f"{tmp_path}/t.npy")
    found = RUN.invoke(app, [*command("evaluate", tmp_path, "m.safetensors"), "--target", "bad"])
    assert "the model has no label 'bad'; its labels are benign, malignant" in found.stderr
