"""Models given as paths, and what archives of ``torch.export`` may hold."""

import os
import pickle
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

import verax

ROWS = ({0: torch.export.Dim("batch")},)


def saved(path, module=None, rows=ROWS, example=None):
    torch.manual_seed(0)
    module = module or nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    example = torch.randn(3, 4) if example is None else example
    torch.export.save(torch.export.export(module, (example,), dynamic_shapes=rows), path)
    return module


def rewritten(source, target, replaced):
    """A copy of an archive with other contents for some members, by the end of their names."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            ours = [content for end, content in replaced.items() if name.endswith(end)]
            new.writestr(name, ours[0] if ours else old.read(name))
        root = old.namelist()[0].split("/")[0]
        for name, content in replaced.items():
            if name.startswith("+"):
                new.writestr(f"{root}/{name[1:]}", content)
    return target


def test_an_archive_scores_as_its_module_does(tmp_path):
    module = saved(tmp_path / "model.pt2")
    x, a = torch.randn(2, 9, 4)
    for path in (tmp_path / "model.pt2", str(tmp_path / "model.pt2")):
        found = verax.evaluate(path, x, a, samples=5)
        for name, result in verax.evaluate(module, x, a, samples=5).items():
            torch.testing.assert_close(found[name].value, result.value)


def test_an_archive_may_return_probabilities(tmp_path):
    module = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
    saved(tmp_path / "model.pt2", module)
    x, a = torch.randn(2, 9, 4)
    found = verax.prediction_change(verax.Scorer(tmp_path / "model.pt2", returns="probabilities"), x, a).value
    torch.testing.assert_close(found, verax.prediction_change(module[0], x, a).value)


def test_gradient_methods_see_through_an_archive_or_refuse_it(tmp_path):
    module = saved(tmp_path / "model.pt2")
    x = torch.randn(9, 4)
    for method in (verax.attribution.GuidedBackprop(), verax.attribution.IntegratedGradients()):
        torch.testing.assert_close(method(tmp_path / "model.pt2", x, background=x), method(module, x, background=x))
    with pytest.raises(ValueError, match="model: DeepLiftSHAP's contributions miss"):
        verax.attribution.DeepLiftSHAP()(tmp_path / "model.pt2", x, background=x)


def test_an_archive_for_one_number_of_rows(tmp_path):
    saved(tmp_path / "model.pt2", rows=None)
    with pytest.raises(ValueError, match=r"model: .*model\.pt2 takes batches of exactly 3 rows; .*dynamic_shapes"):
        verax.Scorer(tmp_path / "model.pt2")


def test_a_program_with_two_inputs():
    program = torch.export.export(nn.Bilinear(4, 4, 2), (torch.randn(3, 4), torch.randn(3, 4)))
    with pytest.raises(ValueError, match=r"model: the exported program takes 2 inputs .*; wanted is one"):
        verax.Scorer(program)


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_pickled_objects_in_an_archive_are_not_run(tmp_path):
    saved(tmp_path / "good.pt2")
    trap = tmp_path / "trap"
    torch.save((Trap(trap),), tmp_path / "inputs.pt")
    content = (tmp_path / "inputs.pt").read_bytes()
    bad = rewritten(tmp_path / "good.pt2", tmp_path / "bad.pt2", {"sample_inputs/model.pt": content})
    with pytest.raises(ValueError, match=r"model: .*bad\.pt2 cannot be read"):
        verax.Scorer(bad)
    assert not trap.exists()
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ
    torch.load(tmp_path / "inputs.pt", weights_only=False)  # what torch.export.load falls back to by itself
    assert trap.exists()


@pytest.mark.parametrize("name", ["constants/opaque_obj_0", "constants/custom_obj_0", "aotinductor/model/a.so"])
def test_archives_with_objects_or_compiled_code_are_refused(tmp_path, name):
    saved(tmp_path / "good.pt2")
    content = pickle.dumps(Trap(tmp_path / "trap"))
    bad = rewritten(tmp_path / "good.pt2", tmp_path / "bad.pt2", {f"+data/{name}": content})
    with pytest.raises(ValueError, match="holds pickled objects or compiled code"):
        verax.Scorer(bad)
    assert not (tmp_path / "trap").exists()


def test_an_honest_copy_still_loads(tmp_path):
    """The copies above are refused for what they hold, not for being copies."""
    saved(tmp_path / "good.pt2")
    copy = rewritten(tmp_path / "good.pt2", tmp_path / "copy.pt2", {})
    x, a = np.random.default_rng(0).normal(size=(2, 5, 4))
    found = verax.prediction_change(copy, x, a).value
    np.testing.assert_array_equal(found, verax.prediction_change(tmp_path / "good.pt2", x, a).value)


@pytest.mark.parametrize(
    "content", [b"", b"this is no archive", b"PK\x05\x06" + b"\0" * 18], ids=["empty", "text", "zip"]
)
def test_damaged_archives(tmp_path, content, capfd):
    path = tmp_path / "model.pt2"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"model: .*model\.pt2 is no archive of torch.export"):
        verax.Scorer(path)
    assert capfd.readouterr() == ("", "")


def test_a_cut_archive(tmp_path):
    saved(tmp_path / "good.pt2")
    path = rewritten(tmp_path / "good.pt2", tmp_path / "cut.pt2", {"models/model.json": b'{"graph_module": '})
    with pytest.raises(ValueError, match=r"model: .*cut\.pt2 cannot be read as an archive of torch.export"):
        verax.Scorer(path)


@pytest.mark.parametrize("name", ["model.onnx", "model.pt2"])
def test_a_missing_file(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=f"model: there is no file .*{name}"):
        verax.Scorer(tmp_path / name)


@pytest.mark.parametrize("name", ["model.pt", "model.pkl", "model", "model.safetensors"])
def test_other_files(tmp_path, name):
    with pytest.raises(ValueError, match=rf"model: expected a path to a \.onnx or \.pt2 file, found .*{name}"):
        verax.Scorer(tmp_path / name)
