"""Does a ranking survive another replacement? The same attributions on the same inputs, ranked under both."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from verax.evaluation.ranking import Difference, all_pairs
from verax.evaluation.result import Evaluation
from verax.evaluation.verdicts import REFERENCE
from verax.metrics.base import GuidedMetric
from verax.statistics.intervals import Estimate
from verax.statistics.ranks import rank_agreement

_SHOWN = 3  # pairs in a sentence


@dataclass(frozen=True)
class Elsewhere:
    """The results of a comparison under another replacement.

    Attributes:
        replacement: What removed features become there.
        evaluation: Results of the metrics that it makes a difference to.
        refused: Why others of them cannot be measured there, by name.
    """

    replacement: str
    evaluation: Evaluation
    refused: Mapping[str, str]

    @property
    def guided(self) -> bool:
        """Whether some metric there removes features in the order of attributions."""
        return any(isinstance(result.metric, GuidedMetric) for result in self.evaluation.values())


@dataclass(frozen=True)
class PairElsewhere:
    """Two attributions under both replacements, first minus second each time.

    Attributes:
        here: Their difference under the replacement of the comparison.
        there: That under the other one.
    """

    here: Difference
    there: Difference

    @property
    def turns(self) -> bool:
        """Told apart under both, the other way round."""
        return self.here.told_apart and self.there.told_apart and self.here.word != self.there.word

    @property
    def stays(self) -> bool:
        """Told apart under both, alike."""
        return self.here.told_apart and self.here.word == self.there.word


@dataclass(frozen=True)
class Survival:
    """One metric's ranking under two replacements.

    Attributes:
        metric: Its name among the results.
        label: What people read.
        here: The replacement of the comparison.
        there: The other one.
        tau: Kendall's tau-b of the two rankings, with a bootstrap interval over inputs.
        pairs: All pairs of attributions under both.
    """

    metric: str
    label: str
    here: str
    there: str
    tau: Estimate
    pairs: tuple[PairElsewhere, ...]

    @property
    def told_apart(self) -> int:
        """Pairs that are told apart under the replacement of the comparison."""
        return sum(pair.here.told_apart for pair in self.pairs)

    @property
    def stay(self) -> int:
        """Those of them that are told apart under the other one, alike."""
        return sum(pair.stays for pair in self.pairs)

    @property
    def turned(self) -> tuple[PairElsewhere, ...]:
        """Those of them that are told apart there the other way round."""
        return tuple(pair for pair in self.pairs if pair.turns)

    @property
    def word(self) -> str:
        """``"turns"``, ``"survives"``, ``"survives in part"``, or ``"says nothing"`` where no pair is told apart."""
        if self.turned:
            return "turns"
        if not self.told_apart:
            return "says nothing"
        return "survives" if self.stay == self.told_apart else "survives in part"

    def __str__(self) -> str:
        tau = f"Kendall's tau {self.tau}"
        if self.word == "says nothing":
            return f"{self.label}: nothing is told apart under {self.here}, so {self.there} can turn nothing; {tau}"
        kept = f"{self.stay} of {self.told_apart} pairs told apart under {self.here} stay so"
        said = f"{self.label}: the ranking {self.word} under {self.there} ({kept}; {tau})"
        turned = [f"{pair.here}, and {pair.there.word} by {pair.there.size} there" for pair in self.turned[:_SHOWN]]
        more = [f"{len(self.turned) - _SHOWN} more"] if len(self.turned) > _SHOWN else []
        return ": ".join([said, "; ".join([*turned, *more])]) if turned else said

    def facts(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "metric": self.metric,
            "here": self.here,
            "there": self.there,
            "word": self.word,
            "tau": self.tau.mean,
            "low": self.tau.low,
            "high": self.tau.high,
            "told_apart": self.told_apart,
            "stay": self.stay,
            "turn": len(self.turned),
        }


def survivals(here: Evaluation, replacement: str, others: tuple[Elsewhere, ...], level: float) -> Iterator[Survival]:
    """Each metric's ranking under each other replacement; without the random explanation, and where there is one.

    Args:
        here: The results that are asked about.
        replacement: What removed features become in them.
        others: Results under other replacements.
        level: Coverage of the intervals.
    """
    ranked = [place for place, label in enumerate(here.labels) if label != REFERENCE]
    for name in here if len(ranked) > 1 else ():
        for other in (one for one in others if name in one.evaluation):
            results = here[name], other.evaluation[name]
            tau = rank_agreement(results[0].scores[ranked], results[1].scores[ranked], level)
            pairs = zip(*(all_pairs(result, name, level) for result in results), strict=True)
            found = tuple(PairElsewhere(*pair) for pair in pairs if REFERENCE not in (pair[0].first, pair[0].second))
            yield Survival(name, here.label(name), replacement, other.replacement, tau, found)
