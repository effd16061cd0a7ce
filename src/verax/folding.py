"""Folding for inference: a convolution with its batch norm and its ReLU becomes one layer.

In evaluation mode a batch norm is a fixed scale and shift of each channel, which the weights of the convolution before
it can take up; a GPU then saves whole passes over the activations.
"""

import copy
from collections import Counter
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F  # noqa: N812  # as everywhere
from torch.nn.utils.fusion import fuse_conv_bn_weights

from verax.shapes import Float

_CUDNN = torch.version.cuda is not None  # else a GPU is another maker's


def folded(module: nn.Module) -> nn.Module:
    """Give a copy of a module in evaluation mode, in which convolutions have taken up the layers that follow them.

    Found are convolutions, batch norms and ReLUs that are parts of one module whose ``forward`` calls them one after
    the other; all else stays as it is. Parts that code outside of that module calls as well are not recognised.

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
        if any(isinstance(child, nn.Conv2d) for child in parent.children()):
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

    def followed_by(node: fx.Node, kind: type[nn.Module]) -> fx.Node | None:
        """The one user of a layer's output, if it is a layer of that kind that is used here only."""
        users = list(node.users)
        if len(users) != 1 or users[0].op != "call_module":
            return None
        layer = parent.get_submodule(str(users[0].target))
        alone = calls[users[0].target] == 1 and uses[id(layer)] == 1
        return users[0] if type(layer) is kind and alone and not _has_hooks(layer) else None

    for node in graph.nodes:
        if node.op != "call_module" or calls[node.target] > 1:
            continue
        layer = parent.get_submodule(node.target)
        if type(layer) is not nn.Conv2d or uses[id(layer)] > 1 or _has_hooks(layer) or layer.padding_mode != "zeros":
            continue
        norm = followed_by(node, nn.BatchNorm2d)
        if norm is not None:
            batch_norm = parent.get_submodule(str(norm.target))
            if not isinstance(batch_norm, nn.BatchNorm2d) or batch_norm.running_mean is None:
                continue  # it normalises by the batch
            _take_up(layer, batch_norm)
            _put(parent, str(norm.target), nn.Identity())
        relu = followed_by(norm or node, nn.ReLU)
        if relu is not None:
            layer.__class__ = ConvolutionReLU
            _put(parent, str(relu.target), nn.Identity())


def _take_up(layer: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
    """Fold in double precision, so that one rounding is all that changes."""
    values = (layer.weight, layer.bias, norm.running_mean, norm.running_var, norm.weight, norm.bias)
    weight, bias, mean, variance, scale, shift = (None if one is None else one.detach().double() for one in values)
    fused = fuse_conv_bn_weights(weight, bias, mean, variance, norm.eps, scale, shift)  # type: ignore[arg-type]
    layer.weight, layer.bias = (nn.Parameter(one.to(layer.weight.dtype), requires_grad=False) for one in fused)


def _put(parent: nn.Module, name: str, layer: nn.Module) -> None:
    path, _, last = name.rpartition(".")
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
