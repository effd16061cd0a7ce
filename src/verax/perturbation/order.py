"""Order: from attributions to the sequence in which features are removed."""

from typing import Literal

import torch
from torch import Tensor

from verax.core.shapes import Float, Int

Order = Literal["signed", "magnitude"]


def removal_order(
    attributions: Float[Tensor, "*batch features"], order: Order, counts: Int[Tensor, " inputs"] | None = None
) -> Int[Tensor, "*batch features"]:
    """List the features of each input from the most to the least important.

    Ties keep the order of the features (a stable sort), so the result is the same on every machine. With ``counts``,
    features beyond the count of their input (rows of a ragged group map) come last.

    Example:
        >>> removal_order(torch.tensor([[0.5, -2.0, 0.5, 1.0]]), "signed")
        tensor([[3, 0, 2, 1]])
        >>> removal_order(torch.tensor([[0.5, -2.0, 0.5, 1.0]]), "magnitude")
        tensor([[1, 3, 0, 2]])
    """
    key = attributions.abs() if order == "magnitude" else attributions
    if counts is not None:
        absent = torch.arange(key.shape[-1], device=key.device) >= counts.to(key.device)[:, None]
        key = key.masked_fill(absent, -torch.inf)
    return key.sort(dim=-1, descending=True, stable=True).indices


def ranks(sequence: Int[Tensor, "*batch features"]) -> Int[Tensor, "*batch features"]:
    """Invert a removal order: the place of each feature in it, 0 for the first to go.

    Example:
        >>> ranks(torch.tensor([[3, 0, 2, 1]]))
        tensor([[1, 3, 2, 0]], dtype=torch.int32)
    """
    places = torch.arange(sequence.shape[-1], device=sequence.device, dtype=torch.int32).expand(sequence.shape)
    return torch.empty_like(places, memory_format=torch.contiguous_format).scatter_(-1, sequence, places)


def cut_points(counts: Int[Tensor, " inputs"], steps: int, most: int) -> Int[Tensor, "inputs points"]:
    """Features removed at each point ``t`` of a curve: ``(t * d) // n`` with ``n = min(steps, d)``.

    Inputs of a call may differ in their number of features (a group map for each); where one has ended before the
    curve of the input with the ``most`` features, its last point is repeated.

    The cut points of n steps are among those of every multiple of n, and all are among those of one feature per step:
    in one call, the finer number brings the scores of the coarser one. Others share what happens to coincide, as 20 and
    24 do at every fourth part.

    Example:
        >>> cut_points(torch.tensor([7]), steps=3, most=7)
        tensor([[0, 2, 4, 7]])
    """
    own = counts.clamp(max=steps)[:, None]
    return torch.minimum(torch.arange(min(steps, most) + 1), own) * counts[:, None] // own
