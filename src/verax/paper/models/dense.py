"""Models of dense layers: logistic regression on features or pixels, and the multilayer perceptron for tables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

from torch import nn

from verax.core.arguments import checked_count, checked_not_negative, settle
from verax.scoring.model_files.saved import Architecture


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
