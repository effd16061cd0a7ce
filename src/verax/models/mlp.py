"""The multilayer perceptron for tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from verax.arguments import checked_count, checked_not_negative, settle
from verax.models.architecture import Architecture

HIDDEN = (32, 128, 256, 128, 256, 128, 32)


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
    hidden: Sequence[int] = HIDDEN
    dropout: float = 0.2
    outputs: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.hidden, str) or not isinstance(self.hidden, Sequence):
            raise ValueError(f"hidden: expected the width of each hidden layer, found {self.hidden!r}.")
        dropout = checked_not_negative("dropout", self.dropout)
        if dropout >= 1:
            raise ValueError(f"dropout: expected a number from 0 to below 1, found {self.dropout!r}.")
        settle(
            self,
            features=checked_count("features", self.features),
            hidden=tuple(checked_count("hidden", width) for width in self.hidden),
            dropout=dropout,
            outputs=checked_count("outputs", self.outputs),
        )

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
