"""The contract of trials, and the false and damaged explanations that they show to metrics.

Derive a frozen dataclass from ``Trial``; defining it makes its name known to ``verax.audit(trials=...)``. All
explanations of all trials are scored in one pass. False ones take one number per input and feature, and give the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from verax.auditing.audited_problem import AuditContext, AuditedProblem, Bench, Explanation, Scores
from verax.core import noise
from verax.core.registry import Registry
from verax.core.shapes import Bool, Float
from verax.statistics.intervals import Estimate

TRIALS: "Registry[Trial]" = Registry("trial")
Explanations = Mapping[str, Explanation]
Outcomes = Iterator[tuple[str, "Outcome"]]


class Named:
    """What is named by a trial and the explanation that it is about."""

    family: str
    explanation: str
    against: str

    @property
    def about(self) -> str:
        """What the trial was about: the false explanation, or the pair."""
        return f"{self.explanation} from {self.against}" if self.against else self.explanation

    @property
    def trial(self) -> str:
        """The trial's name, and after a colon what it was about."""
        return f"{self.family}: {self.about}" if self.about else self.family


@dataclass(frozen=True)
class Outcome(Named):
    """What a trial found of one metric.

    Attributes:
        family: The name of the trial, or of one of its figures.
        value: The figure with its interval.
        passed: Whether it is good enough; None where there is nothing to be good at.
        inputs: Inputs that it was found on.
        ties: Share of them on which the metric gave both explanations the same score.
        says: What was found, in words, where the figure does not say it.
        explanation: What it was about: an explanation, or which figure; empty for the truth.
        against: What that was compared with, where it is another explanation.
    """

    family: str
    value: Estimate
    passed: bool | None
    inputs: int
    ties: float = 0.0
    says: str = ""
    explanation: str = ""
    against: str = ""


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

    def left_out(self, ground: AuditContext) -> str:
        """Why it cannot be made here, a sentence; empty where it can."""
        return ""

    def explanations(self, ground: AuditContext) -> Explanations:
        """What all metrics are to score, by name; the same name stands for the same explanation in all trials."""
        return {}

    @abstractmethod
    def outcomes(self, ground: AuditContext, shown: Explanations, scores: Scores, bench: Bench) -> Outcomes:
        """What came out, each with the name of its metric.

        Args:
            ground: The model, and what is known of it.
            shown: The explanations of all trials.
            scores: What metrics gave them.
            bench: Scores further ones.
        """


DRAWN = "(drawn at random)"  # unlike the name of anybody's explanation
NOISES = (0.25, 0.5, 1.0, 2.0)  # standard deviations, in units of the explanation's own size


def false_explanations(ground: AuditContext, truth: Explanation) -> dict[str, Explanation]:
    """All alternatives to a truth, by name."""
    subject, seed = ground.subject, ground.seed
    explanations = {
        "random": randomly(subject, seed, truth),
        "permuted": permuted(subject, seed, truth),
        "-a": -truth,
        "-1/a": inverse(truth, present(subject)),
        "half-reversed signs": half_reversed(truth, present(subject)),
        "a constant added": truth + 2 * truth.abs().amax(1, keepdim=True),  # no feature becomes 0 by it
    }
    local = subject.truths.get("local")
    if local is not None and subject.away is not None:
        slope = local.attribution.double()
        explanations["sign(g) |g (x - b)|"] = slope.sign() * (slope * subject.away).abs()
    explanations |= {f"noise {size}": noisy(subject, seed, truth, size) for size in NOISES}
    other = subject.truths.get("baseline" if ground.kind == "local" else "local")
    if other is not None:
        explanations["the truth of the other kind"] = other.attribution.double()
    return explanations


def randomly(subject: AuditedProblem, seed: int, like: Explanation, draw: int = 0) -> Explanation:
    """Normal numbers of the same size, which know nothing."""
    keys = subject.keys(seed, "random")
    return noise.normals(keys, draw, 1, like.shape[1], torch.float64)[:, 0] * _size(like)


def permuted(subject: AuditedProblem, seed: int, truth: Explanation) -> Explanation:
    """The same numbers on other features, at random."""
    lots = noise.words(subject.keys(seed, "permuted"), 0, truth.shape[1])
    absent = ~present(subject)
    order = lots.masked_fill(absent, torch.iinfo(torch.int64).max).argsort(dim=1, stable=True)
    return torch.where(absent, truth, truth.gather(1, order))


def inverse(truth: Explanation, known: Bool[Tensor, "n features"]) -> Explanation:
    """``-1/a``: every sign and the whole ranking reversed; the truth itself where a feature has 0."""
    defined = ((truth != 0) | ~known).all(1, keepdim=True)
    safe = torch.where(truth == 0, 1.0, truth)
    return torch.where(defined & known, -1 / safe, truth)


def half_reversed(truth: Explanation, known: Bool[Tensor, "n features"]) -> Explanation:
    """The signs of the smaller half of the features reversed."""
    size = truth.abs().masked_fill(~known, torch.inf)
    rank = size.argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    lower = rank < known.sum(1, keepdim=True) // 2
    return torch.where(lower, -truth, truth)


def noisy(subject: AuditedProblem, seed: int, truth: Explanation, size: float) -> Explanation:
    """Noise added, of so many times the explanation's own size."""
    drawn = noise.normals(subject.keys(seed, "noise"), 0, 1, truth.shape[1], torch.float64)[:, 0]
    return truth + size * _size(truth) * drawn


def damaged(subject: AuditedProblem, seed: int, truth: Explanation, damage: float) -> Explanation:
    """A mixture of an explanation and noise of its own size: from 0, untouched, to 1, noise alone."""
    drawn = noise.normals(subject.keys(seed, "damage"), 0, 1, truth.shape[1], torch.float64)[:, 0]
    return (1 - damage) * truth + damage * _size(truth) * drawn


def present(subject: AuditedProblem) -> Bool[Tensor, "n features"]:
    """Which features an input has; where inputs differ, some have fewer."""
    return torch.arange(subject.features) < subject.counts[:, None]


def _size(values: Explanation) -> Float[Tensor, "n 1"]:
    """Root mean square of each input's explanation; 1 where it is 0 everywhere."""
    size = values.square().mean(1, keepdim=True).sqrt()
    return torch.where(size > 0, size, 1.0)
