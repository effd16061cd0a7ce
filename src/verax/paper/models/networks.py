"""The networks: logistic regression, the perceptron for tables, and InceptionV1 with the weights of torchvision."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple

import torch
from torch import Tensor, fx, nn

from verax.core.arguments import checked_count, checked_flag, checked_not_negative, settle
from verax.core.shapes import Float
from verax.scoring.model_files.saved import Architecture

# Filters of each block: 1x1; 3x3 after its reduction; "5x5" after its reduction; projection after pooling.
_BLOCKS = {
    "inception3a": (64, 96, 128, 16, 32, 32),
    "inception3b": (128, 128, 192, 32, 96, 64),
    "inception4a": (192, 96, 208, 16, 48, 64),
    "inception4b": (160, 112, 224, 24, 64, 64),
    "inception4c": (128, 128, 256, 24, 64, 64),
    "inception4d": (112, 144, 288, 32, 64, 64),
    "inception4e": (256, 160, 320, 32, 128, 128),
    "inception5a": (256, 160, 320, 32, 128, 128),
    "inception5b": (384, 192, 384, 48, 128, 128),
}
_HEADS = re.compile(r"(fc|aux[12]\.fc2)\.(weight|bias)")
_COUNT = "num_batches_tracked"  # checkpoints from before torch 0.4.1 lack it


@dataclass(frozen=True)
class InceptionV1(Architecture):
    """InceptionV1 with batch norm, for images of any size from 1 x 1 up. Returns logits ``(N, outputs)``.

    It computes what torchvision's ``googlenet`` with ``transform_input=False`` computes, and loads its checkpoints
    (see ``load_googlenet_state``). Inputs are standardised by the user, as for every model. torchvision's pretrained
    checkpoint was made for pixels scaled to [-1, 1], that is, mean 0.5 and standard deviation 0.5 in every channel.
    In training mode a batch of images smaller than 47 x 47 needs at least two rows, because of batch norm.

    Args:
        channels: Channels of the images.
        outputs: Number of logits; one for two classes.
        aux: Whether there are two auxiliary heads. They run in training mode only, where the network then returns
            ``InceptionOutputs`` instead of logits.

    Example:
        >>> digits = InceptionV1(channels=1).build(seed=0).eval()
        >>> digits(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2, 1])
    """

    channels: int = 3
    outputs: int = 1
    aux: bool = False

    def __post_init__(self) -> None:
        checked_flag("aux", self.aux)
        for name in ("channels", "outputs"):
            settle(self, **{name: checked_count(name, getattr(self, name))})

    def network(self) -> nn.Module:
        """Make the network; weights are named as torchvision's."""
        return Inception(self.channels, self.outputs, self.aux)


class InceptionOutputs(NamedTuple):
    """What a network with auxiliary heads returns in training mode: three tensors of logits.

    Attributes:
        logits: Of the network.
        aux1: Of the first auxiliary head.
        aux2: Of the second one.
    """

    logits: Tensor
    aux1: Tensor
    aux2: Tensor


class Inception(nn.Module):
    """The network of ``InceptionV1``."""

    def __init__(self, channels: int, outputs: int, aux: bool) -> None:
        super().__init__()
        self.conv1 = Convolution(channels, 64, 7, stride=2)
        self.maxpool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.conv2 = Convolution(64, 64, 1)
        self.conv3 = Convolution(64, 192, 3)
        self.maxpool2 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.maxpool3 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.maxpool4 = nn.MaxPool2d(2, stride=2, ceil_mode=True)
        width = 192
        for name, filters in _BLOCKS.items():
            block = InceptionBlock(width, *filters)
            self.add_module(name, block)
            width = block.width
        self.aux1 = AuxiliaryHead(512, outputs) if aux else None
        self.aux2 = AuxiliaryHead(528, outputs) if aux else None
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.flatten = nn.Flatten()
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(width, outputs)

    def forward(self, x: Float[Tensor, "n channels h w"]) -> Float[Tensor, "n outputs"] | InceptionOutputs:
        """Logits; with auxiliary heads and in training mode, theirs as well."""
        x = _pooled(self.maxpool1, self.conv1(x))
        x = _pooled(self.maxpool2, self.conv3(self.conv2(x)))
        x = _pooled(self.maxpool3, self._blocks("3a 3b", x))
        first = self._blocks("4a", x)
        second = self._blocks("4b 4c 4d", first)
        x = _pooled(self.maxpool4, self._blocks("4e", second))
        x = self.flatten(self.avgpool(self._blocks("5a 5b", x)))
        logits: Tensor = self.fc(self.dropout(x))
        if self.aux1 is None or self.aux2 is None or not self.training:
            return logits
        return InceptionOutputs(logits, self.aux1(first), self.aux2(second))

    def _blocks(self, names: str, x: Tensor) -> Tensor:
        for name in names.split():
            x = self.get_submodule(f"inception{name}")(x)
        return x


class InceptionBlock(nn.Module):
    """Four branches side by side, joined along the channels."""

    def __init__(
        self, channels: int, narrow: int, reduce3: int, middle: int, reduce5: int, wide: int, pooled: int
    ) -> None:
        super().__init__()
        self.width = narrow + middle + wide + pooled
        self.branch1 = Convolution(channels, narrow, 1)
        self.branch2 = nn.Sequential(Convolution(channels, reduce3, 1), Convolution(reduce3, middle, 3))
        # The paper of GoogLeNet has 5x5 here; torchvision's checkpoints have 3x3.
        self.branch3 = nn.Sequential(Convolution(channels, reduce5, 1), Convolution(reduce5, wide, 3))
        pool = nn.MaxPool2d(3, stride=1, padding=1, ceil_mode=True)
        self.branch4 = nn.Sequential(pool, Convolution(channels, pooled, 1))

    def forward(self, x: Float[Tensor, "n channels h w"]) -> Float[Tensor, "n width h w"]:
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class Convolution(nn.Module):
    """Convolution without bias, batch norm, ReLU; a stride of 1 keeps the size."""

    def __init__(self, channels: int, filters: int, size: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, size, stride=stride, padding=size // 2, bias=False)
        self.bn = nn.BatchNorm2d(filters, eps=0.001)
        self.relu = nn.ReLU()

    def forward(self, x: Float[Tensor, "n channels h w"]) -> Float[Tensor, "n filters a b"]:
        output: Tensor = self.relu(self.bn(self.conv(x)))
        return output


class AuxiliaryHead(nn.Module):
    """A classifier on the features half way up, which helps to train deep layers."""

    def __init__(self, channels: int, outputs: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d((4, 4))
        self.conv = Convolution(channels, 128, 1)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Linear(2048, 1024)
        self.relu = nn.ReLU()
        self.dropout = nn.Dropout(0.7)
        self.fc2 = nn.Linear(1024, outputs)

    def forward(self, x: Float[Tensor, "n channels h w"]) -> Float[Tensor, "n outputs"]:
        hidden = self.fc1(self.flatten(self.conv(self.pool(x))))
        logits: Tensor = self.fc2(self.dropout(self.relu(hidden)))
        return logits


@dataclass(frozen=True)
class Loaded:
    """What a checkpoint did not decide.

    Attributes:
        left: Weights of the network that kept their values, because the checkpoint has none of that size.
        unused: Tensors of the checkpoint that were not used, for the same reason.
    """

    left: tuple[str, ...]
    unused: tuple[str, ...]

    def __str__(self) -> str:
        left, unused = (", ".join(names) or "nothing" for names in (self.left, self.unused))
        return f"left at initial values: {left}; not used from the checkpoint: {unused}"


def load_googlenet_state(module: nn.Module, state: Mapping[str, Tensor]) -> Loaded:
    """Load a checkpoint of torchvision's ``googlenet``, with or without auxiliary heads, with any number of classes.

    A head for another number of classes stays as it is, and so do auxiliary heads that the checkpoint lacks; the
    result names them. A checkpoint that does not fit in anything else raises, and nothing is loaded.

    Args:
        module: What ``InceptionV1(...).build()`` made.
        state: Tensors by name, such as ``torch.load("googlenet.pth", weights_only=True)``.

    Example:
        >>> thousand = InceptionV1(outputs=1000).build(seed=0)
        >>> load_googlenet_state(InceptionV1().build(seed=1), thousand.state_dict()).left
        ('fc.weight', 'fc.bias')
    """
    current = module.state_dict()
    differ = {name for name in current if name in state and current[name].shape != state[name].shape}
    fitting = {name for name in state if name in current and not (name in differ and _HEADS.fullmatch(name))}
    missing = [name for name in current if name not in state and not name.endswith(_COUNT)]
    if not any(name.startswith("aux") for name in state):
        missing = [name for name in missing if not name.startswith("aux")]
    unknown = [name for name in state if name not in current and not name.startswith(("aux1.", "aux2."))]
    wrong = [name for name in current if name in fitting and name in differ]
    for problem, names in (("lacks", missing), ("has beyond these", unknown)):
        if names:
            raise ValueError(f"state: not a checkpoint of googlenet; it {problem} {_some(names)}.")
    if wrong:
        sizes = f"expected shape {tuple(current[wrong[0]].shape)}, got {tuple(state[wrong[0]].shape)}"
        raise ValueError(f"state: does not fit the network in {_some(wrong)}; {wrong[0]}: {sizes}.")
    module.load_state_dict({name: state[name] for name in current if name in fitting}, strict=False)
    left = tuple(name for name in current if name not in fitting and not name.endswith(_COUNT))
    return Loaded(left, tuple(name for name in state if name not in fitting))


@fx.wrap  # it looks at shapes; as one step, the rest of the network can be traced, and so folded
def _pooled(pool: nn.MaxPool2d, x: Tensor) -> Tensor:
    """Pool, also a side of one pixel, where torch raises. Values after a ReLU are not negative, so zeros add none."""
    height, width = x.shape[-2:]
    if height == 1 or width == 1:
        x = nn.functional.pad(x, (0, int(width == 1), 0, int(height == 1)))
    pooled: Tensor = pool(x)
    return pooled


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


@dataclass(frozen=True)
class Linear(Architecture):
    """One weight per feature and output; images are flattened first. Returns logits ``(N, outputs)``.

    Args:
        shape: Number of features, or the shape of one input such as ``(3, 224, 224)``.
        outputs: Number of logits; one for two classes.

    Example:
        >>> Linear(20)
        Linear(shape=(20,), outputs=1)
        >>> import torch
        >>> Linear((1, 8, 8)).build(seed=0)(torch.zeros(5, 1, 8, 8)).shape
        torch.Size([5, 1])
    """

    shape: int | Sequence[int]
    outputs: int = 1

    def __post_init__(self) -> None:
        lengths = (self.shape,) if isinstance(self.shape, Integral) else self.shape
        if isinstance(lengths, str) or not isinstance(lengths, Sequence) or not lengths:
            raise ValueError(f"shape: expected a number of features or the shape of an input, got {self.shape!r}.")
        sides = tuple(checked_count("shape", side) for side in lengths)
        settle(self, shape=sides, outputs=checked_count("outputs", self.outputs))

    def network(self) -> nn.Module:
        """Make the network; weights are ``fc.weight`` and ``fc.bias``."""
        assert not isinstance(self.shape, int)  # noqa: S101  # settled above
        network = nn.Sequential()
        network.add_module("flatten", nn.Flatten())
        network.add_module("fc", nn.Linear(math.prod(self.shape), self.outputs))
        return network


@dataclass(frozen=True)
class MLP(Architecture):
    """Hidden layers of linear map, batch norm, ReLU and dropout, then a linear map to the logits ``(N, outputs)``.

    In training mode a batch needs at least two rows, because of batch norm.

    Args:
        features: Number of features.
        hidden: Width of each hidden layer; the paper's by default.
        dropout: Chance to drop a hidden unit in training, from 0 to below 1.
        outputs: Number of logits; one for two classes.

    Example:
        >>> import torch
        >>> MLP(20).build(seed=0).eval()(torch.zeros(5, 20)).shape
        torch.Size([5, 1])
    """

    features: int
    hidden: Sequence[int] = (32, 128, 256, 128, 256, 128, 32)
    dropout: float = 0.2
    outputs: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.hidden, str) or not isinstance(self.hidden, Sequence):
            raise ValueError(f"hidden: expected the width of each hidden layer, got {self.hidden!r}.")
        dropout = checked_not_negative("dropout", self.dropout)
        if dropout >= 1:
            raise ValueError(f"dropout: expected a number from 0 to below 1, got {self.dropout!r}.")
        settle(self, dropout=dropout, hidden=tuple(checked_count("hidden", width) for width in self.hidden))
        settle(self, features=checked_count("features", self.features), outputs=checked_count("outputs", self.outputs))

    def network(self) -> nn.Module:
        """Make the network; weights are ``linear1.weight``, ``norm1.weight``, ... and ``fc.weight``."""
        network = nn.Sequential()
        width = self.features
        for number, following in enumerate(self.hidden, 1):
            network.add_module(f"linear{number}", nn.Linear(width, following))
            network.add_module(f"norm{number}", nn.BatchNorm1d(following))
            network.add_module(f"relu{number}", nn.ReLU())
            network.add_module(f"dropout{number}", nn.Dropout(self.dropout))
            width = following
        network.add_module("fc", nn.Linear(width, self.outputs))
        return network
