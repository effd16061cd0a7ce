"""Rankings of attributions under one metric, paired over inputs: which are tied, and what other replacements change."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from verax.metrics.base import GuidedMetric
from verax.metrics.result import Result
from verax.statistics.intervals import LEVEL, Estimate
from verax.statistics.paired import paired_differences
from verax.statistics.ranks import rank_agreement, tied

if TYPE_CHECKING:
    from verax.evaluation.result import Evaluation

REFERENCE = "random (reference)"  # what compare calls its own random explanation
NOT_SIGNIFICANT = "not significantly different"
_SHOWN = 3  # pairs in a sentence


def best_first(result: Result) -> list[int]:
    """Places of the attributions by their means, the best first; those equal but for rounding as they were given."""
    means = tied(np.array(result.scores.double().mean(1).tolist()), result.rounding)
    sign = -1 if result.metric.higher_is_better else 1
    return sorted(range(len(means)), key=lambda place: sign * means[place])


def not_significantly_different(result: Result, level: float = LEVEL) -> list[int]:
    """Places of the best attribution and of all whose paired difference to it may be zero, in that order.

    Example:
        >>> import torch, verax
        >>> x = torch.randn(9, 4)
        >>> result = verax.metrics.PredictionChange()(verax.Problem(torch.nn.Linear(4, 2), x), {"a": x, "twice": 2 * x})
        >>> not_significantly_different(result)
        [0, 1]
    """
    best, *rest = best_first(result)
    scores = result.scores
    differences = paired_differences(scores[best], scores[rest], level, result.rounding) if rest else []
    return [best, *(place for place, difference in zip(rest, differences, strict=True) if difference.may_be_zero)]


@dataclass(frozen=True)
class Difference(Estimate):
    """Two attributions under one metric, on the same inputs: the mean over inputs of first minus second.

    Attributes:
        first: Name of the first attribution.
        second: Name of the second.
        metric: What was compared.
        higher_is_better: The direction of the metric.
    """

    first: str
    second: str
    metric: str
    higher_is_better: bool

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out 0."""
        return not self.may_be_zero

    @property
    def word(self) -> str:
        """The first one is ``"better"`` or ``"worse"``, or ``"not significantly different"``."""
        if self.may_be_zero:
            return NOT_SIGNIFICANT
        return "better" if (self.mean > 0) == self.higher_is_better else "worse"

    @property
    def size(self) -> str:
        """How large it is, whichever way, with its interval."""
        size = self if self.mean > 0 else Estimate(-self.mean, self.standard_error, -self.high, -self.low)
        return Estimate.__str__(size)

    def __str__(self) -> str:
        if self.word == NOT_SIGNIFICANT:
            return f"{self.first} and {self.second} are {NOT_SIGNIFICANT}: {super().__str__()}"
        return f"{self.first} is {self.word} than {self.second} by {self.size}"


def differences(result: Result, metric: str, first: str, others: Sequence[str], level: float) -> list[Difference]:
    """An attribution minus each of several others, with paired t intervals over inputs."""
    scores = result.scores[[result.labels.index(name) for name in (first, *others)]]
    estimates = paired_differences(scores[0], scores[1:], level, result.rounding) if others else []
    higher = bool(result.metric.higher_is_better)
    return [
        Difference(**vars(estimate), first=first, second=second, metric=metric, higher_is_better=higher)
        for second, estimate in zip(others, estimates, strict=True)
    ]


@dataclass(frozen=True)
class AlternativeResult:
    """The results of a comparison under another replacement.

    Attributes:
        replacement: What removed features become there.
        evaluation: Results of the metrics that it makes a difference to.
        unsupported: Why others of them cannot be measured there, by name.
    """

    replacement: str
    evaluation: "Evaluation"
    unsupported: Mapping[str, str]

    @property
    def guided(self) -> bool:
        """Whether some metric there removes features in the order of attributions."""
        return any(isinstance(result.metric, GuidedMetric) for result in self.evaluation.values())


@dataclass(frozen=True)
class PairUnderBoth:
    """Two attributions under both replacements, first minus second each time.

    Attributes:
        default: Their difference under the replacement of the comparison.
        other: That under the other one.
    """

    default: Difference
    other: Difference

    @property
    def stays(self) -> bool:
        """Significantly different under both, in the same direction."""
        return self.default.significant and self.default.word == self.other.word

    @property
    def turns(self) -> bool:
        """Significantly different under both, in opposite directions."""
        return self.default.significant and self.other.significant and not self.stays


@dataclass(frozen=True)
class RankingStability:
    """One metric's ranking under two replacements.

    Attributes:
        metric: Its name among the results.
        label: What people read.
        default: The replacement of the comparison.
        other: The other one.
        tau: Kendall's tau-b of the two rankings, with a bootstrap interval over inputs.
        pairs: All pairs of attributions under both.
    """

    metric: str
    label: str
    default: str
    other: str
    tau: Estimate
    pairs: tuple[PairUnderBoth, ...]

    @property
    def significant(self) -> int:
        """Pairs that differ significantly under the replacement of the comparison."""
        return sum(pair.default.significant for pair in self.pairs)

    @property
    def stay(self) -> int:
        """Those of them that differ significantly under the other one, in the same direction."""
        return sum(pair.stays for pair in self.pairs)

    @property
    def turned(self) -> tuple[PairUnderBoth, ...]:
        """Those of them that differ significantly there in the opposite direction."""
        return tuple(pair for pair in self.pairs if pair.turns)

    @property
    def word(self) -> str:
        """``"turns"``, ``"survives"``, ``"survives in part"``, or ``"is inconclusive"`` without a significant pair."""
        if self.turned:
            return "turns"
        if not self.significant:
            return "is inconclusive"
        return "survives" if self.stay == self.significant else "survives in part"

    def __str__(self) -> str:
        tau = f"Kendall's tau {self.tau}"
        if self.word == "is inconclusive":
            none = f"no pair differs significantly under {self.default}"
            return f"{self.label}: {none}, so {self.other} can turn nothing; {tau}"
        kept = f"{self.stay} of {self.significant} pairs that differ significantly under {self.default} stay so"
        text = f"{self.label}: the ranking {self.word} under {self.other} ({kept}; {tau})"
        turned = [f"{pair.default}, and {pair.other.word} by {pair.other.size} there" for pair in self.turned[:_SHOWN]]
        more = [f"{len(self.turned) - _SHOWN} more"] if len(self.turned) > _SHOWN else []
        return ": ".join([text, "; ".join([*turned, *more])]) if turned else text

    def facts(self) -> dict[str, Any]:
        """The same as plain values."""
        tau = {"tau": self.tau.mean, "low": self.tau.low, "high": self.tau.high}
        counts = {"significant": self.significant, "stay": self.stay, "turn": len(self.turned)}
        return {"metric": self.metric, "default": self.default, "other": self.other, "word": self.word} | tau | counts


def ranking_stabilities(
    evaluation: "Evaluation", replacement: str, others: tuple[AlternativeResult, ...], level: float
) -> Iterator[RankingStability]:
    """Each metric's ranking under each other replacement; without the random explanation, and where there is one."""
    ranked = [place for place, label in enumerate(evaluation.labels) if label != REFERENCE]
    names = [evaluation.labels[place] for place in ranked]
    for name in evaluation if len(ranked) > 1 else ():
        for other in (other_result for other_result in others if name in other_result.evaluation):
            results = evaluation[name], other.evaluation[name]
            tau = rank_agreement(results[0].scores[ranked], results[1].scores[ranked], level)
            pairs = tuple(
                PairUnderBoth(*pair)
                for place, first in enumerate(names)
                for pair in zip(
                    *(differences(result, name, first, names[place + 1 :], level) for result in results), strict=True
                )
            )
            yield RankingStability(name, evaluation.label(name), replacement, other.replacement, tau, pairs)
