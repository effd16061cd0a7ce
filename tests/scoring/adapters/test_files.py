"""Models given as paths: what is data, what is code, and what archives of ``torch.export`` may hold."""

import contextlib
import json
import re
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

import calls
import verax

ROWS = ({0: torch.export.Dim("batch")},)


def saved(path, module=None, rows=ROWS, example=None):
    torch.manual_seed(0)
    module = module or nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    example = torch.randn(3, 4) if example is None else example
    torch.export.save(torch.export.export(module, (example,), dynamic_shapes=rows), path)
    return module


def trusted(path, **settings):
    return verax.Scorer(path, trust=True, **settings)


def rewritten(source, target, replaced):
    """A copy of an archive with other contents for some members, by the end of their names."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            ours = [content for end, content in replaced.items() if name.endswith(end)]
            new.writestr(name, ours[0] if ours else old.read(name))
    return target


def test_an_archive_scores_as_its_module_does(tmp_path):
    module = saved(tmp_path / "model.pt2")
    x, a = torch.randn(2, 9, 4)
    for path in (tmp_path / "model.pt2", str(tmp_path / "model.pt2")):
        outcome = calls.evaluate(trusted(path), x, a, samples=20)
        for name, result in calls.evaluate(module, x, a, samples=20).items():
            torch.testing.assert_close(outcome[name].value, result.value)


def test_an_archive_may_return_probabilities(tmp_path):
    module = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
    saved(tmp_path / "model.pt2", module)
    x, a = torch.randn(2, 9, 4)
    result = calls.prediction_change(trusted(tmp_path / "model.pt2", returns="probabilities"), x, a).value
    torch.testing.assert_close(result, calls.prediction_change(module[0], x, a).value)


def test_gradient_methods_see_through_an_archive_or_refuse_it(tmp_path):
    module = saved(tmp_path / "model.pt2")
    x, archive = torch.randn(9, 4), trusted(tmp_path / "model.pt2")
    for method in (verax.attribution.GuidedBackprop(), verax.attribution.IntegratedGradients()):
        torch.testing.assert_close(*(method(verax.Problem(each, x, background=x)) for each in (archive, module)))
    with pytest.raises(ValueError, match="model: DeepLiftSHAP's contributions miss"):
        verax.attribution.DeepLiftSHAP()(verax.Problem(archive, x, background=x))


def test_an_archive_for_one_number_of_rows(tmp_path):
    saved(tmp_path / "model.pt2", rows=None)
    with pytest.raises(ValueError, match=r"model: .*model\.pt2 takes batches of exactly 3 rows; .*dynamic_shapes"):
        trusted(tmp_path / "model.pt2")


def test_a_program_with_two_inputs():
    program = torch.export.export(nn.Bilinear(4, 4, 2), (torch.randn(3, 4), torch.randn(3, 4)))
    with pytest.raises(ValueError, match=r"model: the exported program takes 2 inputs .*; expected one"):
        verax.Scorer(program)


def trapped(folder):
    """An archive that runs code when torch opens it: a size is an expression, and torch evaluates it as Python."""
    saved(folder / "good.pt2")
    with zipfile.ZipFile(folder / "good.pt2") as archive:
        (member,) = (name for name in archive.namelist() if name.endswith("models/model.json"))
        content = archive.read(member).decode()
    code = f"__import__('os').mkdir('{folder / 'trap'}')"
    content = re.sub(r'("expr_str": )"[^"]*"', lambda result: result[1] + json.dumps(code), content)
    return rewritten(folder / "good.pt2", folder / "bad.pt2", {"models/model.json": content})


ENTRIES = {
    "Problem": verax.Problem,
    "Problem, path as text": lambda path, x: verax.Problem(str(path), x),
    "Scorer": lambda path, x: verax.Scorer(path),
}


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_an_archive_is_code_and_not_opened_without_trust(tmp_path, entry):
    bad = trapped(tmp_path)
    with pytest.raises(ValueError, match=r"model: .*bad\.pt2 is not opened: .* run any code .*trust=True.*ONNX.*saf"):
        entry(bad, torch.randn(9, 4))
    assert not (tmp_path / "trap").exists()


def test_the_trap_is_one(tmp_path):
    """What is refused above would have run, so trust is what decides."""
    bad = trapped(tmp_path)
    with contextlib.suppress(ValueError):  # torch finds out afterwards that this is no size
        trusted(bad)
    assert (tmp_path / "trap").exists()


def test_an_honest_copy_still_loads(tmp_path):
    saved(tmp_path / "good.pt2")
    copy = rewritten(tmp_path / "good.pt2", tmp_path / "copy.pt2", {})
    x, a = np.random.default_rng(0).normal(size=(2, 5, 4))
    result = calls.prediction_change(trusted(copy), x, a).value
    np.testing.assert_array_equal(result, calls.prediction_change(trusted(tmp_path / "good.pt2"), x, a).value)


@pytest.mark.parametrize(
    "content", [b"", b"this is no archive", b"PK\x05\x06" + b"\0" * 18], ids=["empty", "text", "zip"]
)
def test_damaged_archives(tmp_path, content, capfd):
    path = tmp_path / "model.pt2"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"model: .*model\.pt2 is no archive of torch.export"):
        trusted(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("content", [b'{"graph_module": ', b"", b"{}", b"[]", b"\xff\xfe"], ids=repr)
def test_a_cut_archive(tmp_path, content):
    saved(tmp_path / "good.pt2")
    path = rewritten(tmp_path / "good.pt2", tmp_path / "cut.pt2", {"models/model.json": content})
    with pytest.raises(ValueError, match=r"model: .*cut\.pt2 cannot be read as an archive of torch.export"):
        trusted(path)


@pytest.mark.parametrize("name", ["model.onnx", "model.pt2"])
def test_a_missing_file(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=f"model: there is no file .*{name}"):
        verax.Scorer(tmp_path / name)


@pytest.mark.parametrize("name", ["model.pt", "model.pkl", "model.joblib", "model", "model.safetensors"])
def test_other_files(tmp_path, name):
    with pytest.raises(ValueError, match=rf"model: expected a path to a \.onnx or \.pt2 file, got .*{name}"):
        verax.Scorer(tmp_path / name, trust=True)


def test_a_program_exported_in_training_mode_is_refused(tmp_path):
    x = torch.randn(3, 4)
    for layer in (nn.Dropout(0.5), nn.BatchNorm1d(3)):
        network = nn.Sequential(nn.Linear(4, 3), layer)
        program = torch.export.export(network.train(), (x,), dynamic_shapes=ROWS)
        for model in (program, program.module()):
            with pytest.raises(ValueError, match=r"exported in training mode .*model\.eval\(\)"):
                verax.Scorer(model)
        verax.Scorer(torch.export.export(network.eval(), (x,), dynamic_shapes=ROWS))
