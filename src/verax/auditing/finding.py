"""Findings: what a trial found of a metric on a case, and what was left out."""

from dataclasses import dataclass, fields
from typing import Any

from verax.metrics.base import Kind

COLUMNS = ("metric", "replacement", "case", "trial", "value", "low", "high", "passed")


@dataclass(frozen=True)
class Finding:
    """One row of an audit.

    Attributes:
        metric: Its name, with settings where several share one.
        replacement: What removed features became.
        case: What it was tried on.
        trial: What was asked, and of which explanation.
        value: The figure.
        low: Where its interval begins.
        high: Where it ends.
        passed: Whether it is good enough; None where nothing is asked of it.
        kind: What the metric rates, and which truth it was judged by.
        scale: Size of the neighbourhood in which that truth holds; None for the limit of small ones.
        inputs: Inputs that it was found on.
        ties: Share of them on which both explanations got the same score.
        says: What was found, in words, where the figure does not say it.
    """

    metric: str
    replacement: str
    case: str
    trial: str
    value: float
    low: float
    high: float
    passed: bool | None
    kind: Kind
    scale: float | None
    inputs: int
    ties: float
    says: str

    @property
    def family(self) -> str:
        """The trial without what it was about."""
        return self.trial.split(":")[0]

    @property
    def about(self) -> str:
        """What the trial was about: the false explanation, or the pair."""
        return self.trial.partition(": ")[2]

    def plain(self) -> dict[str, Any]:
        """All of it by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class LeftOut:
    """What was not tried.

    Attributes:
        what: A metric, a replacement or a trial.
        case: Where.
        why: The reason, a sentence.
    """

    what: str
    case: str
    why: str
