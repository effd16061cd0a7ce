"""Verdicts: which explanations are the best, which beat a random one, and what to believe, question by question."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

from verax.core import noise
from verax.core.shapes import Float
from verax.evaluation.ranking import REFERENCE, best_first
from verax.metrics.base import Kind
from verax.metrics.choose import QUESTIONS, doubt
from verax.metrics.effect_correlation import EffectCorrelationResult
from verax.metrics.result import Result
from verax.problem.attributed import Attributed
from verax.statistics.intervals import Estimate
from verax.statistics.paired import holm, paired_p_values, real_differences

Verdict = Literal[
    "best",
    "not significantly different from the best",
    "better than random",
    "no better than random",
    "worse than random",
]
BEST, TIED, BETTER, NO_BETTER, WORSE = get_args(Verdict)
_FLAT = 0.5  # of small changes that leave a score exactly as it is, from which it has no slope to speak of
_NAMED = 4  # explanations in a sentence
_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True, eq=False)
class Judgement:
    """The explanations of a comparison under the metric that answers one question."""

    kind: Kind  # the question
    column: str  # what the metric's results are called
    result: Result  # what was measured, the random explanation included
    reference: str  # the name of the random explanation
    level: float  # one minus the chance of any false verdict against random, and of losing the best among the tied ones

    @property
    def label(self) -> str:
        """What people read for the metric."""
        return str(self.result.metric.label_as(self.column))

    @property
    def names(self) -> list[str]:
        """The explanations, without the random one."""
        return [name for name in self.result.labels if name != self.reference]

    @cached_property
    def means(self) -> dict[str, Estimate]:
        """The mean of each, the random one included, with its interval."""
        return dict(zip(self.result.labels, self.result.listed_means(self.level), strict=True))

    @cached_property
    def wins(self) -> dict[str, float]:
        """The share of inputs on which each is above the random one."""
        above = -self._against(self.reference, self.names) > 0
        return dict(zip(self.names, above.double().mean(1).tolist(), strict=True))

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """One word for each; none where the score has no slope to speak of."""
        if self.flat:
            return {}
        above = self._above_random()
        contenders = [name for name in self._best_first() if above[name] == BETTER]
        if not contenders:
            return above
        best, others = contenders[0], [name for name in self.names if name != contenders[0]]
        corrected = dict(zip(others, self._corrected(best, others), strict=True))  # of all that it is compared with
        return above | {name: TIED for name in contenders[1:] if corrected[name] > 1 - self.level} | {best: BEST}

    def columns(self) -> list[list[str]]:
        """Columns of a table, head first: the mean of each, on how many inputs it wins, and the verdict."""
        labels = self.result.labels
        wins = [f"{self.wins[name]:.0%}" if name in self.wins else "" for name in labels]
        words = [self.verdicts.get(name, "" if name == self.reference else "no answer") for name in labels]
        return [
            [self.label, *(str(self.means[name]) for name in labels)],
            ["wins", *wins],
            [f"verdict ({self.kind})", *words],
        ]

    @property
    def flat(self) -> float:
        """Under noise, the share of draws that leave the score as it is, where it is most of them; else 0."""
        return flat_share(flat_draws(self.result))

    @property
    def answer(self) -> str:
        """What to believe, a sentence or two."""
        sentences = (f'For "{QUESTIONS[self.kind]}", {self._belief()}.', doubt(self.result.metric, self.label))
        return " ".join(filter(None, sentences))

    def _belief(self) -> str:
        if self.flat:
            return f"there is no answer: {flat_words(self.flat)}"
        if self.result.scores.shape[1] < 2:
            return "there is no answer: one input shows no significant difference; pass several"
        best = next((name for name, verdict in self.verdicts.items() if verdict == BEST), None)
        top = best or self._best_first()[0]
        figure = f"{self.label} {self.means[top]}"
        if best is None:
            return (
                "believe none of these: none is significantly better than a random explanation "
                f"(the highest is {top}: {figure})"
            )
        ties = [name for name in self._best_first() if self.verdicts[name] == TIED]
        if ties:
            return f"believe {best} ({figure}) or {_listed(ties)}, not significantly different from it"
        others = len(self.names) - 1
        count = _COUNTS[others] if others < len(_COUNTS) else f"{others:,}"
        beaten = f"the other {count}" if others else "a random explanation"
        return f"believe {best} ({figure}, significantly better than {beaten})"

    def _above_random(self) -> dict[str, Verdict]:
        means = (-self._against(self.reference, self.names)).mean(1).tolist()
        tests = zip(self.names, means, self._corrected(self.reference, self.names), strict=True)
        return {name: NO_BETTER if p > 1 - self.level else BETTER if mean > 0 else WORSE for name, mean, p in tests}

    def _best_first(self) -> list[str]:
        ordered = (self.result.labels[place] for place in best_first(self.result))
        return [name for name in ordered if name != self.reference]

    def _against(self, first: str, others: Sequence[str]) -> Float[Tensor, "k n"]:
        """How much better the first is than each of the others, input by input."""
        sign, scores = 1 if self.result.metric.higher_is_better else -1, self._scores([first, *others])
        return sign * real_differences(scores[0], scores[1:], self.result.rounding)

    def _corrected(self, first: str, others: Sequence[str]) -> list[float]:
        """P-values of the first against each of the others, corrected for their number."""
        scores = self._scores([first, *others])
        return holm(paired_p_values(scores[0], scores[1:], self.result.rounding)) if others else []

    def _scores(self, names: Sequence[str]) -> Float[Tensor, "k n"]:
        return self.result.scores[[self.result.labels.index(name) for name in names]]


def flat_draws(result: Result) -> Float[Tensor, " n"]:
    """For each input, the share of small changes that leave the score exactly as it is; 0 where none are made."""
    if result.metric.kind == "local" and isinstance(result, EffectCorrelationResult):
        return result.flat.cpu()
    return torch.zeros(result.scores.shape[1], dtype=torch.float64)


def flat_share(unmoved: Float[Tensor, " n"]) -> float:
    """The share of small changes that leave the score as it is, where it is most of them; else 0."""
    share = float(unmoved.mean())
    return share if share > _FLAT else 0.0


def flat_words(share: float) -> str:
    """Why a score that most small changes leave as it is has no local explanation."""
    return (
        f"{share:.0%} of small changes leave the score exactly as it is, as those of trees and of saturated "
        "probabilities do"
    )


def with_reference(rated: Attributed) -> Attributed:
    """The same with a random explanation of our own, which knows neither model nor data."""
    if REFERENCE in rated.layout.names:
        raise ValueError(f"attributions: {REFERENCE!r} is what compare calls its own random explanation; rename it.")
    names = rated.layout.labels(len(rated.attributions))
    rated = replace(rated, layout=replace(rated.layout, form="dict", names=names))
    return rated.with_another(REFERENCE, _random(rated))


def _random(rated: Attributed) -> Tensor:
    first, fixed = rated.attributions[0], rated.given.fixed(slice(None))
    keys = noise.input_keys(rated.inputs, 0, "reference", None if fixed is None else fixed.to(rated.inputs.device))
    drawn = noise.normals(keys, 0, 1, first[0].numel(), first.dtype).reshape(first.shape)
    return drawn if fixed is None else drawn.masked_fill(fixed.to(drawn.device), 0)


def _listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    Example:
        >>> _listed(["LIME"]), _listed(["LIME", "SHAP"]), _listed(list("abcdefg"))
        ('LIME', 'LIME or SHAP', 'a, b, c, d or 3 more')
    """
    shown = list(names) if len(names) <= _NAMED + 1 else [*names[:_NAMED], f"{len(names) - _NAMED} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
