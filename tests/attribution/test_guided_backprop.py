import copy
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import captum.attr
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attribution.networks import convnet, mlp, rows
from verax.attribution import Gradient, families, stream
from verax.attribution.guided_backprop import GuidedBackprop

NETWORKS = {"perceptron": (mlp, (6,)), "convolutional": (convnet, (3, 12, 12))}


def captums(model: nn.Module, x: Tensor, target: Any) -> Tensor:
    """Captum's map. Its hooks do not work on ReLUs in place, so these are told not to be."""
    friendly = copy.deepcopy(model).eval()
    for part in friendly.modules():
        if isinstance(part, nn.ReLU):
            part.inplace = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: Tensor = captum.attr.GuidedBackprop(friendly).attribute(x.clone().requires_grad_(), target=target)
    return found.detach()


@pytest.mark.parametrize("name", NETWORKS)
def test_equals_captum(name: str) -> None:
    build, shape = NETWORKS[name]
    model, x = build().double(), rows(9, *shape, dtype=torch.float64)
    target = torch.arange(9) % 3
    found = GuidedBackprop()(model, x, target=target)
    torch.testing.assert_close(found, captums(model, x, target), rtol=0, atol=1e-8)
    assert not torch.allclose(found, Gradient()(model, x, target=target), rtol=0.1)


def test_one_logit_is_guided_from_the_score_of_the_class() -> None:
    """Signals of class 0 start negative, so its map is not minus that of class 1."""
    model, x = mlp(outputs=1).double(), rows(9, 6, dtype=torch.float64)
    flipped = copy.deepcopy(model)
    flipped[-1].weight.data.neg_()
    for target, one in ((1, model), (0, flipped)):
        torch.testing.assert_close(GuidedBackprop()(model, x, target=target), captums(one, x, 0), rtol=0, atol=1e-8)


class Net(nn.Module):
    """Two hidden layers, with the activation called in between."""

    def __init__(self, activation: Callable[[Tensor], Tensor] = F.relu) -> None:
        super().__init__()
        source = mlp().double().eval()
        self.first, self.second, self.last = source[0], source[4], source[7]
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.activation(self.second(self.activation(self.first(x)))))


class OwnReLU(nn.ReLU):
    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return torch.relu(input)


def ignoring_what_is_returned(call: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    def activation(x: Tensor) -> Tensor:
        call(x)
        return x

    return activation


def in_place_on_views(x: Tensor) -> Tensor:
    x[:, :5].relu_()
    F.relu(x[:, 5:], inplace=True)
    return x


SPELLINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "module": nn.ReLU(),
    "module in place": nn.ReLU(inplace=True),
    "module of a derived class": OwnReLU(),
    "torch.relu": torch.relu,
    "torch.relu_": torch.relu_,
    "Tensor.relu": lambda x: x.relu(),
    "Tensor.relu_": lambda x: x.relu_(),
    "functional": F.relu,
    "functional by keyword": lambda x: F.relu(input=x, inplace=False),
    "functional in place": lambda x: F.relu(x, True),
    "functional relu_": F.relu_,
    "operator": torch.ops.aten.relu.default,
    "operator in place": torch.ops.aten.relu_,
    "in place, result ignored": ignoring_what_is_returned(torch.relu_),
    "module in place, result ignored": ignoring_what_is_returned(nn.ReLU(inplace=True)),
    "in place on views": in_place_on_views,
}


@pytest.fixture(scope="module")
def case() -> tuple[Tensor, Tensor]:
    """Inputs and the map of the network by hand."""
    x, net = rows(9, 6, dtype=torch.float64), Net()
    before = net.first(x)
    after = net.second(before.clamp(min=0))
    signal = net.last.weight[1].clamp(min=0) * (after > 0)
    signal = (signal @ net.second.weight).clamp(min=0) * (before > 0)
    return x, (signal @ net.first.weight).detach()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_relu_counts_however_it_is_called(spelling: str, case: tuple[Tensor, Tensor]) -> None:
    x, wanted = case
    found = GuidedBackprop()(Net(SPELLINGS[spelling]), x, target=1)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def exported(net: nn.Module) -> nn.Module:
    module = torch.export.export(net, (rows(9, 6, dtype=torch.float64),)).module()
    module.eval = lambda: module  # exported modules have one mode and refuse to be asked for it
    return module


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trace", [torch.fx.symbolic_trace, exported])
def test_traced_graphs_are_seen_through(trace: Callable[[nn.Module], nn.Module], case: tuple[Tensor, Tensor]) -> None:
    x, wanted = case
    torch.testing.assert_close(GuidedBackprop()(trace(Net()), x, target=1), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [nn.Linear(6, 3), nn.Sequential(nn.Unflatten(1, (1, 6)), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(3, 3))],
    ids=["linear", "max pooling"],
)
def test_without_activations_it_is_the_gradient(model: nn.Module) -> None:
    x = rows(5, 6)
    assert torch.equal(GuidedBackprop()(model, x), Gradient()(model, x))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.RNN(6, 3, nonlinearity="relu", batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.recurrent(x[:, None])[0][:, 0]


def compiled() -> nn.Module:
    return torch.compile(mlp(), backend="eager")


def scripted() -> nn.Module:
    def relu(x: Tensor) -> Tensor:
        return torch.relu(x)

    return Net(torch.jit.script(relu)).float()


def compiled_relu() -> nn.Module:
    return Net(torch.compile(lambda x: torch.relu(x) * 1, backend="aot_eager")).float()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("build", "named"),
    [
        pytest.param(lambda: torch.jit.script(mlp()), "it is a TorchScript module", id="script"),
        pytest.param(lambda: torch.jit.trace(mlp().eval(), rows(9, 6)), "it is a TorchScript module", id="trace"),
        pytest.param(lambda: nn.Sequential(torch.jit.script(mlp())), "its part '0' is a TorchScript", id="script part"),
        pytest.param(compiled, "it is compiled", id="compiled"),
        pytest.param(lambda: nn.Sequential(compiled()), "its part '0' is compiled", id="compiled part"),
        pytest.param(scripted, "operations that hide them", id="script function"),
        pytest.param(compiled_relu, "operations that hide them", id="compiled function"),
        pytest.param(Recurrent, "operations that hide them", id="fused"),
    ],
)
def test_hidden_relus_are_refused(build: Callable[[], nn.Module], named: str) -> None:
    model = build()
    for _ in range(3):  # TorchScript looks different once it has warmed up
        with pytest.raises(TypeError, match=rf"{named}.*cannot see its ReLUs"):
            GuidedBackprop()(model, rows(9, 6))


def test_a_module_compiled_in_place_is_refused() -> None:
    model = mlp()
    model.compile(backend="eager")
    with pytest.raises(TypeError, match="it is compiled"):
        GuidedBackprop()(model, rows(9, 6))


def test_recomputed_relus_are_an_error() -> None:
    with pytest.raises(RuntimeError, match="checkpoint"):
        GuidedBackprop()(Net(lambda x: checkpoint(torch.relu, x, use_reentrant=False)), rows(9, 6))


@pytest.mark.parametrize(
    ("activation", "named"),
    [
        (nn.GELU(), "Gelu"),
        (nn.SiLU(), "Silu"),
        (nn.LeakyReLU(), "LeakyRelu"),
        (nn.Tanh(), "Tanh"),
        (nn.Sigmoid(), "Sigmoid"),
        (nn.ReLU6(), "Hardtanh"),
        (nn.ELU(), "Elu"),
        (nn.PReLU(), "PreluKernel"),
        (nn.Softplus(), "Softplus"),
        (nn.Mish(), "Mish"),
        (F.gelu, "Gelu"),
        (lambda x: x.clamp(min=0), "Clamp"),
        (lambda x: torch.maximum(x, torch.zeros_like(x)), "Maximum"),
        (lambda x: F.threshold(x, 0, 0), "Threshold"),
    ],
)
def test_other_activations_only_are_refused(activation: Callable[[Tensor], Tensor], named: str) -> None:
    with pytest.raises(ValueError, match=rf"this one has none, but other activations \({named}\).*Gradient"):
        GuidedBackprop()(Net(activation).double(), rows(9, 6, dtype=torch.float64))


def test_other_activations_beside_relus_keep_their_derivative() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    x = rows(9, 6, dtype=torch.float64)
    torch.testing.assert_close(GuidedBackprop()(model, x, target=1), captums(model, x, 1), rtol=0, atol=1e-8)


def test_code_between_two_pieces_has_ordinary_relus() -> None:
    groups = families([GuidedBackprop(), Gradient()])
    x = torch.ones(1, requires_grad=True)
    for _ in stream(groups, mlp(), rows(4, 6)):
        with torch.enable_grad():
            (found,) = torch.autograd.grad(-torch.relu(x), x)
        assert found == -1


def test_a_module_that_returns_an_object_with_logits_is_looked_into() -> None:
    class Wrapped(nn.Module):
        """Returns its logits as models of Hugging Face do."""

        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> SimpleNamespace:
            return SimpleNamespace(logits=self.inner(x))

    x = torch.randn(3, 4)
    plain = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    torch.testing.assert_close(GuidedBackprop()(Wrapped(plain), x), GuidedBackprop()(plain, x))
    with pytest.raises(ValueError, match="networks of ReLUs"):
        GuidedBackprop()(Wrapped(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))), x)
