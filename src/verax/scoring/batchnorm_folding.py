"""Folding for inference: a convolution or a linear layer takes up the fixed scale and shift of its batch norm."""

import copy
from collections import Counter
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F  # noqa: N812  # as everywhere
from torch.nn.utils.fusion import fuse_conv_bn_weights

from verax.core.shapes import Float

_NORMS: dict[type[nn.Module], type[nn.Module]] = {nn.Conv2d: nn.BatchNorm2d, nn.Linear: nn.BatchNorm1d}
_CUDNN = torch.version.cuda is not None  # else a GPU is another maker's


def folded(module: nn.Module) -> nn.Module:
    """Give a copy of a module in evaluation mode, in which layers have taken up the batch norms and ReLUs after them.

    Folded is what one module's ``forward`` calls one after the other and no other code uses; not so what is below a
    module whose ``forward`` cannot be traced, because it looks at values or shapes: what it calls is unknown.
    """
    copied = copy.deepcopy(module)
    parents = [part for part in copied.modules() if list(part.children())]
    traced = {parent: _calls(parent) for parent in parents}
    hidden = {below for parent, graph in traced.items() if graph is None for below in parent.modules()}
    graphs = {parent: graph for parent, graph in traced.items() if graph is not None and parent not in hidden}
    alone = _called_once(copied, graphs)
    for parent, graph in graphs.items():
        _fold_children(parent, graph, alone)
    return copied


class ConvolutionReLU(nn.Conv2d):
    """A convolution followed by a ReLU, in one kernel where there is one for both."""

    def forward(self, input: Float[Tensor, "n c h w"]) -> Float[Tensor, "n filters a b"]:  # noqa: A002  # torch's name
        if not (_CUDNN and input.is_cuda) or input.dtype == torch.float64 or isinstance(self.padding, str):
            return F.relu(self._conv_forward(input, self.weight, self.bias))
        settings = (self.stride, self.padding, self.dilation, self.groups)
        output: Tensor = convolution_relu(input, self.weight, self.bias, *settings)
        return output


class FoldedLinear(nn.Module):
    """A linear layer with the batch norm and the ReLU that followed it."""

    def __init__(self, linear: nn.Linear, norm: nn.BatchNorm1d | None, relu: bool) -> None:
        super().__init__()
        self.linear, self.norm, self.relu = linear, norm or nn.Identity(), relu
        self.fused = linear
        if norm is not None:
            self.fused = copy.deepcopy(linear)
            _take_up(self.fused, norm)

    def forward(self, input: Float[Tensor, "n *shape"]) -> Float[Tensor, "n *others"]:  # noqa: A002  # torch's name
        # a batch norm scales the second axis, a linear layer makes the last one: the same only of tables
        output = self.fused(input) if input.ndim == 2 else self.norm(self.linear(input))
        return F.relu_(output) if self.relu else output


@torch.library.custom_op("verax::convolution_relu", mutates_args=())
def convolution_relu(
    rows: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> Tensor:
    """Run cuDNN's kernel for both; an operator of its own, because torch.compile does not know torch's."""
    return torch.cudnn_convolution_relu(rows, weight, bias, stride, padding, dilation, groups)


@convolution_relu.register_fake
def _(rows: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Tensor:
    return F.conv2d(rows, weight, bias, stride, padding, dilation, groups)


def _called_once(module: nn.Module, graphs: dict[nn.Module, fx.Graph]) -> set[nn.Module]:
    """Layers that one place calls, that are part of one module, and whose weights or outputs no other code reads."""
    places = Counter(part for _, part in module.named_modules(remove_duplicate=False))
    calls: Counter[nn.Module] = Counter()
    read: set[nn.Module] = set()
    for parent, graph in graphs.items():
        calls.update(_layer(parent, node) for node in graph.nodes if node.op == "call_module")
        weights = (str(node.target) for node in graph.nodes if node.op == "get_attr")
        read.update(parent.get_submodule(name.rpartition(".")[0]) for name in weights)
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    read.update(part for part in calls if any(getattr(part, name) for name in hooks))
    return {part for part, count in calls.items() if count == places[part] == 1} - read


def _layer(parent: nn.Module, node: fx.Node) -> nn.Module:
    return parent.get_submodule(str(node.target))


def _fold_children(parent: nn.Module, graph: fx.Graph, alone: set[nn.Module]) -> None:
    known = {node: _layer(parent, node) for node in graph.nodes if node.op == "call_module"}
    for node, first in known.items():
        if first not in alone or type(first) not in _NORMS or getattr(first, "padding_mode", "zeros") != "zeros":
            continue
        chain = [node]
        for kind in (_NORMS[type(first)], nn.ReLU):
            user = next(iter(chain[-1].users), None)
            if len(chain[-1].users) == 1 and known.get(user) in alone and _fits(known[user], kind, first):
                chain.append(user)
        if len(chain) > 1:
            _put(parent, node, _joined(*(known[follower] for follower in chain)))
            for follower in chain[1:]:
                _put(parent, follower, nn.Identity())


def _fits(layer: nn.Module, kind: type[nn.Module], first: nn.Module) -> bool:
    """Whether a layer is of that kind, and a batch norm has statistics, else it looks at the batch, of that many."""
    if not isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
        return type(layer) is kind
    channels = first.out_features if isinstance(first, nn.Linear) else first.out_channels
    return type(layer) is kind and layer.running_mean is not None and layer.num_features == channels


def _joined(layer: nn.Module, *followers: nn.Module) -> nn.Module:
    norm: Any = None if isinstance(followers[0], nn.ReLU) else followers[0]
    relu = isinstance(followers[-1], nn.ReLU)
    if isinstance(layer, nn.Linear):
        return FoldedLinear(layer, norm, relu)
    if norm is not None:
        _take_up(layer, norm)
    if relu:
        layer.__class__ = ConvolutionReLU
    return layer


def _take_up(layer: Any, norm: nn.BatchNorm1d | nn.BatchNorm2d) -> None:
    """Fold in double precision, so that one rounding is all that changes."""
    values = (layer.weight, layer.bias, norm.running_mean, norm.running_var, norm.weight, norm.bias)
    weight, bias, mean, variance, scale, shift = (
        None if value is None else value.detach().double() for value in values
    )
    fused = fuse_conv_bn_weights(weight, bias, mean, variance, norm.eps, scale, shift)  # type: ignore[arg-type]
    layer.weight, layer.bias = (nn.Parameter(value.to(layer.weight.dtype), requires_grad=False) for value in fused)


def _put(parent: nn.Module, node: fx.Node, layer: nn.Module) -> None:
    path, _, last = str(node.target).rpartition(".")
    setattr(parent.get_submodule(path), last, layer)


class _ChildrenOnly(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


def _calls(parent: nn.Module) -> fx.Graph | None:
    """How a module calls its parts, or None where its ``forward`` looks at values or shapes."""
    try:
        return _ChildrenOnly(autowrap_modules=()).trace(parent)  # type: ignore[arg-type]
    except Exception:  # code that is handed stand-ins for tensors, and not made for them, may raise anything
        return None
