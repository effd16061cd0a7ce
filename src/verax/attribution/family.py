"""Families: configurations of a method that share model evaluations."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, ClassVar

import numpy as np

from verax.attribution.given import Explained, Given, Piece, Place
from verax.core.shapes import Shaped
from verax.scoring.meter import Rows
from verax.scoring.session import NOT_DIFFERENTIABLE


class Family(ABC):
    """Configurations that share model evaluations. Derive a frozen dataclass; equal families are run together.

    Class attributes:
        needs_gradients: Whether the model must be differentiable.
        version: To be raised when the same settings give other attributions than before, so that stored ones are
            computed anew.
    """

    needs_gradients: ClassVar[bool] = False
    version: ClassVar[int] = 1

    def check(self, members: Sequence[Any], given: Given) -> None:  # noqa: B027  # most have nothing to refuse
        """Refuse inputs or background data that cannot serve, before the model runs."""

    def rows(self, members: Sequence[Any], given: Given, place: Place) -> Rows | None:
        """Model rows that ``pieces`` will evaluate, to tell before a study starts; None where that is not known."""
        return None

    def begin(self, inputs: Shaped[np.ndarray, "n *shape"], threads: Executor) -> None:  # noqa: B027  # most have none
        """Begin, in other threads, what the processor has to do for inputs whose ``pieces`` will be asked for later."""

    @abstractmethod
    def pieces(self, members: Sequence[Any], explained: Explained) -> Iterator[Piece]:
        """Yield the members' attributions of all inputs, a bounded block at a time, in the order of the inputs."""


def check_family(family: Family, members: Sequence[Any], given: Given) -> None:
    """Refuse data that a family cannot use, before the model runs; gradients of whole numbers among them."""
    if family.needs_gradients and not given.inputs.is_floating_point():
        raise TypeError(NOT_DIFFERENTIABLE.format(what="its inputs are whole numbers"))
    family.check(members, given)
