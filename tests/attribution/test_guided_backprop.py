import copy
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import captum.attr
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import calls
import verax
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
    found = GuidedBackprop()(calls.problem(model, x, target=target))
    torch.testing.assert_close(found, captums(model, x, target), rtol=0, atol=1e-8)
    assert not torch.allclose(found, Gradient()(calls.problem(model, x, target=target)), rtol=0.1)


def test_one_logit_is_guided_from_the_score_of_the_class() -> None:
    """Signals of class 0 start negative, so its map is not minus that of class 1."""
    model, x = mlp(outputs=1).double(), rows(9, 6, dtype=torch.float64)
    flipped = copy.deepcopy(model)
    flipped[-1].weight.data.neg_()
    for target, one in ((1, model), (0, flipped)):
        found = GuidedBackprop()(calls.problem(verax.Scorer(model, returns="logits"), x, target=target))
        torch.testing.assert_close(found, captums(one, x, 0), rtol=0, atol=1e-8)


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
    found = GuidedBackprop()(calls.problem(Net(SPELLINGS[spelling]), x, target=1))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def exported(net: nn.Module) -> nn.Module:
    any_batch = ({0: torch.export.Dim("rows")},)
    module = torch.export.export(net, (rows(9, 6, dtype=torch.float64),), dynamic_shapes=any_batch).module()
    module.eval = lambda: module  # exported modules have one mode and refuse to be asked for it
    return module


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trace", [torch.fx.symbolic_trace, exported])
def test_traced_graphs_are_seen_through(trace: Callable[[nn.Module], nn.Module], case: tuple[Tensor, Tensor]) -> None:
    x, wanted = case
    torch.testing.assert_close(GuidedBackprop()(calls.problem(trace(Net()), x, target=1)), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [nn.Linear(6, 3), nn.Sequential(nn.Unflatten(1, (1, 6)), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(3, 3))],
    ids=["linear", "max pooling"],
)
def test_without_activations_it_is_the_gradient(model: nn.Module) -> None:
    x = rows(5, 6)
    assert torch.equal(GuidedBackprop()(calls.problem(model, x)), Gradient()(calls.problem(model, x)))


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
        pytest.param(scripted, "operations that may hide them", id="script function"),
        pytest.param(Recurrent, "operations that may hide them", id="fused"),
    ],
)
def test_hidden_relus_are_refused(build: Callable[[], nn.Module], named: str) -> None:
    model = build()
    for _ in range(3):  # TorchScript looks different once it has warmed up
        with pytest.raises(TypeError, match=rf"{named}.*finds no ReLUs"):
            GuidedBackprop()(calls.problem(model, rows(9, 6)))


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_function_is_seen_through(case: tuple[Tensor, Tensor]) -> None:
    x, wanted = case
    model = compiled_relu()
    for _ in range(2):
        found = GuidedBackprop()(calls.problem(model, x.float(), target=1))
        torch.testing.assert_close(found, wanted.float(), rtol=1e-5, atol=1e-6)
        model(x.float())


class ReLUByHand(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.from_numpy(np.maximum(x.detach().numpy(), 0))  # NumPy's work is not seen

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> Tensor:
        return arriving[0] * (ctx.saved_tensors[0] > 0)


def chosen_in_place(x: Tensor) -> Tensor:
    x = x.clone()
    x[x < 0] = 0
    return x


BY_HAND: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "where": (lambda x: torch.where(x > 0, x, 0), "where by a condition"),
    "product": (lambda x: x * (x > 0), "mul by a condition"),
    "product with numbers": (lambda x: (x > 0).to(x.dtype) * x * 1, "mul by a condition"),
    "masked_fill": (lambda x: x.masked_fill(x < 0, 0), "masked_fill by a condition"),
    "in place": (chosen_in_place, "index_put by a condition"),
    "absolute value": (lambda x: (x + x.abs()) / 2, "abs"),
    "sign": (lambda x: x * (x.sign() + 1) / 2, "sign"),
    "root of a square": (lambda x: (x + (x * x).sqrt()) / 2, "sqrt"),
    "own function": (ReLUByHand.apply, "ReLUByHand"),
    "clamp": (lambda x: x.clamp(min=0), "clamp"),
    "maximum": (lambda x: torch.maximum(x, torch.zeros_like(x)), "maximum"),
    "maximum of two": (lambda x: torch.stack((x, torch.zeros_like(x))).amax(0), "amax"),
    "larger of two": (lambda x: torch.stack((x, torch.zeros_like(x))).max(0).values, "max"),
    "picked": (lambda x: torch.stack((x * 0, x)).gather(0, (x > 0).long()[None])[0], "gather by a condition"),
    "threshold": (lambda x: F.threshold(x, 0, 0), "threshold"),
    "quotient": (lambda x: x / (1 + x.abs()), "abs, div"),
    "sine": (torch.sin, "sin"),
    "power": (lambda x: x**2, "pow"),
    "exponential": (torch.exp, "exp"),
}


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize("beside", [False, True])
def test_what_may_be_a_relu_by_hand_is_refused(name: str, beside: bool) -> None:
    """Alone, where the gradient would pass for guided, and beside ReLUs that are."""
    activation, named = BY_HAND[name]
    net = Net(activation)
    model = nn.Sequential(nn.Linear(6, 6).double(), nn.ReLU(), net) if beside else net
    with pytest.raises(TypeError, match=rf"operations that may hide them \({named}.*finds no ReLUs.*Gradient"):
        GuidedBackprop()(calls.problem(model, rows(9, 6, dtype=torch.float64)))


class Linears(nn.Module):
    """All that is linear in the inputs, whatever happens to the weights, with ReLUs in between."""

    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(6, 6, generator=generator, dtype=torch.float64))
        self.keep = torch.tensor([True, False, True, True, False, True])
        self.norm = nn.BatchNorm1d(6, dtype=torch.float64)
        self.dropout = nn.Dropout(0.5)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.activation(F.linear(x, self.weight.tanh().abs() + self.weight) / 3)
        hidden = hidden * self.keep + hidden.masked_fill(self.keep, 0.0) + torch.where(self.keep, hidden, x)
        hidden = self.dropout(self.norm(hidden)) + x
        both = torch.cat((hidden.flip(1), hidden[:, [0, 2]], hidden.new_ones(len(x), 1)), dim=1)
        pooled = F.max_pool1d(F.avg_pool1d(F.pad(both[:, None], (1, 2)), 2), 2).flatten(1)
        out = torch.zeros(len(x), 6, dtype=x.dtype)
        out[:, :3] = self.activation(pooled[:, :3])
        return torch.einsum("nd,kd->nk", out - pooled[:, :1], self.weight.softmax(1)[:3])


def test_what_is_linear_passes() -> None:
    x = rows(9, 6, dtype=torch.float64)
    linear = Linears(lambda x: x)
    assert torch.equal(GuidedBackprop()(calls.problem(linear, x)), Gradient()(calls.problem(linear, x)))
    found = GuidedBackprop()(calls.problem(Linears(torch.relu), x))
    assert not torch.equal(found, Gradient()(calls.problem(Linears(torch.relu), x)))


def test_products_of_two_signals_beside_relus_keep_their_derivative() -> None:
    class Gated(nn.Module):
        """Squeeze and excitation in small."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.gate, self.last = (mlp().double()[0] for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            hidden = torch.relu(self.first(x))
            return hidden * torch.sigmoid(self.gate(x))

    x = rows(5, 6, dtype=torch.float64)
    model = Gated()
    leaf = x.clone().requires_grad_()
    before, gate = model.first(leaf), torch.sigmoid(model.gate(leaf))
    (through_gate,) = torch.autograd.grad((before.detach().clamp(min=0) * gate)[:, 1].sum(), leaf)
    signal = torch.zeros_like(before)
    signal[:, 1] = gate[:, 1].detach() * (before[:, 1] > 0)
    wanted = through_gate + signal @ model.first.weight
    torch.testing.assert_close(GuidedBackprop()(calls.problem(model, x, target=1)), wanted.detach())


def test_a_model_that_fails_leaves_torch_as_it_was() -> None:
    def failing(x: Tensor) -> Tensor:
        raise RuntimeError("on purpose")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="on purpose"):
            GuidedBackprop()(calls.problem(Net(failing), rows(2, 6, dtype=torch.float64)))
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()


def test_a_module_compiled_in_place_is_refused() -> None:
    model = mlp()
    model.compile(backend="eager")
    with pytest.raises(TypeError, match="it is compiled"):
        GuidedBackprop()(calls.problem(model, rows(9, 6)))


def test_recomputed_relus_are_an_error() -> None:
    with pytest.raises(RuntimeError, match="checkpoint"):
        GuidedBackprop()(calls.problem(Net(lambda x: checkpoint(torch.relu, x, use_reentrant=False)), rows(9, 6)))


@pytest.mark.parametrize(
    ("activation", "named"),
    [
        (nn.GELU(), "gelu"),
        (nn.SiLU(), "silu"),
        (nn.LeakyReLU(), "leaky_relu"),
        (nn.Tanh(), "tanh"),
        (nn.Sigmoid(), "sigmoid"),
        (nn.ReLU6(), "hardtanh"),
        (nn.ELU(), "elu"),
        (nn.PReLU(), "prelu_kernel"),
        (nn.Softplus(), "softplus"),
        (nn.Mish(), "mish"),
        (F.gelu, "gelu"),
        (lambda x: x.softmax(1), "softmax"),
        (lambda x: x * x, "mul of its own values"),
        (lambda x: F.layer_norm(x, x.shape[1:]), "native_layer_norm"),
        (lambda x: F.scaled_dot_product_attention(*[x[:, :, None]] * 3)[..., 0], "scaled_dot_product.*|bmm.*softmax"),
        (lambda x: (x[:, :, None] @ x[:, None]).softmax(2).sum(2), "bmm of its own values, softmax"),
    ],
)
def test_other_activations_only_are_refused(activation: Callable[[Tensor], Tensor], named: str) -> None:
    with pytest.raises(ValueError, match=rf"this one has none, but other activations \({named}\).*Gradient"):
        GuidedBackprop()(calls.problem(Net(activation).double(), rows(9, 6, dtype=torch.float64)))


def test_other_activations_beside_relus_keep_their_derivative() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    x = rows(9, 6, dtype=torch.float64)
    torch.testing.assert_close(
        GuidedBackprop()(calls.problem(model, x, target=1)), captums(model, x, 1), rtol=0, atol=1e-8
    )


def test_code_between_two_pieces_has_ordinary_relus() -> None:
    groups = families([GuidedBackprop(), Gradient()])
    x = torch.ones(1, requires_grad=True)
    for _ in stream(groups, calls.problem(mlp(), rows(4, 6))):
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
    torch.testing.assert_close(
        GuidedBackprop()(calls.problem(Wrapped(plain), x)), GuidedBackprop()(calls.problem(plain, x))
    )
    with pytest.raises(ValueError, match="networks of ReLUs"):
        GuidedBackprop()(calls.problem(Wrapped(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))), x))
