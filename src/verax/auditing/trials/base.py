"""The contract of trials: explanations that metrics are shown, and what must come out of their scores.

Derive a frozen dataclass from ``Trial``; defining it makes its name known to ``verax.audit(trials=...)``. All
explanations of all trials are scored in one pass.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from verax.auditing.bench import Bench, Scores
from verax.auditing.subject import Ground
from verax.core.registry import Registry
from verax.core.shapes import Float
from verax.statistics.intervals import Estimate

TRIALS: "Registry[Trial]" = Registry("trial")
Explanations = Mapping[str, Float[Tensor, "n features"]]


@dataclass(frozen=True)
class Outcome:
    """What a trial found of one metric.

    Attributes:
        trial: Its name, and what it was about.
        value: The figure with its interval.
        passed: Whether it is good enough; None where there is nothing to be good at.
        inputs: Inputs that it was found on.
        ties: Share of them on which the metric gave both explanations the same score.
        says: What was found, in words, where the figure does not say it.
    """

    trial: str
    value: Estimate
    passed: bool | None
    inputs: int
    ties: float = 0.0
    says: str = ""


@dataclass(frozen=True)
class Trial(ABC):
    """A question to a metric. Its thresholds are its fields.

    Class attributes:
        name: What it is called.
        asks: The question, a sentence.
        needs_truth: Whether the true explanation must be known; None where it must not, because another trial asks for
            more then.
        validity: Whether it is about truth; otherwise about a metric's agreement with itself.
    """

    name: ClassVar[str]
    asks: ClassVar[str]
    needs_truth: ClassVar[bool | None] = False
    validity: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in cls.__dict__:
            TRIALS.add(cls.name, cls)

    @property
    @abstractmethod
    def passes(self) -> str:
        """When it is passed, and how ties count, a sentence."""

    def left_out(self, ground: Ground) -> str:
        """Why it cannot be made here, a sentence; empty where it can."""
        return ""

    def explanations(self, ground: Ground) -> Explanations:
        """What all metrics are to score, by name; the same name stands for the same explanation in all trials."""
        return {}

    @abstractmethod
    def outcomes(
        self, ground: Ground, shown: Explanations, scores: Scores, bench: Bench
    ) -> Iterator[tuple[str, Outcome]]:
        """What came out, each with the name of its metric.

        Args:
            ground: The model, and what is known of it.
            shown: The explanations of all trials.
            scores: What metrics gave them.
            bench: Scores further ones.
        """
