"""Companions: what a model is called with beside the rows that are perturbed, such as the attention mask of a text."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from verax.core.shapes import Int

Collate = Callable[[Any, dict[str, Any]], tuple[Any, dict[str, Any]]]


@runtime_checkable
class ChecksModel(Protocol):
    """A ``collate`` that knows which models its rows fit."""

    def check_model(self, module: nn.Module | None, rows: Tensor, others: Mapping[str, Tensor]) -> None:
        """Refuse rows that do not fit a model, before it runs."""


@runtime_checkable
class KnowsLengths(Protocol):
    """A ``collate`` that shortens batches to their longest row, so that rows of like length are best run together."""

    def lengths(self, rows: Tensor, others: Mapping[str, Tensor]) -> Int[Tensor, " rows"]:
        """How long each row will be."""


@dataclass(frozen=True, eq=False)
class Companions:
    """What travels with rows, and how a model is called with it.

    Attributes:
        alongside: Arrays with one entry per row, by the name under which the model takes them.
        key: Name under which the model takes the rows themselves; None for the first argument.
        collate: Called with the rows and their companions before the model is, and gives both back: it may trim
            padding or close gaps.

    Example:
        >>> import torch
        >>> both = Companions({"weight": torch.tensor([1.0, 10.0])})
        >>> both.at(torch.tensor([1, 1])).call(lambda x, weight: x[:, 0] * weight, torch.tensor([[1.0], [2.0]]))
        tensor([10., 20.])
    """

    alongside: Mapping[str, Tensor] = field(default_factory=dict)
    key: str | None = None
    collate: Collate | None = None

    def on(self, device: torch.device) -> "Companions":
        """The same on a device."""
        return Companions({name: value.to(device) for name, value in self.alongside.items()}, self.key, self.collate)

    def at(self, owner: Int[Tensor, " rows"]) -> "Companions":
        """The companions of rows, given which input each row came from."""
        chosen = {name: value[owner] for name, value in self.alongside.items()}
        return Companions(chosen, self.key, self.collate)

    def call(self, model: Callable[..., Any], batch: Tensor, convert: Callable[[Tensor], Any] | None = None) -> Any:
        """Call a model with rows and what comes with them, as arrays of the kind that ``convert`` makes."""
        values, others = batch, dict(self.alongside)
        if self.collate is not None:
            values, others = self.collate(values, others)
        if convert is not None:
            values, others = convert(values), {name: convert(value) for name, value in others.items()}
        return model(values, **others) if self.key is None else model(**{self.key: values}, **others)
