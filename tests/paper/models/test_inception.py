"""InceptionV1: the names, shapes and logits of torchvision's googlenet, its checkpoints, and images of any size."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from attribution.networks import rows
from verax.paper.models import InceptionOutputs, InceptionV1, load_googlenet_state

SCRIPT = Path(__file__).parents[3] / "scripts" / "make_inception_vector.py"
CASES = json.loads(Path(__file__).with_name("inception_vector.json").read_text())["cases"]
# Channels in, then filters: 1x1, reduction, 3x3, reduction, 3x3, projection; written out from the published network.
BLOCKS = """
    3a 192 64 96 128 16 32 32
    3b 256 128 128 192 32 96 64
    4a 480 192 96 208 16 48 64
    4b 512 160 112 224 24 64 64
    4c 512 128 128 256 24 64 64
    4d 512 112 144 288 32 64 64
    4e 528 256 160 320 32 128 128
    5a 832 256 160 320 32 128 128
    5b 832 384 192 384 48 128 128
"""


def convolution(name: str, channels: int, filters: int, size: int) -> dict[str, tuple[int, ...]]:
    norm = {f"{name}.bn.{part}": (filters,) for part in ("weight", "bias", "running_mean", "running_var")}
    return {f"{name}.conv.weight": (filters, channels, size, size), **norm, f"{name}.bn.num_batches_tracked": ()}


def linear(name: str, before: int, after: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (after, before), f"{name}.bias": (after,)}


def published(classes: int, aux: bool) -> dict[str, tuple[int, ...]]:
    """Names and shapes of torchvision's state dict, in its order."""
    found = convolution("conv1", 3, 64, 7) | convolution("conv2", 64, 64, 1) | convolution("conv3", 64, 192, 3)
    for line in BLOCKS.strip().splitlines():
        block, *numbers = line.split()
        name, (before, a, b, c, d, e, f) = f"inception{block}", map(int, numbers)
        found |= convolution(f"{name}.branch1", before, a, 1)
        found |= convolution(f"{name}.branch2.0", before, b, 1) | convolution(f"{name}.branch2.1", b, c, 3)
        found |= convolution(f"{name}.branch3.0", before, d, 1) | convolution(f"{name}.branch3.1", d, e, 3)
        found |= convolution(f"{name}.branch4.1", before, f, 1)
    for head, before in (("aux1", 512), ("aux2", 528)) if aux else ():
        found |= convolution(f"{head}.conv", before, 128, 1)
        found |= linear(f"{head}.fc1", 2048, 1024) | linear(f"{head}.fc2", 1024, classes)
    return found | linear("fc", 1024, classes)


@pytest.mark.parametrize(("aux", "count"), [(False, 6_624_904), (True, 13_004_888)])
def test_names_shapes_and_order_are_torchvisions(aux: bool, count: int) -> None:
    network = InceptionV1(outputs=1000, aux=aux).blank()
    found = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    assert list(found.items()) == list(published(1000, aux).items())
    assert sum(value.numel() for value in network.parameters()) == count


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The project's script that made the vector, which holds the formula of the weights."""
    spec = importlib.util.spec_from_file_location("make_inception_vector", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_vector_is_that_of_the_script(script: ModuleType) -> None:
    assert [(tuple(case["shape"]), case["outputs"]) for case in CASES] == list(script.CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "x".join(map(str, case["shape"])))
def test_logits_equal_the_committed_vector(case: dict[str, object], script: ModuleType) -> None:
    network, wanted = script.ours(case["outputs"]), torch.tensor(case["logits"], dtype=torch.float64)
    shape = tuple(case["shape"])  # type: ignore[arg-type]
    torch.testing.assert_close(script.logits(network, shape), wanted, rtol=0, atol=1e-9)
    torch.testing.assert_close(script.logits(network, shape, torch.float32), wanted, rtol=0, atol=1e-5)


def test_logits_equal_torchvisions(script: ModuleType) -> None:
    package = script.torchvision()
    if package is None:
        pytest.skip("torchvision cannot be imported here; the committed vector stands for it")
    assert max(script.differences(package).values()) <= 1e-5


@pytest.mark.parametrize("size", [(1, 1), (2, 9), (8, 8), (15, 15), (28, 28), (64, 64), (224, 224)])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_any_size_and_number_of_channels(channels: int, size: tuple[int, int]) -> None:
    network = InceptionV1(channels=channels, outputs=2).build(seed=0).eval()
    x = rows(2, channels, *size)
    found = network(x)
    assert found.shape == (2, 2)
    assert torch.isfinite(found).all()
    assert not torch.equal(found[0], found[1])


def test_padding_of_single_pixels_changes_no_value() -> None:
    """What the pools give is the maximum of what is there."""
    network = InceptionV1(channels=1).build(seed=0).eval()
    seen: list[Tensor] = []
    network.inception3b.register_forward_hook(lambda part, inputs, output: seen.append(output))
    network.inception4a.register_forward_pre_hook(lambda part, inputs: seen.append(inputs[0]))
    network(rows(2, 1, 8, 8))
    assert seen[0].shape[-2:] == (1, 1)
    assert torch.equal(seen[0], seen[1])


def test_auxiliary_heads_speak_in_training_only() -> None:
    network, x = InceptionV1(channels=1, outputs=3, aux=True).build(seed=0), rows(4, 1, 8, 8)
    found = network.train()(x)
    assert isinstance(found, InceptionOutputs)
    assert [value.shape for value in found] == [(4, 3)] * 3
    sum(value.square().sum() for value in found).backward()
    assert all(value.grad is not None for value in network.parameters())
    assert isinstance(network.eval()(x), Tensor)


def changed(network: nn.Module) -> dict[str, Tensor]:
    return {name: value + 1 for name, value in network.state_dict().items()}


@pytest.mark.parametrize("own_aux", [False, True])
@pytest.mark.parametrize("given_aux", [False, True])
@pytest.mark.parametrize("classes", [2, 7])
def test_checkpoints_with_and_without_heads_load(own_aux: bool, given_aux: bool, classes: int) -> None:
    network = InceptionV1(outputs=2, aux=own_aux).build(seed=0)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    state = changed(InceptionV1(outputs=classes, aux=given_aux).build(seed=1))
    loaded = load_googlenet_state(network, state)
    heads = ["fc"] if classes != 2 else []
    heads += ["aux1.fc2", "aux2.fc2"] if classes != 2 and own_aux and given_aux else []
    left = {f"{head}.{part}" for head in heads for part in ("weight", "bias")}
    if own_aux and not given_aux:
        left |= {name for name in before if name.startswith("aux") and not name.endswith("num_batches_tracked")}
    assert set(loaded.left) == left
    for name, value in network.state_dict().items():
        kept = name in left or name not in state
        assert torch.equal(value, before[name] if kept else state[name]), name
    assert set(loaded.unused) == {name for name in state if name not in before or name in left}
    assert ("fc.weight" in str(loaded)) == (classes != 2)


def test_a_checkpoint_that_does_not_count_batches_loads() -> None:
    network = InceptionV1().build(seed=0)
    state = {name: value for name, value in changed(network).items() if not name.endswith("num_batches_tracked")}
    assert load_googlenet_state(network, state).left == ()
    assert torch.equal(network.conv1.bn.bias, torch.ones(64))


def test_a_checkpoint_of_something_else_is_refused_and_nothing_loaded() -> None:
    network = InceptionV1(channels=1).build(seed=0)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    fitting = changed(network)
    lacking = {name: value for name, value in fitting.items() if not name.startswith("conv2.")}
    for state, message in (
        (lacking, "lacks conv2.conv.weight, conv2.bn.weight, conv2.bn.bias and 2 more"),
        (fitting | {"layer1.weight": torch.zeros(1)}, "has beyond these layer1.weight"),
        ({"conv1.weight": torch.zeros(1)}, "not a checkpoint of googlenet"),
        (
            InceptionV1().build().state_dict(),
            r"conv1.conv.weight: expected shape \(64, 1, 7, 7\), got \(64, 3, 7, 7\)",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            load_googlenet_state(network, state)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
