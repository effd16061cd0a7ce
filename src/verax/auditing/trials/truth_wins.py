"""Truth wins: does a metric put the true explanation above false ones?"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from verax.auditing.bench import Bench, Scores
from verax.auditing.explanations import false_explanations
from verax.auditing.subject import Ground
from verax.auditing.trials.base import Explanations, Outcome, Trial
from verax.core.shapes import Bool, Float
from verax.statistics.intervals import Estimate, estimates, proportion
from verax.statistics.paired import real_differences

_EQUAL = 1e-9  # relative: an explanation that differs by no more is the truth


@dataclass(frozen=True)
class TruthWins(Trial):
    """Share of inputs on which the truth is strictly above a false explanation, and the mean of what it is above it.

    Each false explanation has two rows: ``truth_wins: -a`` is the share of inputs, ``truth_wins_on_average: -a`` the
    mean difference of scores in the metric's own unit, truth minus false, signed so that higher is better. Inputs on
    which the false one equals the truth are left out.

    Args:
        share: A share passes whose interval is above it.
        fewest: From fewer inputs nothing is judged.
    """

    share: float = 0.5
    fewest: int = 8

    name: ClassVar[str] = "truth_wins"
    asks: ClassVar[str] = "Is the true explanation above a false one?"
    needs_truth: ClassVar[bool | None] = True

    @property
    def passes(self) -> str:
        """When it is passed, and how ties count."""
        return (
            f"The interval of the share of inputs is above {self.share:g}, that of the mean difference above 0. A tie "
            "is not won."
        )

    def explanations(self, ground: Ground) -> Explanations:
        """The truth and all alternatives to it."""
        if ground.truth is None:
            return {}
        return {"truth": ground.truth, **false_explanations(ground, ground.truth)}

    def outcomes(
        self, ground: Ground, shown: Explanations, scores: Scores, bench: Bench
    ) -> Iterator[tuple[str, Outcome]]:
        """Two for each alternative."""
        if ground.truth is None:
            return
        for name in false_explanations(ground, ground.truth):
            other = differs(ground.truth, shown[name])
            if not bool(other.any()):
                continue
            for metric, found in scores.items():
                difference = real_differences(found["truth"], found[name][None])[0][other]
                yield from ((metric, outcome) for outcome in self._both(name, difference, ground.level))

    def _both(self, name: str, difference: Float[Tensor, " n"], level: float) -> Iterator[Outcome]:
        count, ties = len(difference), float((difference == 0).double().mean())
        won, enough = proportion(difference > 0, level), count >= self.fewest
        passed = won.low > self.share if enough else None
        yield Outcome(f"{self.name}: {name}", won, passed, count, ties, _words(name, won, ties))
        mean = estimates(difference[None], level=level)[0]
        yield Outcome(f"{self.name}_on_average: {name}", mean, mean.low > 0 if enough else None, count, ties)


def differs(truth: Float[Tensor, "n features"], other: Float[Tensor, "n features"]) -> Bool[Tensor, " n"]:
    """On which inputs two explanations are not the same."""
    size = truth.abs().amax(1, keepdim=True)
    return ((truth - other).abs() > _EQUAL * size).any(1)


def _words(name: str, won: Estimate, ties: float) -> str:
    if ties == 1:
        return f"gives the truth and {name} the same score on every input"
    if won.high < 0.5:
        return f"puts {name} above the truth, or level with it, on most inputs"
    return ""
