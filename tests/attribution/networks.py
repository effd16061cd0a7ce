"""Two small networks with the parts on which attribution methods stumble, and their inputs.

Parameters and batch-norm statistics come from a generator of their own, so a network is the same in every process.
"""

import torch
from torch import Tensor, nn


def mlp(seed: int = 0, features: int = 6, outputs: int = 3) -> nn.Module:
    """A perceptron with batch norm, dropout, and ReLUs in place and not."""
    network = nn.Sequential(
        nn.Linear(features, 16),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(16, 12),
        nn.ReLU(inplace=True),
        nn.Dropout(0.25),
        nn.Linear(12, outputs),
    )
    return _drawn(network, seed)


def convnet(seed: int = 0, channels: int = 3, size: int = 12, outputs: int = 3) -> nn.Module:
    """A convolutional network with inception-like branches, max pooling and batch norm; size divides by four."""
    if size % 4:
        raise ValueError(f"size: expected a multiple of four, got {size}.")
    network = nn.Sequential(
        _convolution(channels, 6, 3),
        nn.MaxPool2d(2),
        Branches(6),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(12 * (size // 4) ** 2, outputs),
    )
    return _drawn(network, seed)


class Branches(nn.Module):
    """Four branches side by side, three channels each: 1x1, 3x3, 5x5, and max pooling before a 1x1."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.narrow = _convolution(channels, 3, 1)
        self.middle = nn.Sequential(_convolution(channels, 4, 1), _convolution(4, 3, 3))
        self.wide = nn.Sequential(_convolution(channels, 2, 1), _convolution(2, 3, 5))
        self.pooled = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), _convolution(channels, 3, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.narrow(x), self.middle(x), self.wide(x), self.pooled(x)], 1)


def rows(count: int, *shape: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal inputs; the numbers are those of float32, whatever the dtype."""
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _convolution(channels: int, filters: int, size: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, filters, size, padding=size // 2, bias=False), nn.BatchNorm2d(filters), nn.ReLU()
    )


def _drawn(network: nn.Module, seed: int) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    for part in network.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            _draw_norm(part, generator)
        elif isinstance(part, nn.Linear | nn.Conv2d):
            part.weight.data = torch.randn(part.weight.shape, generator=generator) * 1.5 / part.weight[0].numel() ** 0.5
            if part.bias is not None:
                part.bias.data = torch.randn(part.bias.shape, generator=generator) / 4
    return network


def _draw_norm(norm: nn.BatchNorm1d | nn.BatchNorm2d, generator: torch.Generator) -> None:
    shape = norm.weight.shape
    norm.weight.data = 0.5 + torch.rand(shape, generator=generator)
    norm.bias.data = torch.randn(shape, generator=generator) / 4
    norm.running_mean = torch.randn(shape, generator=generator) / 4
    norm.running_var = 0.5 + torch.rand(shape, generator=generator)
