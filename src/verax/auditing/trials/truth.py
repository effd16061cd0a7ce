"""Known truth: does it score best among false explanations, and more than any that is near it?"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from verax.auditing.audited_problem import AuditContext, AuditedProblem, Bench, Explanation, Scores
from verax.auditing.trials.base import Explanations, Outcome, Outcomes, Trial, false_explanations, present, randomly
from verax.core import noise
from verax.core.shapes import Bool, Float
from verax.evaluation.limits import limits
from verax.metrics.limit_reading import has_limits
from verax.perturbation.adaptive_curves import AdaptiveExperiment
from verax.statistics.intervals import Estimate, estimates, proportion, ratios_of_means
from verax.statistics.paired import real_differences

RANDOM = ("random", "random 1", "random 2", "random 3")
_FEW = 10  # features whose exact limits cost little
_SHOWN = 8  # features of a counter-example


@dataclass(frozen=True)
class PeaksAtTruth(Trial):
    """The part of the best score found that the truth reaches, where random explanations reach 0.

    Hill-climbing from the truth: in each round two features change places, one changes its sign or its size; of all
    that were tried, also for other metrics, every input keeps what the metric likes best. ``peaks_at_truth`` is 1 where
    nothing better was found; the input with the largest gain is the counter-example in ``says``. Where exact limits are
    known and cheap (metrics that weigh the points of their curves, on up to ten features),
    ``peaks_at_truth: of the exact limit`` is the part of the best possible score.

    Args:
        share: A share passes that is at least so large.
        inputs: The first so many are used.
        rounds: Of the climb.
        proposals: For each metric and round.
    """

    share: float = 0.95
    inputs: int = 16
    rounds: int = 3
    proposals: int = 6

    name: ClassVar[str] = "peaks_at_truth"
    asks: ClassVar[str] = "Does any explanation near the truth score better than the truth?"
    needs_truth: ClassVar[bool | None] = True

    @property
    def passes(self) -> str:
        return (
            f"The truth reaches at least {self.share:g} of the best score found, or of the exact limit. A tie with the "
            "truth is none better."
        )

    def explanations(self, ground: AuditContext) -> Explanations:
        if ground.truth is None:
            return {}
        return {"truth": ground.truth, **random_explanations(ground, ground.truth)}

    def outcomes(self, ground: AuditContext, shown: Explanations, scores: Scores, bench: Bench) -> Outcomes:
        if ground.truth is None:
            return
        some = slice(0, self.inputs)
        few, truth = bench.at(some), ground.truth[some]
        truth_scores = {name: measured["truth"][some] for name, measured in scores.items()}
        climbs = self._climbed(few, truth, truth_scores, ground.seed)
        for name, measured in scores.items():
            chance = torch.stack([measured[random_name][some] for random_name in RANDOM]).mean()
            best = climbs[name].scores
            share = ratios_of_means((truth_scores[name] - chance)[None], best - chance, ground.level)[0]
            says = _counter_example(truth, truth_scores[name], climbs[name])
            yield name, Outcome(self.name, share, share.mean >= self.share, len(truth), says=says)
        for name, share in _shares_of_limits(few, ground, truth_scores):
            passed = share.mean >= self.share
            yield name, Outcome(self.name, share, passed, len(truth), explanation="of the exact limit")

    def _climbed(
        self, bench: Bench, truth: Explanation, scores: dict[str, Float[Tensor, " n"]], seed: int
    ) -> dict[str, "_Climb"]:
        climbs = {name: _Climb(truth, start) for name, start in scores.items()}
        for number in range(self.rounds):
            tried = {
                f"{name}/{at}": _moved(bench.subject, climb.place, f"{seed}/{name}", number * self.proposals + at)
                for name, climb in climbs.items()
                for at in range(self.proposals)
            }
            values = torch.stack(list(tried.values()))
            measured = bench.scores(tried)
            climbs = {
                name: climb.better(values, torch.stack(list(measured[name].values()))) for name, climb in climbs.items()
            }
        return climbs


@dataclass(frozen=True)
class _Climb:
    """Where a climb is: an explanation and its score for each input."""

    place: Explanation
    scores: Float[Tensor, " n"]

    def better(self, tried: Float[Tensor, "t n features"], scores: Float[Tensor, "t n"]) -> "_Climb":
        best = scores.argmax(0)
        top = scores.gather(0, best[None])[0]
        gain = real_differences(self.scores, top[None])[0] < 0
        place = tried[best, torch.arange(len(best))]
        return _Climb(torch.where(gain[:, None], place, self.place), torch.where(gain, top, self.scores))


def random_explanations(ground: AuditContext, like: Explanation) -> dict[str, Explanation]:
    """Several that know nothing: what a metric gives them is chance."""
    return {name: randomly(ground.subject, ground.seed, like, draw) for draw, name in enumerate(RANDOM)}


def _moved(subject: AuditedProblem, place: Explanation, purpose: str, number: int) -> Explanation:
    """A small step: two features change places, or one its sign, or one its size."""
    keys = noise.input_keys(subject.values, 0, f"audit/climb/{purpose}")
    lots = noise.words(keys, 4 * number, 4)
    counts = present(subject).sum(1)
    source, other = ((lots[:, at] & 0x7FFFFFFF) % counts for at in (0, 1))
    rows, kind = torch.arange(len(place)), (lots[:, 2] & 0x7FFFFFFF) % 3
    factor = noise.normals(keys + number, 0, 1, 1, torch.float64)[:, 0, 0].exp()
    first, second = place[rows, source], place[rows, other]
    moved = place.clone()
    moved[rows, other] = torch.where(kind == 0, first, second)
    moved[rows, source] = torch.where(kind == 0, second, first * torch.where(kind == 1, -1.0, factor))
    return moved


def _counter_example(truth: Explanation, scores: Float[Tensor, " n"], climb: _Climb) -> str:
    gains = -real_differences(scores, climb.scores[None])[0]
    at = int(gains.argmax())
    if not gains[at] > 0:
        return ""
    text = f"on input {at} another explanation scores {climb.scores[at]:.4g}, the truth {scores[at]:.4g}"
    if truth.shape[1] > _SHOWN:
        return text
    return f"{text}: {_listed(climb.place[at])} instead of {_listed(truth[at])}"


def _listed(values: Float[Tensor, " features"]) -> str:
    return f"({', '.join(f'{value:.2g}' for value in values.tolist())})"


def _shares_of_limits(
    bench: Bench, ground: AuditContext, scores: dict[str, Float[Tensor, " n"]]
) -> Iterator[tuple[str, Estimate]]:
    subject = bench.subject
    known = {
        name: metric
        for name, metric in bench.metrics.items()
        if has_limits(metric)
        and not isinstance(metric.experiment, AdaptiveExperiment)
        and metric.experiment.steps >= subject.features
        and subject.problem.fitted(metric.experiment.replacement or bench.replacement).repeats == 1
    }
    if not known or subject.features > _FEW:
        return
    for name, limit in limits(subject.problem.with_replacement(bench.replacement), known).items():
        if limit.exact and not bool(limit.random.isnan().any()):
            upwards = 1 if limit.metric.higher_is_better else -1  # as all scores of an audit are
            above, room = limit.above(upwards * scores[name][None])
            yield name, ratios_of_means(above, room, ground.level)[0]


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
        return (
            f"The interval of the share of inputs is above {self.share:g}, that of the mean difference above 0. A tie "
            "is not won."
        )

    def explanations(self, ground: AuditContext) -> Explanations:
        if ground.truth is None:
            return {}
        return {"truth": ground.truth, **false_explanations(ground, ground.truth)}

    def outcomes(self, ground: AuditContext, shown: Explanations, scores: Scores, bench: Bench) -> Outcomes:
        if ground.truth is None:
            return
        for name in false_explanations(ground, ground.truth):
            other = differs(ground.truth, shown[name])
            if not bool(other.any()):
                continue
            for metric, measured in scores.items():
                difference = real_differences(measured["truth"], measured[name][None])[0][other]
                count, ties = len(difference), float((difference == 0).double().mean())
                won, enough = proportion(difference > 0, ground.level), count >= self.fewest
                passed = won.low > self.share if enough else None
                yield metric, Outcome(self.name, won, passed, count, ties, _words(name, won, ties), name)
                mean = estimates(difference[None], level=ground.level)[0]
                passed = mean.low > 0 if enough else None
                yield metric, Outcome(f"{self.name}_on_average", mean, passed, count, ties, explanation=name)


def differs(truth: Explanation, other: Explanation) -> Bool[Tensor, " n"]:
    """On which inputs two explanations are not the same."""
    size = truth.abs().amax(1, keepdim=True)
    return ((truth - other).abs() > _EQUAL * size).any(1)


def _words(name: str, won: Estimate, ties: float) -> str:
    if ties == 1:
        return f"gives the truth and {name} the same score on every input"
    if won.high < 0.5:
        return f"puts {name} above the truth, or level with it, on most inputs"
    return ""
