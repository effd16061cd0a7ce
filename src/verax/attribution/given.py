"""Families: methods that share model evaluations, what they are given, and what they give back."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from verax.core import noise
from verax.core.arguments import settle
from verax.core.shapes import Bool, Float, Int, Shaped
from verax.problem.baselines import baseline_tensor, checked_background
from verax.problem.features import FeatureMap, Groups, feature_map
from verax.problem.problem import Problem
from verax.scoring.adapters import Adapter
from verax.scoring.meter import Rows
from verax.scoring.session import NOT_DIFFERENTIABLE, Session


@dataclass(frozen=True)
class Given:
    """The data of a call.

    Attributes:
        inputs: Rows to explain, where the user keeps them.
        background: Rows that stand for the training data, or None.
        labels: The class of each background row, or None.
        features: What one feature is, for methods that remove features; ``"auto"`` where left out.
        baselines: What removed features become, seen in the inputs' shape; 0 where left out.
        codes: Which elements of a row are codes, which have no amounts to move; None where none is.
        model: The model, for methods that read it themselves; None where it is not known yet.
    """

    inputs: Shaped[Tensor, "n *shape"]
    background: Shaped[Tensor, "m *shape"] | None
    labels: Int[Tensor, " m"] | None
    features: FeatureMap = field(default=None, kw_only=True)  # type: ignore[assignment]  # settled below
    baselines: Shaped[Tensor, "n *shape"] = field(default=None, kw_only=True)  # type: ignore[assignment]
    codes: Bool[Tensor, "*shape"] | None = field(default=None, kw_only=True)
    model: Adapter | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.features is None:
            settle(self, features=feature_map("auto", self.inputs))
        if self.baselines is None:
            settle(self, baselines=baseline_tensor(0.0, self.inputs))

    def need_background(self, who: str) -> Shaped[Tensor, "m *shape"]:
        """Return the background, or say that it is missing."""
        if self.background is None:
            raise ValueError(f"background: {who} needs rows of the training data; pass background=train_inputs.")
        return self.background


def given_of(problem: Problem) -> Given:
    """The data of a problem, as families take them."""
    x, checked = problem.inputs, problem.given
    missing = checked.missing or problem.scorer.takes_missing
    background, labels = checked_background(problem.background, problem.background_labels, x, missing=missing)
    return Given(
        x,
        background,
        labels,
        features=checked.features,
        baselines=checked.baselines,
        codes=checked.codes,
        model=problem.scorer.adapter,
    )


@dataclass(frozen=True)
class Explained(Given):
    """What a family works on: the data, with a model held ready and the class of each input.

    Attributes:
        session: The model; scores are logits. Move blocks of inputs to ``session.device``.
        target: The class of each input, on the session's device.
        clean: The logit of that class for each unperturbed input, on the session's device.
    """

    session: Session
    target: Int[Tensor, " n"]
    clean: Float[Tensor, " n"]

    def scores(
        self, rows: Shaped[Tensor, "m *shape"] | None = None, owner: Int[Tensor, " m"] | None = None
    ) -> Float[Tensor, " m"]:
        """The explained score of rows that were made from the inputs; without rows that of the inputs, already paid.

        Args:
            rows: Changed copies of inputs, on any device; batches are made of them as memory allows.
            owner: The number of the input that each row came from, whose class is scored; may be left out where there
                is one row per input.
        """
        return self.clean if rows is None else self.session.scores_of(rows, owner, self.target)

    def gradients(
        self, rows: Shaped[Tensor, "m *shape"] | None = None, owner: Int[Tensor, " m"] | None = None
    ) -> Float[Tensor, "m *shape"]:
        """Gradients of the explained score at rows, by default at the inputs; arguments as in ``scores``."""
        return self.session.gradients_of(self.inputs if rows is None else rows, owner, self.target)

    def keys(self, which: Int[Tensor, " b"], seed: int, purpose: str) -> Int[Tensor, " b"]:
        """Keys of random numbers for some inputs; what is never removed, such as padding, has no say."""
        inputs = self.inputs[which.to(self.inputs.device)].to(which.device)
        held = self.features.fixed if isinstance(self.features, Groups) else None
        if held is not None:
            held = (held[which.to(held.device)] if len(held) > 1 else held).to(which.device)
        return noise.input_keys(inputs.flatten(1), seed, purpose, held)


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

    def check(self, members: Sequence[Any], given: Given) -> None:  # noqa: B027  # most have nothing to check
        """Raise for inputs or background data that cannot serve, before the model runs."""

    def rows(self, members: Sequence[Any], given: Given, place: Place) -> Rows | None:
        """Model rows that ``pieces`` will evaluate, to tell before a study starts; None where that is not known."""
        return None

    def begin(self, inputs: Shaped[np.ndarray, "n *shape"], threads: Executor) -> None:  # noqa: B027  # most have none
        """Begin, in other threads, what the processor has to do for inputs whose ``pieces`` will be asked for later."""

    @abstractmethod
    def pieces(self, members: Sequence[Any], explained: Explained) -> Iterator[Piece]:
        """Yield the members' attributions of all inputs, a bounded block at a time, in the order of the inputs."""


def check_family(family: Family, members: Sequence[Any], given: Given) -> None:
    """Raise for data that a family cannot use, before the model runs; gradients of whole numbers among them."""
    if family.needs_gradients and not given.inputs.is_floating_point():
        raise TypeError(NOT_DIFFERENTIABLE.format(what="its inputs are whole numbers"))
    family.check(members, given)
