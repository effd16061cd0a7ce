"""Linear model and perceptron: parts, seeds, settings, and the methods that work through hooks."""

import dataclasses
from collections import Counter
from typing import Any

import captum.attr
import jaxtyping
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import verax
from attribution.networks import rows
from calls import attribute
from verax.attribution import DeepLiftSHAP, Gradient, GuidedBackprop
from verax.models import Architecture
from verax.paper.models import MLP, InceptionV1, Linear
from verax.scoring.model_files.saved import from_form, initialise

ALL = {
    "linear": (Linear(6), (6,)),
    "linear on images": (Linear((3, 4, 5), outputs=2), (3, 4, 5)),
    "perceptron": (MLP(6), (6,)),
    "perceptron without dropout": (MLP(6, hidden=[16, 12], dropout=0.0, outputs=3), (6,)),
    "perceptron without hidden layers": (MLP(6, hidden=()), (6,)),
    "inception": (InceptionV1(channels=1, outputs=2), (1, 8, 8)),
    "inception on larger images": (InceptionV1(), (3, 33, 40)),
}
WIDTHS = (32, 128, 256, 128, 256, 128, 32)
cases = pytest.mark.parametrize("name", ALL)


def drawn(architecture: Architecture, seed: int = 0) -> nn.Module:
    """A network in which batch norms do something, as after training."""
    network = architecture.build(seed)
    generator = torch.Generator().manual_seed(seed)
    for part in network.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            for tensor, least in ((part.weight, 0.5), (part.bias, -0.5), (part.running_mean, -0.5)):
                assert tensor is not None
                tensor.data.uniform_(least, least + 1, generator=generator)
    return network


@pytest.fixture
def any_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the tests' type checker, as users run it."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@cases
def test_logits_have_one_column_per_output(name: str) -> None:
    architecture, shape = ALL[name]
    found = architecture.build(seed=0).eval()(rows(3, *shape))
    assert found.shape == (3, architecture.outputs)
    assert found.dtype == torch.float32
    assert torch.isfinite(found).all()


@cases
def test_a_seed_decides_the_weights_and_leaves_the_global_state_alone(name: str) -> None:
    architecture, _ = ALL[name]
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = architecture.build(seed=7).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    second, other = architecture.build(seed=7).state_dict(), architecture.build(seed=8).state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert not torch.equal(first["fc.weight"], other["fc.weight"])


def test_weights_have_the_spread_of_their_rule() -> None:
    network = InceptionV1(outputs=1000).build(seed=0)
    for part, wanted in ((network.conv3.conv, (2 / 576) ** 0.5), (network.fc, (3 * 1024) ** -0.5)):
        assert part.weight.std().item() == pytest.approx(wanted, rel=0.02)
        assert abs(part.weight.mean().item()) < 0.02 * wanted
    assert network.conv3.bn.weight.eq(1).all()
    assert network.conv3.bn.running_var.eq(1).all()
    assert network.conv3.bn.running_mean.eq(0).all()


@pytest.mark.usefixtures("any_types")
def test_any_whole_number_is_a_seed() -> None:
    found = [Linear(3).build(seed)[1].weight for seed in (-1, 0, 2**70 + 1, np.int64(0))]
    assert torch.equal(found[1], found[3])
    assert len({tuple(one.flatten().tolist()) for one in found}) == 3
    with pytest.raises(ValueError, match="seed: expected a whole number"):
        Linear(3).build(1.5)  # type: ignore[arg-type]


def test_parameter_counts() -> None:
    def count(architecture: Architecture) -> int:
        return sum(value.numel() for value in architecture.build().parameters())

    steps = list(zip((20, *WIDTHS[:-1]), WIDTHS, strict=True))
    assert count(Linear(20)) == 21
    assert count(Linear((3, 224, 224))) == 3 * 224 * 224 + 1
    assert count(MLP(20)) == sum(before * after + 3 * after for before, after in steps) + 33


def test_the_perceptron_is_made_of_the_parts_in_order() -> None:
    kinds = [type(part) for part in MLP(20).build()]
    assert kinds == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Dropout] * 7 + [nn.Linear]
    widths = [part.out_features for part in MLP(20).build() if isinstance(part, nn.Linear)]
    assert widths == [*WIDTHS, 1]
    assert {part.p for part in MLP(20, dropout=0.3).build() if isinstance(part, nn.Dropout)} == {0.3}


def test_the_linear_model_is_a_weighted_sum() -> None:
    network, x = Linear((2, 3, 4)).build(seed=0), rows(5, 2, 3, 4)
    wanted = (x * network.fc.weight.reshape(2, 3, 4)).sum((1, 2, 3)) + network.fc.bias
    torch.testing.assert_close(network(x)[:, 0], wanted)


@cases
def test_every_relu_is_a_module_that_is_called_once_and_not_in_place(name: str) -> None:
    architecture, shape = ALL[name]
    network = architecture.build(seed=0).eval()
    relus = [part for part in network.modules() if isinstance(part, nn.ReLU)]
    calls: Counter[nn.Module] = Counter()
    for part in relus:
        part.register_forward_hook(lambda part, inputs, output: calls.update([part]))
    network(rows(2, *shape))
    assert not any(part.inplace for part in relus)
    assert set(calls.values()) <= {1}
    assert len(calls) == len(relus)
    norms = [part for part in network.modules() if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d)]
    assert len(relus) == len(norms)


@cases
def test_evaluation_is_repeatable_and_training_moves_the_statistics(name: str) -> None:
    architecture, shape = ALL[name]
    network, x = architecture.build(seed=0).eval(), rows(6, *shape)
    state = {key: value.clone() for key, value in network.state_dict().items()}
    assert torch.equal(network(x), network(x))
    assert all(torch.equal(value, state[key]) for key, value in network.state_dict().items())
    network.train()(x)
    moved = {key for key, value in network.state_dict().items() if not torch.equal(value, state[key])}
    assert moved == {
        key for key in state if key.rsplit(".")[-1] in ("running_mean", "running_var", "num_batches_tracked")
    }


@cases
def test_gradients_reach_every_parameter_and_the_input(name: str) -> None:
    architecture, shape = ALL[name]
    network, x = architecture.build(seed=0).train(), rows(8, *shape).requires_grad_()
    network(x).square().sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0
    for key, value in network.named_parameters():
        assert value.grad is not None, key
        assert torch.isfinite(value.grad).all(), key
    assert network.fc.weight.grad.abs().sum() > 0


@cases
def test_guided_backprop_equals_captums_hooks(name: str) -> None:
    architecture, shape = ALL[name]
    network, x = drawn(architecture).double().eval(), rows(3, *shape, dtype=torch.float64)
    target = 1
    problem = verax.Problem(verax.Scorer(network, returns="logits"), x, target=target, explained="logit")
    found = GuidedBackprop()(problem)
    column = 0 if architecture.outputs == 1 else target
    if any(isinstance(part, nn.ReLU) for part in network.modules()):
        with pytest.warns(UserWarning, match="hooks on ReLU"):
            wanted: Tensor = captum.attr.GuidedBackprop(network).attribute(x.clone().requires_grad_(), target=column)
        torch.testing.assert_close(found, wanted.detach(), rtol=0, atol=1e-8)
        assert found.abs().sum() > 0
    else:
        torch.testing.assert_close(found, Gradient()(problem))


@cases
def test_deep_lift_is_complete(name: str) -> None:
    architecture, shape = ALL[name]
    for dtype, largest in ((torch.float32, 1e-3), (torch.float64, 1e-10)):
        network = drawn(architecture).to(dtype)
        x, background = rows(3, *shape, dtype=dtype), rows(5, *shape, seed=2, dtype=dtype)
        found = attribute(
            [DeepLiftSHAP(samples=5)], verax.Scorer(network, returns="logits"), x, background=background, target=1
        )
        assert 0 <= max(found.delta.values()) < largest


@cases
def test_a_form_gives_the_architecture_back(name: str) -> None:
    architecture, _ = ALL[name]
    assert from_form(architecture.form()) == architecture
    assert hash(architecture) == hash(from_form(architecture.form()))


@pytest.mark.usefixtures("any_types")
def test_settings_are_plain_whatever_was_given() -> None:
    assert Linear(np.int64(20)) == Linear((20,)) == Linear([20])
    assert MLP(6, hidden=[8, 4], dropout=0) == MLP(np.int64(6), hidden=(8, 4), dropout=0.0)
    assert repr(MLP(6, dropout=np.float64(0.5), hidden=(2,))) == "MLP(features=6, hidden=(2,), dropout=0.5, outputs=1)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        Linear(20).outputs = 2  # type: ignore[misc]


@pytest.mark.usefixtures("any_types")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Linear(0), "shape: expected a whole number"),
        (lambda: Linear(()), "shape: expected a number of features or the shape"),
        (lambda: Linear("20"), "shape: expected a number of features or the shape"),
        (lambda: Linear((3, 2.5)), "shape: expected a whole number"),
        (lambda: Linear(3, outputs=0), "outputs: expected a whole number"),
        (lambda: MLP(True), "features: expected a whole number"),
        (lambda: MLP(3, hidden=8), "hidden: expected the width of each"),
        (lambda: MLP(3, hidden=(8, 0)), "hidden: expected a whole number"),
        (lambda: MLP(3, dropout=1), "dropout: expected a number from 0 to below 1"),
        (lambda: MLP(3, dropout=-0.1), "dropout: expected a finite number"),
        (lambda: InceptionV1(channels=0), "channels: expected a whole number"),
        (lambda: InceptionV1(aux=1), "aux: expected True or False"),
    ],
)
def test_wrong_settings_are_named(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.usefixtures("any_types")
@pytest.mark.parametrize(
    ("form", "message"),
    [
        (None, "expected a name and settings"),
        ({"name": "MLP"}, "expected a name and settings"),
        ({"name": "ResNet", "settings": {}}, "expected one of Linear, MLP, InceptionV1, got 'ResNet'"),
        ({"name": "Linear", "settings": {"outputs": 1}}, "Linear has the settings outputs, shape, got outputs"),
    ],
)
def test_a_wrong_form_is_refused(form: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_form(form)


def test_a_part_without_a_rule_is_not_left_with_whatever_memory_held() -> None:
    with pytest.raises(TypeError, match="no rule to initialise '0', a PReLU"):
        initialise(nn.Sequential(nn.PReLU()), torch.Generator())
