"""Folding for inference: a convolution or a linear layer with its batch norm and its ReLU becomes one layer.

In evaluation mode a batch norm is a fixed scale and shift of each channel, which the weights of the layer before it can
take up; that saves whole passes over the activations.
"""

import copy
from collections import Counter
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F  # noqa: N812  # as everywhere
from torch.nn.utils.fusion import fuse_conv_bn_weights

from verax.shapes import Float

_NORMS: dict[type[nn.Module], type[nn.Module]] = {nn.Conv2d: nn.BatchNorm2d, nn.Linear: nn.BatchNorm1d}
_CUDNN = torch.version.cuda is not None  # else a GPU is another maker's


def folded(module: nn.Module) -> nn.Module:
    """Give a copy of a module in evaluation mode, in which layers have taken up the batch norms and ReLUs after them.

    Found are convolutions or linear layers, batch norms and ReLUs that are parts of one module whose ``forward`` calls
    them one after the other; all else stays as it is. Parts that code outside of that module calls as well are not
    recognised.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
        >>> folded(model)
        Sequential(
          (0): ConvolutionReLU(3, 8, kernel_size=(3, 3), stride=(1, 1))
          (1): Identity()
          (2): Identity()
        )
    """
    own = copy.deepcopy(module)
    uses = Counter(id(part) for _, part in own.named_modules(remove_duplicate=False))
    for parent in list(own.modules()):
        if any(type(child) in _NORMS for child in parent.children()):
            _fold_children(parent, uses)
    return own


class ConvolutionReLU(nn.Conv2d):
    """A convolution followed by a ReLU, in one kernel where there is one for both."""

    def forward(self, input: Float[Tensor, "n c h w"]) -> Float[Tensor, "n filters a b"]:  # noqa: A002  # torch's name
        """Convolve and cut off."""
        if not (_CUDNN and input.is_cuda) or input.dtype == torch.float64 or isinstance(self.padding, str):
            return F.relu(self._conv_forward(input, self.weight, self.bias))
        settings = (self.stride, self.padding, self.dilation, self.groups)
        found: Tensor = convolution_relu(input, self.weight, self.bias, *settings)
        return found


class FoldedLinear(nn.Module):
    """A linear layer with the batch norm and the ReLU that followed it."""

    def __init__(self, linear: nn.Linear, norm: Any, relu: bool) -> None:
        super().__init__()
        self.linear, self.norm, self.relu = linear, norm or nn.Identity(), relu
        self.fused = linear
        if norm is not None:
            self.fused = copy.deepcopy(linear)
            _take_up(self.fused, norm)

    def forward(self, input: Float[Tensor, "n *shape"]) -> Float[Tensor, "n *others"]:  # noqa: A002  # torch's name
        """Apply all of it."""
        # a batch norm scales the second axis, a linear layer makes the last one: the same only of tables
        found = self.fused(input) if input.ndim == 2 else self.norm(self.linear(input))
        return F.relu_(found) if self.relu else found


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


def _fold_children(parent: nn.Module, uses: Counter[int]) -> None:
    graph = _calls(parent)
    if graph is None:
        return
    calls = Counter(node.target for node in graph.nodes if node.op == "call_module")

    def layer(node: fx.Node) -> nn.Module | None:
        """The layer that is called, if it is called once, from here only, and nobody looks at it."""
        if node.op != "call_module" or calls[node.target] > 1:
            return None
        found = parent.get_submodule(str(node.target))
        return found if uses[id(found)] == 1 and not _has_hooks(found) else None

    for node in graph.nodes:
        first, chain = layer(node), [node]
        if first is None or not _can_take_up(first):
            continue
        for kind in (_NORMS[type(first)], nn.ReLU):
            user = next(iter(chain[-1].users), None)
            if user is not None and len(chain[-1].users) == 1 and _fits(layer(user), kind, first):
                chain.append(user)
        if len(chain) > 1:
            _put(parent, node, _joined(*(parent.get_submodule(str(one.target)) for one in chain)))
            for one in chain[1:]:
                _put(parent, one, nn.Identity())


def _can_take_up(layer: nn.Module) -> bool:
    return type(layer) in _NORMS and (not isinstance(layer, nn.Conv2d) or layer.padding_mode == "zeros")


def _fits(layer: nn.Module | None, kind: type[nn.Module], first: nn.Module) -> bool:
    """Whether a layer is of that kind, and a batch norm has statistics, else it looks at the batch, of that many."""
    if not isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
        return type(layer) is kind
    channels = first.out_features if isinstance(first, nn.Linear) else first.out_channels
    return type(layer) is kind and layer.running_mean is not None and layer.num_features == channels


def _joined(layer: nn.Module, *followers: nn.Module) -> nn.Module:
    norm = next((one for one in followers if isinstance(one, nn.BatchNorm1d | nn.BatchNorm2d)), None)
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
    weight, bias, mean, variance, scale, shift = (None if one is None else one.detach().double() for one in values)
    fused = fuse_conv_bn_weights(weight, bias, mean, variance, norm.eps, scale, shift)  # type: ignore[arg-type]
    layer.weight, layer.bias = (nn.Parameter(one.to(layer.weight.dtype), requires_grad=False) for one in fused)


def _put(parent: nn.Module, node: fx.Node, layer: nn.Module) -> None:
    path, _, last = str(node.target).rpartition(".")
    setattr(parent.get_submodule(path), last, layer)


def _has_hooks(layer: nn.Module) -> bool:
    return bool(layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks)


class _ChildrenOnly(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


def _calls(parent: nn.Module) -> fx.Graph | None:
    """How a module calls its parts, or None where its ``forward`` looks at values or shapes."""
    try:
        return _ChildrenOnly(autowrap_modules=()).trace(parent)  # type: ignore[arg-type]
    except (fx.proxy.TraceError, TypeError, AttributeError, RuntimeError):  # what code not made for tracing raises
        return None
