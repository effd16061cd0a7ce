"""The linear model: logistic regression on features or on pixels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

from torch import nn

from verax.arguments import checked_count, settle
from verax.models.architecture import Architecture


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
        given = (self.shape,) if isinstance(self.shape, Integral) else self.shape
        if isinstance(given, str) or not isinstance(given, Sequence) or not given:
            raise ValueError(f"shape: expected a number of features or the shape of an input, found {self.shape!r}.")
        sides = tuple(checked_count("shape", side) for side in given)
        settle(self, shape=sides, outputs=checked_count("outputs", self.outputs))

    def network(self) -> nn.Module:
        """Make the network; weights are ``fc.weight`` and ``fc.bias``."""
        assert not isinstance(self.shape, int)  # noqa: S101  # settled above
        network = nn.Sequential()
        network.add_module("flatten", nn.Flatten())
        network.add_module("fc", nn.Linear(math.prod(self.shape), self.outputs))
        return network
