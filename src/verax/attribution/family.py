"""Families: methods that share model evaluations, and what they give back."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from verax.core import noise
from verax.core.shapes import Float, Int, Shaped
from verax.problem.baselines import checked_background
from verax.problem.features import Groups
from verax.problem.problem import Problem
from verax.scoring.meter import Rows
from verax.scoring.session import NOT_DIFFERENTIABLE


def input_keys(problem: Problem, which: Int[Tensor, " b"], seed: int, purpose: str) -> Int[Tensor, " b"]:
    """Keys of random numbers for some inputs; what is never removed, such as padding, has no say."""
    inputs, features = problem.inputs[which.to(problem.inputs.device)].to(which.device), problem.features
    fixed = features.fixed if isinstance(features, Groups) else None
    if fixed is not None:
        fixed = (fixed[which.to(fixed.device)] if len(fixed) > 1 else fixed).to(which.device)
    return noise.input_keys(inputs.flatten(1), seed, purpose, fixed)


def check_background(problem: Problem) -> None:
    """Raise for gaps in a background that methods would show to a model that takes none."""
    missing = problem.given.missing or problem.scorer.takes_missing
    checked_background(problem.background, problem.background_labels, problem.inputs, missing=missing)


@dataclass(frozen=True)
class Piece:
    """Attributions of some inputs for all members of a family.

    Attributes:
        rows: Which inputs.
        values: One attribution per member and input.
        delta: For methods that promise completeness, how far each input's attributions are from summing to the score
            difference, relative to its size; otherwise None.
        errors: For methods that estimate them, standard errors in the shape of the values; otherwise None.
    """

    rows: slice
    values: Float[Tensor, "k b *shape"]
    delta: Float[Tensor, " b"] | None = None
    errors: Float[Tensor, "k b *shape"] | None = None


@dataclass(frozen=True)
class Place:
    """Where a family will run.

    Attributes:
        device: Of the model.
        batch_size: Model rows at once.
    """

    device: torch.device
    batch_size: int


class Family(ABC):
    """Configurations that share model evaluations. Derive a frozen dataclass; equal families are run together.

    Class attributes:
        needs_gradients: Whether the model must be differentiable.
        version: To be raised when the same settings give other attributions than before, so that stored ones are
            computed anew.
    """

    needs_gradients: ClassVar[bool] = False
    version: ClassVar[int] = 1

    def check(self, members: Sequence[Any], problem: Problem) -> None:  # noqa: B027  # most have nothing to check
        """Raise for inputs or background data that cannot serve, before the model runs."""

    def rows(self, members: Sequence[Any], problem: Problem, place: Place) -> Rows | None:
        """Model rows that ``pieces`` will evaluate, to tell before a study starts; None where that is not known."""
        return None

    def begin(self, inputs: Shaped[np.ndarray, "n *shape"], threads: Executor) -> None:  # noqa: B027  # most have none
        """Begin, in other threads, what the processor has to do for inputs whose ``pieces`` are needed later."""

    @abstractmethod
    def pieces(self, members: Sequence[Any], problem: Problem) -> Iterator[Piece]:
        """Yield the members' attributions of all inputs, a bounded block at a time, in the order of the inputs.

        The problem's model is held ready: ``problem.open_session`` scores what methods explain, ``problem.classes`` and
        ``problem.scores()`` are on its device, and so must be the blocks of rows that it is given.
        """


def check_family(family: Family, members: Sequence[Any], problem: Problem) -> None:
    """Raise for data that a family cannot use, before the model runs; gradients of whole numbers among them."""
    if family.needs_gradients and not problem.inputs.is_floating_point():
        raise TypeError(NOT_DIFFERENTIABLE.format(what="its inputs are whole numbers"))
    family.check(members, problem)
