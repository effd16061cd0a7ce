"""Saved models: what goes in comes out bit by bit, and a file that is not what it says is refused with the reason."""

import hashlib
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

import verax
from verax.data.base import Dataset, Standardisation, fingerprint, make_split, standardise_columns
from verax.models import Architecture, ModelFileError, load, save
from verax.paper.models import MLP, InceptionV1, Linear
from verax.scoring.model_files import saved as model_files

SMALL = MLP(4, hidden=(5, 3))
Edit = Callable[[dict[str, Any]], Any]


def table() -> Dataset:
    generator = np.random.default_rng(0)
    inputs, labels = generator.normal(3, 2, (50, 4)), generator.integers(0, 2, 50)
    ids, split = tuple(f"row {row}" for row in range(50)), make_split(50, seed=3)
    names = tuple("abcd")
    standardisation = standardise_columns(inputs[split.train])
    digest = fingerprint(inputs, labels, ids)
    return Dataset("table", inputs, labels, ids, names, ("Good", "Bad"), split, standardisation, digest)


def images() -> Dataset:
    generator = np.random.default_rng(0)
    inputs, labels = generator.integers(0, 256, (20, 3, 8, 8), dtype=np.uint8), generator.integers(0, 2, 20)
    ids = tuple(map(str, range(20)))
    standardisation = Standardisation(torch.rand(3, 1, 1), torch.rand(3, 1, 1) + 0.1)
    digest = fingerprint(inputs, labels, ids)
    return Dataset("images", inputs, labels, ids, (), ("benign", "malignant"), make_split(20), standardisation, digest)


def write(path: Path, architecture: Architecture = SMALL, dataset: Dataset | None = None, **changes: Any) -> nn.Module:
    settings: dict[str, Any] = {"hyperparameters": {"epochs": 3}, "metrics": {"auroc": 0.75}, "seed": 5}
    network: nn.Module = changes.pop("module", None) or architecture.build(seed=1)
    save(path, network, architecture, dataset=dataset, **settings | changes)
    return network


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A small model, saved."""
    file = tmp_path / "model.safetensors"
    write(file, dataset=table())
    return file


@pytest.mark.parametrize(
    ("architecture", "dataset"),
    [(Linear(4), table()), (SMALL, table()), (InceptionV1(outputs=2, aux=True), images()), (Linear((3, 8, 8)), None)],
)
def test_a_round_trip_keeps_every_bit(architecture: Architecture, dataset: Dataset | None, tmp_path: Path) -> None:
    network = write(tmp_path / "model.safetensors", architecture, dataset)
    before = torch.get_rng_state()
    result = load(str(tmp_path / "model.safetensors"))
    assert torch.equal(torch.get_rng_state(), before)
    assert result.architecture == architecture
    assert not any(part.training for part in result.module.modules())
    assert all(value.requires_grad for value in result.module.parameters())
    expected, state = network.state_dict(), result.module.state_dict()
    assert list(state) == list(expected)
    assert all(
        torch.equal(state[name], expected[name]) and state[name].dtype == expected[name].dtype for name in expected
    )
    if dataset is None:
        assert (result.standardisation, result.class_names, result.feature_names) == (None, (), ())
    else:
        assert result.standardisation is not None
        assert torch.equal(result.standardisation.mean, dataset.standardisation.mean)
        assert torch.equal(result.standardisation.std, dataset.standardisation.std)
        assert (result.class_names, result.feature_names) == (dataset.class_names, dataset.feature_names)
        x, _ = dataset.part("test")
        assert torch.equal(result.module(x), network.eval()(x))


def test_a_loaded_model_trains_on(path: Path) -> None:
    module = load(path).module.train()
    before = module.fc.weight.clone()
    step = torch.optim.SGD(module.parameters(), lr=0.1)
    module(torch.randn(6, 4)).sum().backward()
    step.step()
    assert not torch.equal(module.fc.weight, before)
    write(path, module=module)
    assert torch.equal(load(path).module.fc.weight, module.fc.weight)


def test_the_sidecar_says_where_the_model_comes_from(path: Path) -> None:
    info, data = load(path).info, table()
    assert info == json.loads(path.with_suffix(".json").read_text())
    assert info["architecture"] == SMALL.form()
    assert (info["data"]["name"], info["data"]["fingerprint"]) == ("table", data.fingerprint)
    split = info["data"]["split"]
    assert split["seed"] == 3
    assert split["rows"] == {"train": 30, "validation": 10, "test": 10}
    assert split["shares"] == {"train": 0.6, "validation": 0.2, "test": 0.2}
    assert (info["hyperparameters"], info["metrics"], info["seed"]) == ({"epochs": 3}, {"auroc": 0.75}, 5)
    assert info["versions"]["verax"] == verax.__version__
    assert info["versions"]["torch"] == torch.__version__
    assert info["versions"]["python"].startswith("3.")
    assert info["weights"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_same_model_gives_the_same_files(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    write(other, dataset=table())
    assert other.read_bytes() == path.read_bytes()
    assert other.with_suffix(".json").read_bytes() == path.with_suffix(".json").read_bytes()


def test_double_precision_other_layouts_and_compiled_networks_are_kept(tmp_path: Path) -> None:
    file, architecture = tmp_path / "model.safetensors", InceptionV1()
    network = architecture.build().double().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    write(file, architecture, module=network)
    result = load(file).module.conv1.conv.weight
    assert result.dtype == torch.float64
    assert torch.equal(result, network.conv1.conv.weight)
    plain = SMALL.build()
    write(file, module=torch.compile(plain, backend="eager"))
    assert torch.equal(load(file).module.fc.weight, plain.fc.weight)


def test_numbers_of_numpy_and_torch_become_plain(path: Path) -> None:
    write(path, metrics={"auroc": np.float32(0.5), "loss": torch.tensor(2.0)}, hyperparameters={"steps": np.int64(3)})
    info = load(path).info
    assert (info["metrics"], info["hyperparameters"]) == ({"auroc": 0.5, "loss": 2.0}, {"steps": 3})


def reseal(path: Path, edit: Edit) -> None:
    """Edit the sidecar as someone would who knows its hash."""
    content = json.loads(path.with_suffix(".json").read_text())
    edit(content)
    content["sidecar_sha256"] = model_files._content_hash(content)
    path.with_suffix(".json").write_text(json.dumps(content))


def replace_weights(path: Path, data: bytes) -> None:
    """Put other weights in place, with their hash in the sidecar."""
    path.write_bytes(data)
    reseal(path, lambda c: c.update(weights={"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}))


def tensors(path: Path, edit: Edit) -> bytes:
    state = safetensors.torch.load(path.read_bytes())
    edit(state)
    return safetensors.torch.save(state)


def refused(path: Path, *reasons: str) -> None:
    with pytest.raises(ModelFileError) as error:
        load(path)
    for reason in (*reasons, str(path.parent)):
        assert reason in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing\.safetensors"):
        load(tmp_path / "nothing.safetensors")
    with pytest.raises(ValueError, match=r"ends in \.safetensors, got '.*model.pt'"):
        load(tmp_path / "model.pt")


def test_a_missing_sidecar_is_named(path: Path) -> None:
    path.with_suffix(".json").unlink()
    refused(path, "model.json: missing")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b'{"format": "verax mo', "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[1, 2]", "expected a JSON object"),
        (b"{}", "it lacks format, architecture, data"),
    ],
)
def test_a_sidecar_that_is_none_is_refused(path: Path, content: bytes, reason: str) -> None:
    path.with_suffix(".json").write_bytes(content)
    refused(path, "model.json", reason)


@pytest.mark.parametrize("key", model_files._KEYS)
def test_a_sidecar_that_lacks_a_key_is_refused(path: Path, key: str) -> None:
    content = json.loads(path.with_suffix(".json").read_text())
    del content[key]
    path.with_suffix(".json").write_text(json.dumps(content))
    refused(path, f"it lacks {key}.")


@pytest.mark.parametrize(
    "edit",
    [
        lambda c: c["metrics"].update(auroc=0.99),
        lambda c: c["data"]["standardisation"]["mean"].__setitem__(0, 0.0),
        lambda c: c["data"]["class_names"].reverse(),
        lambda c: c["weights"].update(sha256="0" * 64),
        lambda c: c.update(note="added"),
    ],
)
def test_an_edited_sidecar_is_noticed(path: Path, edit: Edit) -> None:
    content = json.loads(path.with_suffix(".json").read_text())
    edit(content)
    path.with_suffix(".json").write_text(json.dumps(content))
    refused(path, "model.json: changed since it was saved")


def test_another_layout_of_the_same_sidecar_is_accepted(path: Path) -> None:
    content = json.loads(path.with_suffix(".json").read_text())
    path.with_suffix(".json").write_text(json.dumps(dict(reversed(content.items()))))
    assert load(path).architecture == SMALL


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda c: c.update(format="verax model 2"), "expected the format 'verax model 1', got 'verax model 2'"),
        (lambda c: c["architecture"].update(name="ResNet"), "got 'ResNet'"),
        (lambda c: c["architecture"]["settings"].pop("hidden"), "MLP has the settings"),
        (lambda c: c["architecture"]["settings"].update(features="4"), "features: expected a whole number"),
        (lambda c: c.update(architecture="MLP"), "expected a name and settings"),
        (lambda c: c["data"].pop("standardisation"), "standardisation"),
        (lambda c: c["data"]["standardisation"].update(mean=["a"]), "model.json: does not describe"),
        (lambda c: c["data"].update(class_names=[1, 2]), "class_names"),
        (lambda c: c.update(data=[]), "data: expected"),
        (lambda c: c.update(weights=None), "weights: expected"),
    ],
)
def test_a_sidecar_that_cannot_be_true_is_refused(
    path: Path, edit: Edit, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # the code must find it, not the type checker
    reseal(path, edit)
    refused(path, "model.json", reason)


def test_other_weights_than_those_saved_are_refused(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    refused(path, "its hash is not the one saved")
    path.write_bytes(data + b"more")
    refused(path, "is another file")


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_truncated_weights_are_refused(path: Path, keep: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:keep])
    refused(path, "bytes" if keep in (0, 5) else "truncated")
    replace_weights(path, data[:keep])
    refused(path, "safetensors file")


def test_a_pickle_is_refused_and_not_run(path: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "ran"),)

    for data in (pickle.dumps(Trap()), b"PK\x03\x04 an archive of torch.save"):
        replace_weights(path, data)
        refused(path, "model.safetensors: not a safetensors file", "nothing is unpickled")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "data", [b"\0" * 64, b"not a model at all", (2).to_bytes(8, "little") + b"{x", b"\x02" + b"\0" * 7 + b"{}"]
)
def test_anything_else_is_refused(path: Path, data: bytes) -> None:
    replace_weights(path, data)
    refused(path, "model.safetensors: not")


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda s: s.pop("norm1.bias"), "1 tensors are missing, the first is norm1.bias"),
        (lambda s: s.update(extra=torch.zeros(1)), "1 tensors are unknown, the first is extra"),
        (lambda s: s.update({"fc.weight": torch.zeros(1, 4)}), "fc.weight: expected shape (1, 3), got (1, 4)"),
        (lambda s: s.update({"fc.weight": torch.zeros(1, 3, dtype=torch.int32)}), "fc.weight: expected numbers like"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(path: Path, edit: Edit, reason: str) -> None:
    replace_weights(path, tensors(path, edit))
    refused(path, "model.safetensors: not the weights of MLP(", reason)


def test_a_network_of_another_architecture_is_not_saved(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    with pytest.raises(ValueError, match=r"module: not what MLP\(.* builds: .* are missing, the first is linear1"):
        write(file, module=Linear(4).build())
    with pytest.raises(TypeError, match="architecture: expected one of Linear, MLP, InceptionV1"):
        write(file, type("Other", (Linear,), {})(4))
    for changes in ({"metrics": {"auroc": float("nan")}}, {"hyperparameters": {"step": object()}}):
        with pytest.raises(ValueError, match="hyperparameters, metrics: expected finite numbers and JSON values"):
            write(file, **changes)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failing", [0, 1])
def test_a_save_that_breaks_off_leaves_no_half_file(path: Path, failing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    syncs: list[int] = []

    def fsync(number: int) -> None:
        syncs.append(number)
        if len(syncs) > failing:
            raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="no space left"):
        write(path, module=SMALL.build(seed=2))
    after = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    assert set(after) == set(before)
    assert after["model.json"] == before["model.json"]
    if failing == 0:
        assert after == before
    else:  # weights and sidecar are of two models, which is noticed
        refused(path, "its hash is not the one saved")
